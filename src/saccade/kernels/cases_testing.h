// The cases that forward and backward are both held to: lengths, tiles, widths, places in the sequence,
// layouts, padding, lists and narrow storage, over shipped mechanisms and over formulas that no one has
// shipped.
#pragma once

#include "saccade/formula/mechanisms.h"
#include "saccade/kernels/testing.h"

namespace saccade::kernels::testing {

inline std::vector<std::string> shipped_formulas() {
  std::vector<std::string> result;
  for (const EmbeddedMechanism& mechanism : embedded_mechanisms()) result.emplace_back(mechanism.text);
  return result;
}

inline std::vector<std::string> unusual_formulas() {
  return {
      // Several terms, of different norms.
      "mask = causal\nparam a[head] = 0.5\nweights = softmax(s) - a * softmax(2 * s) + 0.1 * l1(s)",
      "vector q2 = linear(q)\nstream t = q2 . k\nweights = softmax(s) * sigmoid(t) + 0.5 * softpick(t)",
      "input w[head, token]\nmask = causal\nweights = w[i] * softmax(s) + w[j] * l1(s) + 0.1 * tanh(s)",
      // Coefficients inside the sum.
      "weights = tanh(s) * softmax(s + 0.1 * d)",
      "mask = causal\nweights = sin(s) * softmax(s)",
      "mask = d % 2 == 0\nweights = log(1 + abs(d)) * softmax(s)",
      // Sinks of a row, of a head, of everything.
      "param z[head] = 0.3\nmask = 0 <= d < 20\nweights = softmax(s, sink = z * log(i + 2))",
      "param z = 0.3\nmask = d > 5\nweights = softmax(s, sink = exp(z) - 1)",
      "input z[head, query]\nweights = softmax(s, sink = z[i]) - softmax(2 * s, sink = 1)",
      // Other norms, and none.
      "mask = causal\nparam c[head] = 0.1\nweights = l1(s + c)",
      "input r[head, query]\nweights = l1(s * r[i] + r[i])",
      "input b[head, rel]\nmask = d % 3 != 1\nweights = softpick(s + b[d])",
      "param g[head] = 0.9 in [0.1, 1]\nmask = causal\nweights = s * g ^ abs(d)",
      "input c[key]\nmask = abs(d) < 9\nweights = relu(s) * c[j]",
      // Tables by row, column, diagonal, pair, and by odd subscripts.
      "input r[head, query]\nmask = causal\nscore = s * r[i]",
      "input c[head, key]\nmask = causal\nscore = s + c[j]",
      "input c[token]\nscore = s - exp(0.3 * c[j])",
      "input b[head, rel]\nscore = s + tanh(b[d])",
      "input m[query, key]\nscore = s + m[i, j]",
      "input m[batch, head, query, key]\nmask = causal\nscore = s * m[i, j] + 0.1",
      "input m[head, *, *]\nscore = s + m[i // 3, j // 5]",
      "input m[*, *, *]\nmask = causal\nscore = s + m[i % 4, j % 3, abs(d) % 2]",
      "input doc[token]: int\ninput b[rel]\nmask = doc[i] == doc[j]\nscore = s + b[doc[i] - doc[j]]",
      // Quotients by what is never 0, except where there is no key.
      "param p[head, 9] = 1 in [0.7, 4]\nscore = tanh(s) / p[d] / p[i // 5]",
      "param p[head, 9] = 1 in [0.7, 4]\nscore = tanh(s) / p[j // 4] / p[h]",
      // Scales.
      "param g[head] = 0.2 in [0.05, 0.5]\nscale = g * 0.5\nmask = causal",
      "param g = 0.2 in [0.05, 0.5]\ninput b[head, rel]\nscale = g\nmask = causal\nscore = s + b[d]",
      "scale = 2 ^ (-h - 1)\nmask = causal\nscore = s - 0.1 * d",
      "scale = 0.1\nmask = causal\nvector k2 = linear(k)\nstream t = q . k2\nscore = s * tanh(t)",
      // Masks: of scores, of nothing, of the future, of given positions and lengths.
      "mask = causal and s > 0.1",
      "mask = d < -3 or d > 100",
      "mask = -12 <= d < 5\nscore = s + 0.05 * d",
      "input pos[token]: int\nmask = d >= 0\nscore = s - 0.1 * abs(d)",
      "input p[batch]\nmask = j < n - 3\nscore = s * p",
      "input keep[batch, head, query, key]: bool\nmask = keep[i, j]\nweights = where(d < 3, s, tanh(s)) * "
      "softmax(s)",
      "mask = h % 2 == 0 and d >= 0 or h % 2 == 1 and d <= 0",
  };
}

// The next of a list, over and over.
class Rotation {
 public:
  explicit Rotation(std::vector<std::string> list) : list_(std::move(list)) {}
  const std::string& next() { return list_[place_++ % list_.size()]; }

 private:
  std::vector<std::string> list_;
  size_t place_ = 0;
};

inline std::vector<std::string> all_formulas() {
  std::vector<std::string> result = shipped_formulas();
  for (const std::string& text : unusual_formulas()) result.push_back(text);
  return result;
}

// Every formula where it is short, where it fills several tiles, and where a cache has begun to drop keys.
inline std::vector<Case> formula_cases(const std::vector<std::string>& formulas) {
  std::vector<Case> cases;
  uint64_t seed = 0;
  for (const std::string& text : formulas) {
    cases.push_back({.formula = text,
                     .queries = 37,
                     .keys = 37,
                     .width = 8,
                     .value_width = 9,
                     .batch = 2,
                     .group = 2,
                     .log_sum_gradients = true,
                     .seed = ++seed});
    cases.push_back({.formula = text,
                     .queries = 131,
                     .keys = 293,
                     .width = 5,
                     .value_width = 4,
                     .group = 2,
                     .offset = 170,
                     .first_key = 8,
                     .seed = ++seed});
    cases.push_back({.formula = text,
                     .queries = 3,
                     .keys = 41,
                     .width = 17,
                     .key_heads = 2,
                     .group = 3,
                     .offset = 50,
                     .first_key = 12,
                     .seed = ++seed});
  }
  return cases;
}

// Lengths up to 70: all primes and some round numbers, each against several others.
inline std::vector<Case> length_cases() {
  static constexpr int64_t kLengths[] = {1,  2,  3,  4,  5,  7,  8,  11, 13, 16, 17, 19, 23, 24, 29, 31,
                                         32, 37, 41, 43, 47, 48, 49, 53, 59, 61, 63, 64, 65, 67, 70};
  std::vector<Case> cases;
  Rotation formulas(all_formulas());
  RandomStream random(1, "lengths");
  for (int64_t queries : kLengths)
    for (int64_t turn = 0; turn < 5; ++turn) {
      const int64_t keys = turn == 0 ? queries : kLengths[random.below(std::size(kLengths))];
      cases.push_back({.formula = formulas.next(),
                       .queries = queries,
                       .keys = keys,
                       .width = 4,
                       .value_width = 3,
                       .group = 1 + turn % 2,
                       .offset = static_cast<int64_t>(random.below(20)),
                       .seed = random.next()});
    }
  return cases;
}

// Lengths that reach several tiles, chunks and units, dense and with few queries.
inline std::vector<Case> tile_cases() {
  static constexpr std::pair<int64_t, int64_t> kLengths[] = {{97, 97},  {193, 193}, {263, 263}, {519, 519},
                                                             {97, 519}, {519, 97},  {96, 256},  {192, 512},
                                                             {1, 1031}, {5, 519},   {96, 700},  {289, 1}};
  static constexpr std::string_view kFormulas[] = {
      "mask = causal", "weights = softmax(s)",
      "param a[head] = 0.5\nmask = 0 <= d < 70\nweights = softmax(s - a * d) - 0.5 * tanh(s) * softpick(s)",
      "input b[head, rel]\ninput c[key]\nmask = causal or d < -90\nweights = l1(s + b[d] + c[j]) + 0.1 * "
      "relu(s)"};
  std::vector<Case> cases;
  uint64_t seed = 0;
  for (const auto& [queries, keys] : kLengths)
    for (std::string_view text : kFormulas)
      cases.push_back({.formula = std::string(text),
                       .queries = queries,
                       .keys = keys,
                       .width = 6,
                       .value_width = 7,
                       .offset = std::max<int64_t>(keys - queries, 0),
                       .seed = ++seed});
  return cases;
}

inline std::vector<Case> width_cases() {
  static constexpr int64_t kWidths[] = {1, 2, 3, 7, 16, 17, 31, 33, 64, 65, 80, 127, 256};
  std::vector<Case> cases;
  Rotation formulas(all_formulas());
  RandomStream random(1, "widths");
  for (int64_t width : kWidths)
    for (int64_t turn = 0; turn < 4; ++turn)
      cases.push_back({.formula = formulas.next(),
                       .queries = turn < 3 ? 29 : 101,
                       .keys = turn < 3 ? 43 : 35,
                       .width = width,
                       .value_width = turn == 0 ? width : kWidths[random.below(std::size(kWidths))],
                       .group = 1 + turn % 2,
                       .offset = 14,
                       .seed = random.next()});
  for (int64_t width : kWidths)  // vectors wider or narrower than q and k
    cases.push_back({.formula = std::string(Formula::load("diff").text()),
                     .queries = 19,
                     .keys = 35,
                     .width = 12,
                     .vector_width = width,
                     .offset = 14,
                     .seed = random.next()});
  return cases;
}

inline std::vector<Case> layout_cases() {
  std::vector<Case> cases;
  Rotation formulas(all_formulas());
  RandomStream random(1, "layouts");
  for (Layout layout : {Layout::token_major, Layout::spaced, Layout::feature_major, Layout::shared})
    for (int64_t turn = 0; turn < 12; ++turn)
      cases.push_back({.formula = formulas.next(),
                       .queries = turn % 3 ? 21 : 99,
                       .keys = turn % 2 ? 35 : 270,
                       .width = turn % 4 ? 16 : 11,
                       .value_width = turn % 4 ? 32 : 13,
                       .batch = 2,
                       .key_heads = 2,
                       .group = 1 + turn % 2,
                       .offset = 14,
                       .key_mask = turn % 5 == 0 && layout != Layout::shared,
                       .layout = layout,
                       .seed = random.next()});
  return cases;
}

inline std::vector<Case> padding_cases() {
  std::vector<Case> cases;
  RandomStream random(1, "padding");
  int64_t turn = 0;
  for (const std::string& text : all_formulas()) {
    ++turn;
    cases.push_back({.formula = text,
                     .queries = turn % 3 ? 17 : 101,
                     .keys = turn % 2 ? 53 : 33,
                     .width = turn % 4 ? 16 : 5,
                     .batch = 2,
                     .offset = turn % 20,
                     .key_mask = true,
                     .log_sum_gradients = turn % 2 == 0,
                     .seed = random.next()});
  }
  return cases;
}

inline std::vector<Case> list_cases() {
  std::vector<Case> cases;
  Rotation formulas(all_formulas());
  RandomStream random(1, "lists");
  for (int64_t query_tile : {1, 16, 48, 64, 100})
    for (int64_t key_tile : {1, 16, 64})
      for (int64_t turn = 0; turn < 14; ++turn)
        cases.push_back({.formula = formulas.next(),
                         .queries = turn % 3 ? 71 : 127,
                         .keys = turn % 2 ? 67 : 301,
                         .width = turn % 4 ? 16 : 5,
                         .value_width = turn % 3 ? 16 : 8,
                         .batch = 1 + turn % 2,
                         .group = 1 + turn % 2,
                         .offset = 5 * turn,
                         .first_key = turn % 4,
                         .key_mask = turn == 3,
                         .query_tile = query_tile,
                         .key_tile = key_tile,
                         .gather = turn % 7 % 2 == turn / 7,
                         .log_sum_gradients = turn == 4,
                         .seed = random.next()});
  // Decoding: the heads of a group read their lists together, in several chunks.
  int64_t turn = 0;
  for (int64_t group : {1, 2, 3, 8})
    for (int64_t queries : {1, 2, 3})
      for (int64_t key_tile : {1, 16})
        for (const bool gather : {true, false})
          for (const char* text : {"mask = causal", ""}) {
            ++turn;
            cases.push_back({.formula = *text ? text : formulas.next(),
                             .queries = queries,
                             .keys = turn % 3 ? 1301 : 53,
                             .width = turn % 4 ? 16 : 5,
                             .value_width = turn % 5 ? 16 : 8,
                             .batch = 1 + turn % 2,
                             .key_heads = 1 + turn / 2 % 2,
                             .group = group,
                             .offset = turn % 3 ? 1298 : 50,
                             .first_key = turn % 7,
                             .key_mask = turn % 11 == 3,
                             .query_tile = turn % 2 ? 4 : 64,
                             .key_tile = key_tile,
                             .gather = gather,
                             .seed = random.next()});
          }
  return cases;
}

inline std::vector<Case> half_cases() {
  std::vector<Case> cases;
  RandomStream random(1, "halves");
  for (Storage storage : {Storage::bfloat16, Storage::float16}) {
    for (Layout layout : {Layout::packed, Layout::token_major, Layout::spaced})
      for (int64_t width : {3, 16, 40})
        for (const char* text :
             {"mask = causal", "input b[head, rel]\nweights = softmax(s + b[d]) - 0.5 * l1(s)"})
          cases.push_back({.formula = text,
                           .queries = width == 3 ? 110 : 13,
                           .keys = 45,
                           .width = width,
                           .value_width = width,
                           .group = 2,
                           .offset = 33,
                           .key_mask = width == 16,
                           .storage = storage,
                           .layout = layout,
                           .seed = random.next()});
    // Pairs of numbers: several tiles, several products of one key, widths of queries and values that differ,
    // and lists for many and for few rows.
    for (const char* text : {"mask = causal",
                             "vector q2 = linear(q)\nstream t = q2 . k\nmask = causal\n"
                             "weights = softmax(s) - 0.5 * softmax(t)"})
      for (int64_t query_tile : {0, 16, 64})
        for (int64_t value_width : {16, 6, 5})
          cases.push_back({.formula = text,
                           .queries = 131,
                           .keys = 293,
                           .width = 64,
                           .value_width = value_width,
                           .vector_width = 64,
                           .group = 2,
                           .offset = 162,
                           .query_tile = query_tile,
                           .storage = storage,
                           .seed = random.next()});
    // Decoding: the heads of a group are the rows. One query's weights of many keys are too small for
    // float16.
    if (storage == Storage::float16) continue;
    for (int64_t group : {1, 3, 8, 20})
      for (int64_t width : {16, 64, 66})
        cases.push_back({.formula = "mask = causal",
                         .queries = 1,
                         .keys = 517,
                         .width = width,
                         .value_width = width,
                         .group = group,
                         .offset = 516,
                         .storage = storage,
                         .layout = width == 64 ? Layout::token_major : Layout::packed,
                         .guard = Guard::page_after,
                         .seed = random.next()});
  }
  return cases;
}

}  // namespace saccade::kernels::testing
