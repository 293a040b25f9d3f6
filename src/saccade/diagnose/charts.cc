// Layers run from left to right in every picture; heads from top to bottom.
#include "saccade/diagnose/charts.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "saccade/report/chart.h"

namespace saccade {
namespace {

constexpr size_t kMarked = 14;  // so many points of a line can carry marks

using RankMeasure = std::pair<const char*, double RankMeasures::*>;

// A line per measure over the blocks. The embedding is left of block 0; the last norm is no block.
Picture draw_over_blocks(const char* file, LineChart chart, const Diagnosis& diagnosis,
                         std::initializer_list<RankMeasure> measures) {
  chart.x_label = "after block (left of 0: the embedding)";
  for (const auto& [name, member] : measures) {
    Series series{.name = name, .markers = diagnosis.ranks.size() <= kMarked};
    for (size_t place = 0; place < diagnosis.ranks.size(); ++place) {
      if (diagnosis.ranks[place].after == "last norm") continue;
      series.x.push_back(static_cast<double>(place) - 1);
      series.y.push_back(diagnosis.ranks[place].rank.*member);
    }
    chart.series.push_back(std::move(series));
  }
  return {file, to_svg(chart)};
}

Picture draw_ranks(const Diagnosis& diagnosis, const std::string& subject) {
  return draw_over_blocks(
      "rank.svg",
      {.title = "Rank of the tokens", .subtitle = subject, .y_label = "directions", .log_y = true}, diagnosis,
      {{"effective", &RankMeasures::effective_rank},
       {"effective, centred", &RankMeasures::centred_effective_rank},
       {"stable", &RankMeasures::stable_rank},
       {"stable, centred", &RankMeasures::centred_stable_rank}});
}

Picture draw_similarity(const Diagnosis& diagnosis, const std::string& subject) {
  return draw_over_blocks(
      "similarity.svg",
      {.title = "How alike the tokens are", .subtitle = subject, .y_label = "cosine, and shares of the size"},
      diagnosis,
      {{"mean cosine of pairs", &RankMeasures::cosine},
       {"left without the mean", &RankMeasures::mean_residual},
       {"left without rank one", &RankMeasures::rank_one_residual}});
}

Picture draw_gradients(const Gradients& gradients, const std::string& subject) {
  LineChart chart{.title = "Gradient of the loss",
                  .subtitle = subject,
                  .x_label = "layer",
                  .y_label = "norm",
                  .log_y = true};
  const std::pair<const char*, double LayerGradients::*> parts[] = {
      {"entering states", &LayerGradients::entering},
      {"whole block", &LayerGradients::block},
      {"queries", &LayerGradients::query},
      {"keys", &LayerGradients::key},
      {"values", &LayerGradients::value},
      {"output", &LayerGradients::output},
      {"MLP", &LayerGradients::mlp}};
  for (const auto& [name, member] : parts) {
    Series series{.name = name, .markers = gradients.layers.size() <= kMarked};
    for (size_t layer = 0; layer < gradients.layers.size(); ++layer) {
      series.x.push_back(static_cast<double>(layer));
      series.y.push_back(gradients.layers[layer].*member);
    }
    chart.series.push_back(std::move(series));
  }
  return {"gradients.svg", to_svg(chart)};
}

HeatMap by_head(const Diagnosis& diagnosis,
                const std::function<double(const LayerDiagnosis&, size_t)>& value) {
  HeatMap map{.x_label = "layer", .y_label = "head"};
  map.columns = static_cast<int64_t>(diagnosis.layers.size());
  size_t heads = 0;
  for (const LayerDiagnosis& layer : diagnosis.layers)
    if (layer.weights) heads = std::max(heads, layer.weights->heads.size());
  map.rows = static_cast<int64_t>(heads);
  for (size_t head = 0; head < heads; ++head)
    for (const LayerDiagnosis& layer : diagnosis.layers) map.values.push_back(value(layer, head));
  return map;
}

void draw_heads(std::vector<Picture>& pictures, const Diagnosis& diagnosis, const std::string& subject) {
  struct Measure {
    const char *file, *title, *label;
    double HeadWeights::*member;
    Unit unit;
  };
  const Measure measures[] = {
      {"entropy.svg", "Entropy of the attention weights", "nats", &HeadWeights::entropy, Unit::number},
      {"first_token.svg", "Weight on the first token", "share", &HeadWeights::first_token, Unit::share},
      {"distance.svg", "How far heads look back", "tokens", &HeadWeights::distance, Unit::number},
      {"negative.svg", "Negative share of the weights", "share", &HeadWeights::negative_mass, Unit::share},
      {"row_sum.svg", "Sum of a row of weights", "mean", &HeadWeights::row_sum, Unit::number}};
  for (const Measure& measure : measures) {
    HeatMap map = by_head(diagnosis, [&](const LayerDiagnosis& layer, size_t head) {
      return layer.weights && head < layer.weights->heads.size() ? layer.weights->heads[head].*measure.member
                                                                 : std::nan("");
    });
    map.title = measure.title;
    map.subtitle = subject;
    map.value_label = measure.label;
    map.unit = measure.unit;
    if (measure.unit == Unit::share) map.low = 0;
    const auto is = [&](double expected) {
      return std::ranges::all_of(map.values,
                                 [&](double value) { return !(std::abs(value - expected) > 1e-4); });
    };
    // Plain attention has no negative weights, and its rows sum to one.
    if (measure.member == &HeadWeights::negative_mass && is(0)) continue;
    if (measure.member == &HeadWeights::row_sum && is(1)) continue;
    pictures.push_back({measure.file, to_svg(map)});
  }
}

// The share of weights in each bin, one line per layer; weights below zero in a panel of their own.
Picture draw_histogram(const Diagnosis& diagnosis, const std::string& subject) {
  const std::vector<double> edges = histogram_edges();
  std::vector<double> middles;
  for (size_t bin = 0; bin <= edges.size(); ++bin)
    middles.push_back((bin == 0 ? edges[0] : edges[bin - 1]) *
                      (bin == 0 ? std::pow(10, -0.25) : std::pow(10, 0.25)));
  LinePanels chart{
      .title = "Sizes of the attention weights", .subtitle = subject, .columns = 2, .panels = {}};
  for (const bool negative : {false, true}) {
    LineChart panel{.title = negative ? "negative" : "positive",
                    .x_label = "|weight|; at the left end all that are smaller",
                    .y_label = "share of the weights that are not 0",
                    .log_x = true,
                    .y_unit = Unit::share,
                    .series = {},
                    .ordered = true};
    bool any = false;
    for (size_t layer = 0; layer < diagnosis.layers.size(); ++layer) {
      const auto& weights = diagnosis.layers[layer].weights;
      if (!weights) continue;
      std::vector<double> counts(middles.size(), 0);
      double all = 0;
      for (const HeadWeights& head : weights->heads)
        for (size_t bin = 0; bin < middles.size(); ++bin) {
          counts[bin] += static_cast<double>(negative ? head.negative[bin] : head.positive[bin]);
          all += static_cast<double>(head.negative[bin] + head.positive[bin]);
        }
      for (double& count : counts) {
        any |= count > 0;
        count /= all;
      }
      panel.series.push_back({.name = fmt::format("layer {}", layer), .x = middles, .y = counts});
    }
    if (any || !negative) chart.panels.push_back(std::move(panel));
  }
  if (chart.panels.size() > 1) return {"weights.svg", to_svg(chart)};
  LineChart alone = chart.panels.front();
  alone.title = chart.title;
  alone.subtitle = subject;
  return {"weights.svg", to_svg(alone)};
}

void draw_parameters(std::vector<Picture>& pictures, const Diagnosis& diagnosis, const std::string& subject) {
  std::vector<std::string> names;
  for (const LayerDiagnosis& layer : diagnosis.layers)
    for (const LearnedParameter& parameter : layer.parameters)
      if (parameter.by_head && std::ranges::find(names, parameter.name) == names.end())
        names.push_back(parameter.name);
  for (const std::string& name : names) {
    HeatMap map = by_head(diagnosis, [&](const LayerDiagnosis& layer, size_t head) {
      for (const LearnedParameter& parameter : layer.parameters)
        if (parameter.name == name && head < parameter.values.size()) return parameter.values[head];
      return std::nan("");
    });
    if (map.rows == 0) continue;
    map.title = fmt::format("Learned: {}", name);
    map.subtitle = subject;
    map.value_label = name;
    map.diverging = std::ranges::any_of(map.values, [](double value) { return value < 0; });
    pictures.push_back({fmt::format("learned_{}.svg", name), to_svg(map)});
  }
}

void draw_distances(std::vector<Picture>& pictures, const Diagnosis& diagnosis, const std::string& subject) {
  constexpr size_t kMost = 12;
  std::vector<size_t> layers;
  for (size_t layer = 0; layer < diagnosis.layers.size(); ++layer)
    if (!diagnosis.layers[layer].by_distance.empty()) layers.push_back(layer);
  if (layers.empty()) return;
  LinePanels chart{.title = "Where heads look by position alone",
                   .subtitle = subject,
                   .columns = static_cast<int>(std::min<size_t>(layers.size(), 4)),
                   .panels = {}};
  // Of a deep stack, some from the first to the last.
  const size_t shown = std::min(layers.size(), kMost);
  for (size_t index = 0; index < shown; ++index) {
    const size_t layer = layers[shown > 1 ? index * (layers.size() - 1) / (shown - 1) : 0];
    LineChart panel{.title = fmt::format("layer {}", layer),
                    .x_label = "distance in tokens",
                    .y_label = "weight when queries and keys say nothing",
                    .series = {},
                    .ordered = true};
    const auto& heads = diagnosis.layers[layer].by_distance;
    for (size_t head = 0; head < heads.size(); ++head) {
      std::vector<double> distances(heads[head].size());
      std::iota(distances.begin(), distances.end(), 0.0);
      panel.series.push_back({.name = fmt::format("head {}", head), .x = distances, .y = heads[head]});
    }
    chart.panels.push_back(std::move(panel));
  }
  pictures.push_back({"by_distance.svg", to_svg(chart)});
}

}  // namespace

std::vector<Picture> draw(const Diagnosis& diagnosis, const std::string& subject) {
  std::vector<Picture> pictures;
  if (!diagnosis.ranks.empty()) {
    pictures.push_back(draw_ranks(diagnosis, subject));
    pictures.push_back(draw_similarity(diagnosis, subject));
  }
  if (diagnosis.gradients) pictures.push_back(draw_gradients(*diagnosis.gradients, subject));
  if (!diagnosis.layers.empty() && diagnosis.layers.front().weights) {
    draw_heads(pictures, diagnosis, subject);
    pictures.push_back(draw_histogram(diagnosis, subject));
  }
  draw_parameters(pictures, diagnosis, subject);
  draw_distances(pictures, diagnosis, subject);
  return pictures;
}

}  // namespace saccade
