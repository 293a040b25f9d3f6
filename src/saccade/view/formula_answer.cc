// The formula runs on a small attention of its own, by the reference path: n is small, and all is shown.
#include "saccade/view/formula_answer.h"

#include <torch/types.h>

#include <algorithm>

#include "saccade/base/base64.h"
#include "saccade/base/error.h"
#include "saccade/base/text.h"
#include "saccade/formula/bounds.h"
#include "saccade/formula/explain.h"
#include "saccade/report/field.h"
#include "saccade/view/parameters.h"

namespace saccade {

using at::Tensor;

namespace {

constexpr int64_t kWidth = 32;  // of the heads that show the formula
constexpr int64_t kMostTokens = 256, kMostHeads = 16;
constexpr size_t kLongestFormula = size_t{1} << 16;

int64_t whole_between(const Field& request, const char* name, int64_t otherwise, int64_t low, int64_t high) {
  const std::optional<Field> field = request.find(name);
  if (!field) return otherwise;
  const int64_t value = field->whole();
  require(value >= low && value <= high, "{}: {}; expected {} to {}", field->where(), value, low, high);
  return value;
}

Json errors_of(const FormulaError& error, const std::string& text) {
  Json list = Json::array();
  for (const Diagnostic& diagnostic : error.diagnostics()) {
    const std::string_view before = std::string_view(text).substr(0, diagnostic.span.begin);
    const size_t line_start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
    list.push_back({{"message", diagnostic.message},
                    {"line", 1 + std::ranges::count(before, '\n')},
                    {"column", 1 + before.size() - line_start},
                    {"begin", diagnostic.span.begin},
                    {"end", diagnostic.span.end}});
  }
  return {{"errors", list}, {"text", error.what()}};
}

// Why weights cannot be shown; empty: they can.
std::string obstacle(const Plan& plan) {
  std::vector<std::string> inputs;
  for (const TableInfo& table : plan.tables)
    if (table.source == TableInfo::Source::input) inputs.push_back("'" + table.name + "'");
  return inputs.empty() ? ""
                        : "The formula needs the input " + join(inputs, ", ") + ", which only a model gives.";
}

// [heads, tokens, tokens]. Without content, dot products and layer inputs are 0 and only positions count.
Tensor weights_of(Attention attention, int64_t tokens, bool content) {
  const int64_t heads = attention->options().heads;
  const auto make = [&](std::vector<int64_t> shape) {
    return content ? torch::randn(shape) : torch::zeros(shape);
  };
  const Tensor query = make({1, heads, tokens, kWidth}), key = make({1, heads, tokens, kWidth});
  AttentionCall call{.x = make({1, tokens, kWidth}), .need_weights = true};
  return attention->run(query, key, key, call).weights[0].to(torch::kFloat);
}

}  // namespace

std::string packed(const Tensor& values) {
  const Tensor floats = values.to(torch::kFloat).contiguous();
  return to_base64(std::as_bytes(std::span(floats.data_ptr<float>(), static_cast<size_t>(floats.numel()))));
}

Json tiles_of(const Plan& plan, int64_t tokens, int64_t head, int64_t heads) {
  const int64_t side = std::max<int64_t>(1, (tokens + 31) / 32), count = (tokens + side - 1) / side;
  std::string states;
  for (int64_t row = 0; row < count; ++row)
    for (int64_t column = 0; column < count; ++column) {
      const auto end = [&](int64_t tile) { return static_cast<double>(std::min(tokens, (tile + 1) * side)); };
      const Tile tile{static_cast<double>(row * side), end(row), static_cast<double>(column * side),
                      end(column)};
      const TileState state = classify(plan, tile, static_cast<double>(head), static_cast<double>(heads),
                                       static_cast<double>(tokens));
      states += state == TileState::empty ? 'e' : state == TileState::full ? 'f' : 'm';
    }
  return {{"side", side}, {"rows", count}, {"columns", count}, {"states", states}};
}

Json answer_formula(const Json& json) {
  const Field request(json, "request");
  const std::string text = request.at("formula").text();
  require(text.size() <= kLongestFormula, "view: a formula of {} bytes; expected at most {}", text.size(),
          kLongestFormula);
  const int64_t tokens = whole_between(request, "tokens", 64, 1, kMostTokens);
  const int64_t heads = whole_between(request, "heads", 4, 1, kMostHeads);
  std::optional<Formula> parsed;
  try {
    parsed = Formula::parse(text);
  } catch (const FormulaError& error) {
    return errors_of(error, text);
  }
  const Formula& formula = *parsed;
  const torch::NoGradGuard no_gradient;
  torch::manual_seed(1);  // of projections that the formula has
  const Attention attention(formula,
                            AttentionOptions{.heads = heads, .head_dim = kWidth, .model_dim = kWidth});
  if (const std::optional<Field> values = request.find("values"))
    set_parameters(attention, read_values(*values));
  const Plan& plan = formula.plan();
  Json answer = {{"summary", formula.summary()},
                 {"canonical", formula.print()},
                 {"explain", explain(formula, {.length = tokens})},
                 {"parameters", learned_json(attention)},
                 {"decodes", plan.decoding.possible},
                 {"tokens", tokens},
                 {"heads", heads},
                 {"tiles", tiles_of(plan, tokens, 0, heads)},
                 {"maps", nullptr},
                 {"curves", nullptr},
                 {"note", obstacle(plan)}};
  if (!answer["note"].get<std::string>().empty()) return answer;
  const Tensor shape = weights_of(attention, tokens, false), sample = weights_of(attention, tokens, true);
  answer["maps"] = {{"without_content", packed(shape)},
                    {"random", packed(sample)},
                    {"signed", (sample < 0).any().item<bool>() || (shape < 0).any().item<bool>()}};
  // Of the last token, by distance from 0 on.
  answer["curves"] = packed(shape.select(1, tokens - 1).flip(1));
  return answer;
}

}  // namespace saccade
