// Prose around the tables: statements, dimensions and variables stand here, operations, norms and host
// functions where they are defined. The same rows are written as Markdown and as JSON.
#include "saccade/formula/manual.h"

#include <array>

#include "saccade/base/error.h"
#include "saccade/base/text.h"
#include "saccade/formula/host.h"
#include "saccade/formula/operations.h"
#include "saccade/formula/parser.h"

namespace saccade {
namespace {

// The statements by what they declare. Texts of this file are Markdown.
struct StatementRow {
  std::string_view kind, example, meaning;
};

constexpr StatementRow kStatements[] = {
    {"const", "const w = 256",
     "a number that can be changed from outside: `--set w=128`; of a `param`, `--set` changes where it "
     "starts"},
    {"param", "param a[head] = 1 in [0, 4]",
     "learned; starts at 1, brought back into the bounds after each step. The start value may use `h`, `H` "
     "and constants"},
    {"input", "input doc[token]: int",
     "given with each call; `int`, `bool`, or real when nothing is said. Real inputs get a gradient"},
    {"vector", "vector q2 = linear(relu(q))", "another query or key, computed per token"},
    {"token", "token F = cumsum(logsigmoid(project(x)))", "a number per token and head"},
    {"stream", "stream t = q2 . k", "another scaled dot product, query vector first"},
    {"let", "bucket = min(d, 31)", "a name for an expression"},
    {"mask", "mask = causal",
     "which pairs are allowed; default `full`. `mask`, `score`, `weights` and `scale` may also be written "
     "without `=`"},
    {"score", "score = s", "default argument of softmax; default `s`"},
    {"weights", "weights = softmax(score)", "the weight of each pair; this is the default"},
    {"scale", "scale = 0.125",
     "what dot products are multiplied by; default 1 / sqrt(d_k). May use `h`, `H`, params and constants"},
};

// One row may say something of two names.
using Names = std::array<std::string_view, 2>;

struct DimensionRow {
  Names names;
  std::string_view subscript, size;
};

constexpr std::string_view kANumber = "a number";  // stands for all numbers, and is no name

constexpr DimensionRow kDimensions[] = {
    {{"batch", "head"}, "implied", "one entry per sequence, per head"},
    {{"layer"},
     "implied",
     "one entry per layer; only for params. A param without dimensions is one number shared by all layers"},
    {{"token"},
     "`[i]`, `[j]`, or an integer expression",
     "one entry per token of the sequence; rides in the KV cache"},
    {{"query"}, "`[i]`", "one entry per query of the call"},
    {{"key"}, "`[j]`", "one entry per key; rides in the KV cache"},
    {{"rel"}, "usually `[d]`", "2m - 1 entries for d = -(m-1) .. m-1"},
    {{kANumber}, "any integer expression", "as written"},
    {{"*"}, "any integer expression", "known at run time"},
};

struct VariableRow {
  Names names;
  std::string_view meaning;
};

constexpr VariableRow kVariables[] = {
    {{"s"}, "the scaled dot product of query and key"},
    {{"i", "j"},
     "positions of query and key, counted from 0 over the whole sequence, cache included. With `input "
     "pos[token]: int` they are what that input says"},
    {{"d"}, "i - j"},
    {{"h", "H"}, "the head, counted from 0, and the number of heads"},
    {{"n"},
     "the number of keys. A formula that reads it cannot decode, unless it is pinned by `const n = 2048` or "
     "`--set n=2048`"},
    {{"causal"}, "d >= 0"},
    {{"full"}, "always true"},
    {{"inf"}, "infinity"},
};

constexpr std::string_view kOpening = R"(# The formula language

<!-- Written by `saccade language`. Change the tables in src/saccade/formula, then run: build/saccade language > docs/language.md -->

A formula file says how two tokens attend to each other. Everything else (gradients, masks that are skipped, decoding with a
cache, checks) is derived from it.

    # Nearer keys first, by a decay that each head learns.
    param alpha[head] = 1
    param beta[head]  = 1 in [0.01, 4]
    mask  = causal
    score = s - abs(alpha * d) ^ beta

One statement per line; `;` also ends a statement, `#` starts a comment, and a line may be wrapped inside brackets. Statements may
stand in any order.

)";

constexpr std::string_view kSubscripts = R"(
A subscript outside its table is clamped to the nearest entry; `saccade explain` warns where it cannot prove that this never happens.
An input by token, query or key may be given with a batch dimension in front, declared or not. With a cache, an input with one
dimension of tokens or keys is given for the new tokens and remembered; an input of pairs, such as `m[query, key]`, is given whole
with every call: all tokens and keys so far, and the new queries.

)";

constexpr std::string_view kOperators = R"(
## Operators and functions

Operators from loosest to tightest: `or`, `and`, `not`, comparisons (which chain), `+ -`, `* / // %`, unary `-`, `^`.
A Boolean is not a number. Integers are exact up to 2^24.

)";

constexpr std::string_view kMeaning = R"(## Rules of meaning

1. A pair that the mask forbids adds exactly 0 to numerator and denominator. It is not "minus infinity in the score".
2. A row with no allowed key gives output 0, a log-sum of -inf and zero gradients. Never NaN.
3. Derivatives are fixed where calculus leaves them open, as the table says; where no gradient arrives, none leaves, even if the
   derivative there is infinite.
4. Floating-point operations are not re-associated. `i - j` is d, and comparisons of positions are moved to d.
5. A formula decodes with a KV cache if its mask is provably false for every d < 0 and it reads neither `n` nor a token ahead.
   Where the mask is provably false from some distance on, the cache is a ring buffer of that size.

## What it cannot say

Mixing of heads, scans over the n x n map (contextual or selective position), top-k or entmax rows, and dropout (which is an option
of the call). These are not sums over pairs of a function of the pair.

)";

std::string cell(std::string_view text) {
  std::string result;
  for (char c : text) result += c == '|' ? std::string("\\|") : std::string(1, c);
  return result;
}

std::string written(const Operation& row) {
  if (row.precedence == 0)
    return fmt::format("{}({})", row.name, row.arity == 1 ? "x" : row.arity == 2 ? "x, y" : "x, y, z");
  if (row.arity == 1) return fmt::format("{}{}x", row.name, row.name == "not" ? " " : "");
  return fmt::format("x {} y", row.name);
}

std::string written(const NormOperation& row) {
  return fmt::format("{}(x{})", row.name, row.has_sink ? ", sink = z" : "");
}

std::vector<std::string_view> given(const Names& names) {
  std::vector<std::string_view> result;
  for (const std::string_view name : names)
    if (!name.empty()) result.push_back(name);
  return result;
}

// "`i`, `j`"
std::string quoted(const Names& names) {
  std::vector<std::string> result;
  for (const std::string_view name : given(names))
    result.push_back(name == kANumber ? std::string(name) : fmt::format("`{}`", name));
  return join(result, ", ");
}

std::string_view result_of(TypeRule rule) {
  switch (rule) {
    case TypeRule::keep:
      return "number";
    case TypeRule::to_real:
      return "real";
    case TypeRule::to_integer:
      return "integer";
    case TypeRule::compare:
    case TypeRule::logic:
      return "boolean";
    case TypeRule::select:
      return "as its second operand";
  }
  return "";
}

Json json_of(const Operation& row) {
  Json derivatives = Json::array();
  for (size_t operand = 0; operand < static_cast<size_t>(row.arity); ++operand)
    derivatives.push_back(row.derivative[operand].empty() ? std::string("0")
                                                          : std::string(row.derivative[operand]));
  return {{"name", row.name},
          {"written", written(row)},
          {"operands", row.arity},
          {"result", result_of(row.type)},
          {"precedence", row.precedence},
          {"derivatives", derivatives},
          {"meaning", row.doc},
          {"example", row.example}};
}

std::string derivative(const Operation& row) {
  static constexpr std::string_view kOperands[] = {"x", "y", "z"};
  std::vector<std::string> parts;
  for (size_t index = 0; index < 3; ++index)
    if (!row.derivative[index].empty())
      parts.push_back(fmt::format("by {}: `{}`", kOperands[index], row.derivative[index]));
  return parts.empty() ? "0" : join(parts, "; ");
}

}  // namespace

std::string language_manual() {
  std::string text(kOpening);
  text += "## Statements\n\n| statement | meaning |\n|---|---|\n";
  for (const StatementRow& row : kStatements)
    text += fmt::format("| `{}` | {} |\n", row.example, row.meaning);
  text += "\n## Dimensions\n\n| dimension | subscript | size |\n|---|---|---|\n";
  for (const DimensionRow& row : kDimensions)
    text += fmt::format("| {} | {} | {} |\n", quoted(row.names), row.subscript, row.size);
  text += kSubscripts;
  text += "## Names\n\n| name | meaning |\n|---|---|\n";
  for (const VariableRow& row : kVariables)
    text += fmt::format("| {} | {} |\n", quoted(row.names), row.meaning);
  text += kOperators;
  text += "| operation | meaning | derivative | example |\n|---|---|---|---|\n";
  for (const Operation& row : operations())
    text += fmt::format("| `{}` | {} | {} | `{}` |\n", cell(written(row)), cell(row.doc),
                        cell(derivative(row)), cell(row.example));
  text +=
      "\n## Norms\n\nA norm turns the scores of a row into weights, and may stand only in `weights`: a sum "
      "of terms, each a product with at\n"
      "most one norm; the other factors may differ from pair to pair.\n\n| norm | meaning | example "
      "|\n|---|---|---|\n";
  for (const NormOperation& row : norm_operations())
    text += fmt::format("| `{}` | {} | `{}` |\n", written(row), cell(row.doc), row.example);
  text +=
      "\n## Host functions\n\nThey compute vectors and tokens before any pair is looked at, with learned "
      "weights of their own. `x` is the layer's input,\n"
      "`q` and `k` are the projected heads before rotary embedding, which is applied to every finished "
      "vector. Sums, differences,\n"
      "products, numbers, constants and params may be used too.\n\n| function | meaning | example "
      "|\n|---|---|---|\n";
  for (const HostOperation& row : host_operations())
    text += fmt::format("| `{}` | {} | `{}` |\n", row.name, cell(row.doc), row.example);
  text += "\n" + std::string(kMeaning);
  text += fmt::format(
      "## Limits\n\nA file has at most {} bytes and {} statements; expressions are at most {} deep; a "
      "formula has at most {} streams, {} norms,\n"
      "and {} params, inputs and tokens; a table has at most {} subscripts; a fixed dimension is at most "
      "{}.\n",
      Limits::text_bytes, Limits::statements, Limits::tree_depth, Limits::streams, Limits::norms,
      Limits::tables, Limits::subscripts, Limits::fixed_dimension);
  return text;
}

Json language_json() {
  Json json;
  for (const StatementRow& row : kStatements)
    json["statements"].push_back({{"kind", row.kind}, {"example", row.example}, {"meaning", row.meaning}});
  for (const DimensionRow& row : kDimensions)
    json["dimensions"].push_back(
        {{"names", given(row.names)}, {"subscript", row.subscript}, {"size", row.size}});
  for (const VariableRow& row : kVariables)
    json["variables"].push_back({{"names", given(row.names)}, {"meaning", row.meaning}});
  for (const Operation& row : operations()) json["operations"].push_back(json_of(row));
  for (const NormOperation& row : norm_operations())
    json["norms"].push_back({{"name", row.name},
                             {"written", written(row)},
                             {"sink", row.has_sink},
                             {"meaning", row.doc},
                             {"example", row.example}});
  for (const HostOperation& row : host_operations())
    json["host_functions"].push_back({{"name", row.name}, {"meaning", row.doc}, {"example", row.example}});
  json["limits"] = {{"text_bytes", Limits::text_bytes}, {"statements", Limits::statements},
                    {"tree_depth", Limits::tree_depth}, {"streams", Limits::streams},
                    {"norms", Limits::norms},           {"tables", Limits::tables},
                    {"subscripts", Limits::subscripts}, {"fixed_dimension", Limits::fixed_dimension}};
  return json;
}

}  // namespace saccade
