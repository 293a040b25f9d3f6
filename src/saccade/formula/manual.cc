// Prose around the tables of operations, norms and host functions, and the limits of the parser.
#include "saccade/formula/manual.h"

#include "saccade/base/error.h"
#include "saccade/base/text.h"
#include "saccade/formula/host.h"
#include "saccade/formula/parser.h"

namespace saccade {
namespace {

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

## Statements

| statement | meaning |
|---|---|
| `const w = 256` | a number that can be changed from outside: `--set w=128`; of a `param`, `--set` changes where it starts |
| `param a[head] = 1 in [0, 4]` | learned; starts at 1, brought back into the bounds after each step. The start value may use `h`, `H` and constants |
| `input doc[token]: int` | given with each call; `int`, `bool`, or real when nothing is said. Real inputs get a gradient |
| `vector q2 = linear(relu(q))` | another query or key, computed per token |
| `token F = cumsum(logsigmoid(project(x)))` | a number per token and head |
| `stream t = q2 . k` | another scaled dot product, query vector first |
| `bucket = min(d, 31)` | a name for an expression |
| `mask = causal` | which pairs are allowed; default `full`. `mask`, `score`, `weights` and `scale` may also be written without `=` |
| `score = s` | default argument of softmax; default `s` |
| `weights = softmax(score)` | the weight of each pair; this is the default |
| `scale = 0.125` | what dot products are multiplied by; default 1 / sqrt(d_k). May use `h`, `H`, params and constants |

## Dimensions

| dimension | subscript | size |
|---|---|---|
| `batch`, `head` | implied | one entry per sequence, per head |
| `layer` | implied | one entry per layer; only for params. A param without dimensions is one number shared by all layers |
| `token` | `[i]`, `[j]`, or an integer expression | one entry per token of the sequence; rides in the KV cache |
| `query` | `[i]` | one entry per query of the call |
| `key` | `[j]` | one entry per key; rides in the KV cache |
| `rel` | usually `[d]` | 2m - 1 entries for d = -(m-1) .. m-1 |
| a number | any integer expression | as written |
| `*` | any integer expression | known at run time |

A subscript outside its table is clamped to the nearest entry; `saccade explain` warns where it cannot prove that this never happens.
An input by token, query or key may be given with a batch dimension in front, declared or not. With a cache, an input with one
dimension of tokens or keys is given for the new tokens and remembered; an input of pairs, such as `m[query, key]`, is given whole
with every call: all tokens and keys so far, and the new queries.

## Names

| name | meaning |
|---|---|
| `s` | the scaled dot product of query and key |
| `i`, `j` | positions of query and key, counted from 0 over the whole sequence, cache included. With `input pos[token]: int` they are what that input says |
| `d` | i - j |
| `h`, `H` | the head, counted from 0, and the number of heads |
| `n` | the number of keys. A formula that reads it cannot decode, unless it is pinned by `const n = 2048` or `--set n=2048` |
| `causal` | d >= 0 |
| `full` | always true |
| `inf` | infinity |

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
    text += fmt::format("| `{}(x{})` | {} | `{}` |\n", row.name, row.has_sink ? ", sink = z" : "",
                        cell(row.doc), row.example);
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

}  // namespace saccade
