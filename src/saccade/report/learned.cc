#include "saccade/report/learned.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "saccade/base/text.h"
#include "saccade/report/plots.h"
#include "saccade/report/sections.h"

namespace saccade {
namespace {

// "prior, layer 3", or "layer 3" when there is one model only.
std::string with_name(const std::vector<NamedDiagnosis>& found, const NamedDiagnosis& each,
                      const std::string& what) {
  return found.size() > 1 ? each.name + ", " + what : what;
}

std::vector<Field> layers_of(const NamedDiagnosis& each) {
  const std::optional<Field> layers = each.field.find("layers");
  return layers ? layers->items() : std::vector<Field>{};
}

// One value per head by the name of a parameter; empty: there is no such parameter.
std::vector<double> values_of(const Field& layer, std::string_view name) {
  const std::optional<Field> parameters = layer.find("parameters");
  if (!parameters) return {};
  for (const Field& parameter : parameters->items())
    if (parameter.text_or("name", "") == name && parameter.find("values"))
      return parameter.at("values").numbers();
  return {};
}

constexpr int kPriorDistances = 64;

// What the prior takes from the score of a key at each distance.
LineChart prior_chart(const std::vector<double>& alpha, const std::vector<double>& beta) {
  LineChart chart{.title = "The learned prior by head",
                  .subtitle = "what −|α d|^β adds to the score of a key d tokens back; 0 is no preference",
                  .x_label = "distance d",
                  .y_label = "added to the score",
                  .ordered = alpha.size() > 8};
  for (size_t head = 0; head < alpha.size(); ++head) {
    Series series{.name = fmt::format("head {} (α {:.3g}, β {:.3g})", head, alpha[head], beta[head])};
    for (int distance = 0; distance <= kPriorDistances; ++distance) {
      series.x.push_back(distance);
      series.y.push_back(distance == 0 ? 0 : -std::pow(std::abs(alpha[head] * distance), beta[head]));
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

LineChart distance_chart(const std::vector<Field>& heads) {
  LineChart chart{.title = "Weights by distance alone",
                  .subtitle = "what each head would look at if all tokens were the same",
                  .x_label = "distance",
                  .y_label = "weight",
                  .ordered = heads.size() > 8};
  for (const Field& head : heads) {
    Series series{.name = fmt::format("head {}", chart.series.size()), .x = {}, .y = head.numbers()};
    for (size_t distance = 0; distance < series.y.size(); ++distance)
      series.x.push_back(static_cast<double>(distance));
    chart.series.push_back(std::move(series));
  }
  return chart;
}

void add_parameter_table(Fragment& body, const std::vector<NamedDiagnosis>& found) {
  std::vector<PageRow> rows;
  for (const NamedDiagnosis& each : found)
    for (const Field& layer : layers_of(each)) {
      const std::optional<Field> parameters = layer.find("parameters");
      if (!parameters) continue;
      for (const Field& parameter : parameters->items()) {
        std::vector<std::string> shown;
        if (const std::optional<Field> values = parameter.find("values"))
          for (const double value : values->numbers())
            if (shown.size() < 16) shown.push_back(short_number(value, 3));
        rows.push_back(
            {.cells = {with_name(found, each, fmt::format("layer {}", layer.at("layer").whole())),
                       parameter.text_or("name", ""), short_number(parameter.number_or("norm", NAN)),
                       shown.empty() ? "-" : join(shown, ", ") + (shown.size() == 16 ? ", …" : "")}});
      }
    }
  if (!rows.empty()) body.table({"where", "learned", "norm", "values by head"}, rows);
}

}  // namespace

void add_ranks(Fragment& body, const std::vector<NamedDiagnosis>& found) {
  Choices<LineChart> charts;
  for (const auto& [member, title] : {std::pair{"effective_rank", "effective rank"},
                                      {"centred_effective_rank", "effective rank, centred"},
                                      {"stable_rank", "stable rank"},
                                      {"cosine", "mean cosine of tokens"}}) {
    LineChart chart{
        .title = "Rank by layer",
        .subtitle =
            "how many directions the tokens take up after each block; a rank near 1 means that all "
            "tokens have become alike",
        .x_label = "after",
        .y_label = title};
    for (const NamedDiagnosis& each : found) {
      const std::optional<Field> ranks = each.field.find("ranks");
      if (!ranks) continue;
      Series series{.name = each.name, .markers = true};
      std::vector<std::string> names;
      for (const Field& place : ranks->items()) {
        series.x.push_back(static_cast<double>(names.size()));
        series.y.push_back(place.number_or(member, NAN));
        names.push_back(place.text_or("after", ""));
      }
      if (names.size() > chart.x_names.size()) chart.x_names = names;
      chart.series.push_back(std::move(series));
    }
    if (has_values(chart)) charts.emplace_back(title, std::move(chart));
  }
  if (!charts.empty()) body.add(plot_html("measure", charts));
}

void add_gradients(Fragment& body, const std::vector<NamedDiagnosis>& found) {
  Choices<LineChart> charts;
  for (const NamedDiagnosis& each : found) {
    LineChart chart{.title = "Gradient norms by layer",
                    .subtitle = "of the loss by the weights of each part",
                    .x_label = "layer",
                    .y_label = "norm",
                    .log_y = true};
    for (const char* part : {"block", "query", "key", "value", "output", "mlp"}) {
      Series series{.name = part, .markers = true};
      for (const Field& layer : layers_of(each)) {
        const std::optional<Field> gradients = layer.find("gradients");
        series.x.push_back(static_cast<double>(series.x.size()));
        series.y.push_back(gradients ? gradients->number_or(part, NAN) : NAN);
      }
      chart.series.push_back(std::move(series));
    }
    for (size_t layer = 0; layer < chart.series.front().x.size(); ++layer)
      chart.x_names.push_back(std::to_string(layer));
    if (has_values(chart)) charts.emplace_back(each.name, std::move(chart));
  }
  if (!charts.empty()) body.add(plot_html("model", charts));
}

void add_heads(Fragment& body, const std::vector<NamedDiagnosis>& found) {
  struct Measure {
    const char *member, *title;
    Unit unit = Unit::number;
    bool only_if_not_zero = false;
  };
  static constexpr Measure kMeasures[] = {
      {"entropy", "entropy of the weights (nats)"},
      {"first_token", "weight on the first token", Unit::share},
      {"distance", "mean distance of what is looked at (tokens)"},
      {"peak", "largest weight of a row"},
      {"negative_mass", "negative share of the weights", Unit::share, true},
      {"zeros", "weights that are exactly 0", Unit::share, true}};
  Choices<HeatMap> maps;
  for (const NamedDiagnosis& each : found)
    for (const Measure& measure : kMeasures) {
      HeatMap map{.title = "Heads",
                  .subtitle = "what each head of each layer does with the text, as a mean over its rows",
                  .x_label = "head",
                  .y_label = "layer",
                  .value_label = measure.title,
                  .unit = measure.unit};
      for (const Field& layer : layers_of(each)) {
        const std::optional<Field> weights = layer.find("weights");
        const std::vector<double> values = weights && weights->find(measure.member)
                                               ? weights->at(measure.member).numbers()
                                               : std::vector<double>{};
        if (values.empty() || (map.rows > 0 && std::ssize(values) != map.columns)) continue;
        map.columns = std::ssize(values);
        ++map.rows;
        map.row_names.push_back(std::to_string(layer.at("layer").whole()));
        map.values.insert(map.values.end(), values.begin(), values.end());
      }
      const bool any = std::ranges::any_of(map.values, [](double value) { return value > 0; });
      if (map.rows == 0 || (measure.only_if_not_zero && !any)) continue;
      maps.emplace_back(found.size() > 1 ? each.name + ": " + measure.title : measure.title, std::move(map));
    }
  if (!maps.empty()) body.add(plot_html("measure", maps));
}

void add_learned(Fragment& body, const std::vector<NamedDiagnosis>& found) {
  Choices<LineChart> priors, distances;
  for (const NamedDiagnosis& each : found)
    for (const Field& layer : layers_of(each)) {
      const std::string name = with_name(found, each, fmt::format("layer {}", layer.at("layer").whole()));
      const std::vector<double> alpha = values_of(layer, "alpha"), beta = values_of(layer, "beta");
      if (!alpha.empty() && alpha.size() == beta.size() && layer.text_or("formula", "") == "prior")
        priors.emplace_back(name, prior_chart(alpha, beta));
      if (const std::optional<Field> weights = layer.find("by_distance"))
        distances.emplace_back(name, distance_chart(weights->items()));
    }
  if (!priors.empty()) body.add(plot_html("layer", priors));
  if (!distances.empty()) body.add(plot_html("layer", distances));
  add_parameter_table(body, found);
}

}  // namespace saccade
