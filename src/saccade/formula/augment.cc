// Works on the syntax tree and leaves names, types and analysis to the parser of ordinary text.
#include "saccade/formula/augment.h"

#include <map>
#include <set>

#include "saccade/base/text.h"

namespace saccade {
namespace {

class Augmentation {
 public:
  explicit Augmentation(const Formula& formula) : formula_(formula) {
    for (const Statement& statement : formula.syntax().statements) taken_.insert(statement.name);
  }

  MaskedFormula pair_mask(PairMask kind) {
    const std::string input = new_name("attn_mask"), pair = input + "[i, j]";
    if (kind == PairMask::allowed)
      return with_mask(input, fmt::format("input {}[batch, head, query, key]: bool", input), pair, "");
    plan_renames();
    // What is hidden is hidden by the mask. An infinite score would not do it: sign, tanh and squares make
    // finite or positive numbers of it.
    return with_mask(input, fmt::format("input {}[batch, head, query, key]", input), pair + " > -inf", pair);
  }

  MaskedFormula documents() {
    const std::string input = new_name("document");
    return with_mask(input, fmt::format("input {}[batch, token]: int", input),
                     fmt::format("{}[i] == {}[j]", input, input), "");
  }

  MaskedFormula tile_gate(int64_t tile) {
    const std::string input = new_name("tile_gate"), pair = fmt::format("{}[i // {}, j]", input, tile);
    plan_renames();
    return with_mask(input, fmt::format("input {}[head, *, *]", input), pair + " > -inf", pair);
  }

 private:
  // `added`: what is added to the streams, or nothing.
  MaskedFormula with_mask(const std::string& input, const std::string& declaration,
                          const std::string& allowed, const std::string& added) {
    std::vector<std::string> lines{declaration};
    for (Statement statement : formula_.syntax().statements) {
      if (statement.kind == Statement::Kind::let) statement.value = renamed(statement.value);
      lines.push_back(statement.name == "mask"
                          ? fmt::format("mask = ({}) and {}", print(*statement.value), allowed)
                          : print(statement));
    }
    if (!taken_.contains("mask")) lines.push_back("mask = " + allowed);
    if (!added.empty() && !taken_.contains("score") && !taken_.contains("weights"))
      lines.push_back("score = " + rename("s"));
    for (const std::string& stream : used_)
      lines.push_back(fmt::format("{} = {} + where({}, {}, 0)", renames_.at(stream), stream, allowed, added));
    return {Formula::parse(join(lines, "\n") + "\n", {.name = formula_.name(), .set = formula_.overrides()}),
            input};
  }

  std::string new_name(std::string name) {
    while (taken_.contains(name)) name += "_";
    taken_.insert(name);
    return name;
  }

  void plan_renames() {
    for (const StreamInfo& stream : formula_.plan().streams)
      renames_[stream.name] = new_name(stream.name + "_masked");
  }

  const std::string& rename(const std::string& stream) {
    used_.insert(stream);
    return renames_.at(stream);
  }

  ExpressionPtr renamed(const ExpressionPtr& expression) {
    if (renames_.empty() || !expression) return expression;
    auto result = std::make_shared<Expression>(*expression);
    if (result->kind == Expression::Kind::name) {
      // Where the formula gives no score, that name stands for s.
      const std::string name = result->name == "score" && !taken_.contains("score") ? "s" : result->name;
      if (renames_.contains(name)) result->name = rename(name);
    }
    for (ExpressionPtr& argument : result->arguments) argument = renamed(argument);
    result->sink = renamed(result->sink);
    return result;
  }

  const Formula& formula_;
  std::set<std::string> taken_;
  std::map<std::string, std::string> renames_;  // stream -> the stream with the mask added
  std::set<std::string> used_;                  // streams that the formula reads
};

// What is left of a mask without `causal`; null: nothing.
ExpressionPtr without_causal(const ExpressionPtr& mask) {
  if (mask->kind == Expression::Kind::name && mask->name == "causal") return nullptr;
  if (mask->kind != Expression::Kind::call || mask->op != Op::logical_and) return mask;
  std::vector<ExpressionPtr> kept;
  for (const ExpressionPtr& argument : mask->arguments)
    if (ExpressionPtr rest = without_causal(argument)) kept.push_back(std::move(rest));
  if (kept.size() < 2) return kept.empty() ? nullptr : kept.front();
  auto result = std::make_shared<Expression>(*mask);
  result->arguments = std::move(kept);
  return result;
}

}  // namespace

MaskedFormula with_pair_mask(const Formula& formula, PairMask kind) {
  return Augmentation(formula).pair_mask(kind);
}

MaskedFormula with_documents(const Formula& formula) { return Augmentation(formula).documents(); }

MaskedFormula with_tile_gate(const Formula& formula, int64_t tile) {
  return Augmentation(formula).tile_gate(tile);
}

Formula without_causal(const Formula& formula) {
  std::vector<std::string> lines;
  bool changed = false;
  for (const Statement& statement : formula.syntax().statements) {
    const bool is_mask = statement.kind == Statement::Kind::let && statement.name == "mask";
    const ExpressionPtr left = is_mask ? without_causal(statement.value) : statement.value;
    changed |= left != statement.value;
    if (is_mask && left)
      lines.push_back("mask = " + print(*left));
    else if (!is_mask)
      lines.push_back(print(statement));
  }
  if (!changed) return formula;
  return Formula::parse(join(lines, "\n") + "\n", {.name = formula.name(), .set = formula.overrides()});
}

}  // namespace saccade
