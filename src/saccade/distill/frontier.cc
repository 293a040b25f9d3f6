// Selectors that can be set by head are set by their own sensitivities; the others have one setting for all.
#include "saccade/distill/frontier.h"

#include <algorithm>
#include <cmath>

#include "saccade/base/error.h"
#include "saccade/distill/rivals.h"
#include "saccade/sparse/span.h"

namespace saccade {

using at::Tensor;

namespace {

class Measurement {
 public:
  Measurement(Transformer model, const FrontierOptions& options, const TextWindows& windows,
              const DistillRun& run)
      : model_(std::move(model)), options_(options), windows_(windows), run_(run) {
    detach(model_);
    dense_ = last_hidden_states(model_, windows_.held_out);
  }

  FrontierPoint point(const Selectors& selectors) {
    const HeldOutMeasure measured = measure_held_out(model_, selectors, windows_.held_out, dense_);
    return {measured.density, measured.divergence};
  }

  // By head, for one goal after the other. `also` is called while the selectors are set to each.
  FrontierCurve by_head(std::string name, std::string meaning, const Selectors& selectors,
                        const std::function<void()>& also = {}) {
    FrontierCurve curve{std::move(name), std::move(meaning), {}};
    const Sensitivity sensitivity = measure_sensitivity(model_, selectors, windows_.sense,
                                                        {.draws = options_.distill.draws,
                                                         .seed = options_.distill.seed,
                                                         .on_progress = [&](int64_t done, int64_t total) {
                                                           if (run_.on_progress)
                                                             run_.on_progress(curve.name, done, total);
                                                         }});
    for (const double goal : options_.goals) {
      set_by_estimate(selectors, sensitivity, goal);
      curve.points.push_back(point(selectors));
      if (also) also();
    }
    return finished(std::move(curve));
  }

  // The same setting for all heads.
  FrontierCurve uniform(std::string name, std::string meaning, const Selectors& selectors) {
    FrontierCurve curve{std::move(name), std::move(meaning), {}};
    const std::vector<double> settings = selectors[0]->settings();
    for (size_t index = 0; index < settings.size(); ++index) {
      for (const auto& selector : selectors)
        for (int64_t head = 0; head < model_->architecture().heads; ++head)
          for (int64_t range = 0; range < std::ssize(selector->ranges()); ++range)
            selector->set(head, range, settings[index]);
      curve.points.push_back(point(selectors));
      if (run_.on_progress)
        run_.on_progress(curve.name, static_cast<int64_t>(index) + 1, std::ssize(settings));
    }
    return finished(std::move(curve));
  }

 private:
  FrontierCurve finished(FrontierCurve curve) const {
    detach(model_);
    std::ranges::sort(curve.points, {}, &FrontierPoint::density);
    Json line{{"stage", "frontier"}, {"curve", curve.name}};
    for (const FrontierPoint& at : curve.points)
      line["points"].push_back({{"density", at.density}, {"divergence", at.divergence}});
    if (run_.on_event) run_.on_event(line);
    return curve;
  }

  Transformer model_;
  const FrontierOptions& options_;
  const TextWindows& windows_;
  const DistillRun& run_;
  std::vector<Tensor> dense_;
};

template <class Make>
Selectors for_each_layer(const Transformer& model, Make make) {
  Selectors result;
  for (int64_t layer = 0; layer < model->architecture().layers; ++layer) result.push_back(make(layer));
  return result;
}

double between(double x, double x0, double x1, double y0, double y1) {
  const double share = x1 == x0 ? 0 : (std::log(x) - std::log(x0)) / (std::log(x1) - std::log(x0));
  return std::exp(std::lerp(std::log(std::max(y0, 1e-12)), std::log(std::max(y1, 1e-12)), share));
}

}  // namespace

std::optional<double> FrontierCurve::divergence_at(double density) const {
  for (size_t at = 1; at < points.size(); ++at)
    if (points[at - 1].density <= density && density <= points[at].density)
      return between(density, points[at - 1].density, points[at].density, points[at - 1].divergence,
                     points[at].divergence);
  return std::nullopt;
}

std::optional<double> FrontierCurve::density_at(double divergence) const {
  for (size_t at = points.size(); at-- > 1;)
    if (points[at].divergence <= divergence && divergence <= points[at - 1].divergence)
      return between(divergence, std::max(points[at].divergence, 1e-12), points[at - 1].divergence,
                     points[at].density, points[at - 1].density);
  return std::nullopt;
}

Frontier measure_frontier(Transformer model, const TokenIds& text, const FrontierOptions& given,
                          const DistillRun& run) {
  FrontierOptions options = given;
  DistillOptions& distill = options.distill;
  check(distill);
  const Architecture& a = model->architecture();
  // One length: a curve that mixes lengths says nothing about either.
  if (distill.windows.empty()) distill.windows = {usual_windows(a, distill.selection.query_tile).front()};
  const TextWindows windows = cut_windows(text, distill.windows);
  detach(model);
  distill.decoding = false;
  const Selectors learned = train_selectors(model, windows, distill, run);
  for (const auto& selector : learned) require(selector != nullptr, "distill: stopped");
  const std::vector<int64_t> ranges = learned[0]->ranges();
  Measurement measurement(model, options, windows, run);
  Frontier frontier{.tokens = distill.windows.front().tokens};
  const SelectionOptions selection = distill.selection;
  const auto oracle = [&](int64_t tile) {
    SelectionOptions at = selection;
    at.query_tile = tile;
    return for_each_layer(model, [&](int64_t layer) {
      return std::make_shared<OracleSelector>(at, model->formula(layer), ranges);
    });
  };
  const auto span = [&](int64_t sinks, bool full_or_local) {
    SelectionOptions at = selection;
    at.sinks = sinks;
    return for_each_layer(model, [&](int64_t layer) {
      auto made = std::make_shared<SpanSelector>(at, looks_back_only(model->formula(layer)),
                                                 torch::zeros({a.heads}, torch::kLong));
      made->full_or_local(full_or_local);
      return made;
    });
  };

  // With and without approximation, at the very same settings.
  FrontierCurve exact{"learned, near keys weighed for all queries", "", {}};
  const bool scored = dynamic_cast<const LowRankSelector*>(learned[0].get()) != nullptr;
  const auto add_exact = [&] {
    if (!scored) return;  // a token gate weighs nothing
    Selectors all = for_each_layer(model, [&](int64_t layer) {
      const auto& from = dynamic_cast<LowRankSelector&>(*learned[static_cast<size_t>(layer)]);
      auto copy = std::make_shared<LowRankSelector>(from);
      copy->scorer().samples = copy->scorer().pool;
      return copy;
    });
    exact.points.push_back(measurement.point(all));
  };
  const std::string tile = fmt::format("tiles of {} queries", selection.query_tile);
  frontier.curves.push_back(measurement.by_head(fmt::format("learned {}", name_of(distill.kind)),
                                                fmt::format("scores that are learned, {}", tile), learned,
                                                add_exact));
  std::ranges::sort(exact.points, {}, &FrontierPoint::density);
  frontier.curves.push_back(
      measurement.by_head("oracle", fmt::format("true weights, {}", tile), oracle(selection.query_tile)));
  frontier.curves.push_back(
      measurement.by_head("oracle, single queries", "true weights, for each query by itself", oracle(1)));
  frontier.curves.push_back(measurement.by_head(
      "learned span", "each head has a window of its own, and sinks", span(selection.sinks, false)));
  frontier.curves.push_back(measurement.by_head("full or local",
                                                "each head looks at all keys, or at sinks and near ones",
                                                span(selection.sinks, true)));
  frontier.curves.push_back(measurement.uniform("sinks and window",
                                                "the first tokens and a window, the same for all heads",
                                                span(selection.sinks, false)));
  frontier.curves.push_back(
      measurement.uniform("window", "a window, the same for all heads", span(0, false)));
  frontier.curves.push_back(measurement.uniform(
      "pooled top-k", "the keys with the largest products with mean queries, as many for all heads",
      for_each_layer(model, [&](int64_t layer) {
        return std::make_shared<PooledTopK>(selection, looks_back_only(model->formula(layer)), a.heads,
                                            a.head_dim, distill.pool);
      })));
  frontier.curves.push_back(measurement.uniform(
      "random", "sinks, near keys, and some others by lot", for_each_layer(model, [&](int64_t layer) {
        return std::make_shared<RandomSelector>(selection, looks_back_only(model->formula(layer)),
                                                distill.seed + static_cast<uint64_t>(layer));
      })));
  const std::optional<double> density = frontier.curves[0].density_at(distill.goal.divergence);
  if (density) {
    const auto at = [&](const FrontierCurve& curve) { return curve.divergence_at(*density); };
    const auto learned_at = at(frontier.curves[0]), oracle_at = at(frontier.curves[1]),
               single_at = at(frontier.curves[2]), exact_at = at(exact);
    if (learned_at && oracle_at && single_at && exact_at)
      frontier.decomposition = Decomposition{*density, *single_at, *oracle_at - *single_at,
                                             *exact_at - *oracle_at, *learned_at - *exact_at};
  }
  return frontier;
}

Json to_json(const Frontier& frontier) {
  Json json{{"tokens", frontier.tokens}};
  for (const FrontierCurve& curve : frontier.curves) {
    Json points = Json::array();
    for (const FrontierPoint& at : curve.points)
      points.push_back({{"density", at.density}, {"divergence", at.divergence}});
    json["curves"].push_back({{"name", curve.name}, {"meaning", curve.meaning}, {"points", points}});
  }
  if (frontier.decomposition)
    json["decomposition"] = {{"density", frontier.decomposition->density},
                             {"best", frontier.decomposition->best},
                             {"granularity", frontier.decomposition->granularity},
                             {"mistakes", frontier.decomposition->mistakes},
                             {"approximation", frontier.decomposition->approximation}};
  return json;
}

}  // namespace saccade
