// Heads are shown by their mean and range; each by itself is in the JSON and in the pictures.
#include "saccade/diagnose/table.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "saccade/base/text.h"

namespace saccade {
namespace {

std::string number(double value, int decimals = 2) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, decimals) : "-";
}

std::string norm(double value) { return std::isfinite(value) ? fmt::format("{:.2e}", value) : "-"; }

std::string share(double value) { return std::isfinite(value) ? fmt::format("{:.1f} %", 100 * value) : "-"; }

struct Spread {
  double mean = std::numeric_limits<double>::quiet_NaN(), low = mean, high = mean;
};

// Of the numbers that are defined.
template <class Values>
Spread spread_of(const Values& values) {
  Spread spread;
  double sum = 0;
  int count = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    spread.low = count == 0 ? value : std::min(spread.low, value);
    spread.high = count == 0 ? value : std::max(spread.high, value);
    sum += value;
    ++count;
  }
  if (count > 0) spread.mean = sum / count;
  return spread;
}

Spread over_heads(const WeightMeasures& weights, double HeadWeights::*member) {
  std::vector<double> values;
  for (const HeadWeights& head : weights.heads) values.push_back(head.*member);
  return spread_of(values);
}

std::string range(const Spread& spread, int decimals) {
  if (!std::isfinite(spread.low)) return "-";
  return number(spread.low, decimals) + " to " + number(spread.high, decimals);
}

std::string rank_table(const Diagnosis& diagnosis) {
  Table table({"after", "effective rank", "centred", "stable rank", "centred", "cosine", "without mean",
               "without rank 1", "length", "longest has"});
  for (const Diagnosis::Place& place : diagnosis.ranks) {
    const RankMeasures& rank = place.rank;
    table.add({place.after, number(rank.effective_rank, 1), number(rank.centred_effective_rank, 1),
               number(rank.stable_rank), number(rank.centred_stable_rank), number(rank.cosine, 3),
               number(rank.mean_residual, 3), number(rank.rank_one_residual, 3), number(rank.token_norm),
               share(rank.longest_share)});
  }
  return table.print();
}

std::string weight_table(const Diagnosis& diagnosis) {
  Table table(
      {"layer", "formula", "entropy", "heads", "of most", "first token", "distance", "negative", "row sums"});
  for (size_t layer = 0; layer < diagnosis.layers.size(); ++layer) {
    const LayerDiagnosis& found = diagnosis.layers[layer];
    if (!found.weights) continue;
    const WeightMeasures& weights = *found.weights;
    const Spread entropy = over_heads(weights, &HeadWeights::entropy);
    const Spread sums{.mean = 0,
                      .low = over_heads(weights, &HeadWeights::lowest_row_sum).low,
                      .high = over_heads(weights, &HeadWeights::highest_row_sum).high};
    table.add({std::to_string(layer), found.formula, number(entropy.mean), range(entropy, 2),
               share(over_heads(weights, &HeadWeights::entropy_share).mean),
               share(over_heads(weights, &HeadWeights::first_token).mean),
               number(over_heads(weights, &HeadWeights::distance).mean, 1),
               share(over_heads(weights, &HeadWeights::negative_mass).mean), range(sums, 3)});
  }
  return table.rows() > 0 ? table.print() : "";
}

std::string gradient_table(const Gradients& gradients) {
  Table table({"layer", "entering", "block", "queries", "keys", "values", "output", "MLP"});
  for (size_t layer = 0; layer < gradients.layers.size(); ++layer) {
    const LayerGradients& found = gradients.layers[layer];
    table.add({std::to_string(layer), norm(found.entering), norm(found.block), norm(found.query),
               norm(found.key), norm(found.value), norm(found.output), norm(found.mlp)});
  }
  return table.print();
}

std::string parameter_table(const Diagnosis& diagnosis) {
  Table table({"layer", "parameter", "shape", "mean", "values", "norm", "gradient"});
  for (size_t layer = 0; layer < diagnosis.layers.size(); ++layer)
    for (const LearnedParameter& parameter : diagnosis.layers[layer].parameters) {
      const Spread spread = spread_of(parameter.values);
      const double gradient = diagnosis.gradients
                                  ? diagnosis.gradients->layers[layer].formula.at(parameter.name)
                                  : std::numeric_limits<double>::quiet_NaN();
      table.add({std::to_string(layer), parameter.name, fmt::format("[{}]", fmt::join(parameter.shape, ", ")),
                 number(spread.mean, 4), range(spread, 4), number(parameter.norm, 4), norm(gradient)});
    }
  return table.rows() > 0 ? table.print() : "";
}

void add(std::string& text, const std::string& title, const std::string& part) {
  if (!part.empty()) text += fmt::format("{}{}\n{}", text.empty() ? "" : "\n", title, part);
}

}  // namespace

std::string table_of(const Diagnosis& diagnosis) {
  std::string text;
  if (!diagnosis.ranks.empty()) add(text, "How different the tokens are", rank_table(diagnosis));
  add(text, "Attention weights, mean over heads", weight_table(diagnosis));
  if (diagnosis.gradients)
    add(text,
        fmt::format("Gradient norms; loss {:.4f} nats per token, all parameters {}",
                    diagnosis.gradients->loss, norm(diagnosis.gradients->total)),
        gradient_table(*diagnosis.gradients));
  add(text, "What the formulas have learned", parameter_table(diagnosis));
  return text;
}

}  // namespace saccade
