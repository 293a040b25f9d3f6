// The reference against torch's own attention, and against plain loops over the definition of each form of
// weights.
#include "saccade/attention/reference.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "saccade/attention/attention.h"
#include "saccade/attention/testing.h"

namespace saccade::reference_test {
namespace {

using test::close;
using test::kInfinity;
using test::largest;
using test::rounding;
using test::Seeded;
using torch::Tensor;

constexpr uint64_t kSeed = 20240602;

Attention make(const std::string& text, AttentionOptions options, at::ScalarType dtype = torch::kDouble) {
  Attention attention(Formula::parse(text), options);
  attention->to(dtype);
  return attention;
}

// --- against torch

struct TorchCase {
  std::string name, text;
  std::string input;  // "", "allowed" or "bias"
  bool causal = false;
  int64_t kv_heads = 4;
};

// Output, then the gradients of query, key, value and perhaps the bias.
std::vector<Tensor> output_and_gradients(const TorchCase& what, bool ours, at::ScalarType dtype) {
  const int64_t batch = 2, heads = 4, queries = 7, keys = what.causal ? 7 : 9, width = 8;
  Seeded random(kSeed);
  const Tensor query = random.leaf({batch, heads, queries, width}, dtype),
               key = random.leaf({batch, what.kv_heads, keys, width}, dtype),
               value = random.leaf({batch, what.kv_heads, keys, 5}, dtype);
  const Tensor upstream = random.normal({batch, heads, queries, 5}, dtype);
  std::vector<Tensor> leaves{query, key, value};
  Tensor extra;
  if (what.input == "allowed") {
    extra = random.booleans({batch, queries, keys}, 0.6);
    extra.select(-1, 0).fill_(true);  // torch gives NaN to a row without keys
  }
  if (what.input == "bias") {
    extra = random.leaf({heads, queries, keys}, dtype);
    leaves.push_back(extra);
  }
  Tensor output;
  if (ours) {
    AttentionCall call;
    if (extra.defined()) call.inputs[what.input] = extra;
    output = make(what.text, {.heads = heads, .kv_heads = what.kv_heads, .head_dim = width}, dtype)
                 ->forward(query, key, value, call);
  } else {
    const Tensor mask = extra.defined() && extra.scalar_type() == torch::kBool ? extra.unsqueeze(1) : extra;
    output = at::scaled_dot_product_attention(query, key, value,
                                              mask.defined() ? std::optional(mask) : std::nullopt, 0,
                                              what.causal, std::nullopt, what.kv_heads != heads);
  }
  std::vector<Tensor> result{output.detach()};
  for (const Tensor& gradient : torch::autograd::grad({output}, leaves, {upstream}))
    result.push_back(gradient.to(torch::kDouble));
  return result;
}

TEST(Reference, EqualsTheAttentionOfTorch) {
  const std::vector<TorchCase> cases = {
      {"plain", "weights = softmax(s)", ""},
      {"causal", "mask = causal", "", true},
      {"boolean mask", "input allowed[query, key]: bool\nmask = allowed[i, j]", "allowed"},
      {"bias", "input bias[head, query, key]\nscore = s + bias[i, j]", "bias"},
      {"grouped heads", "mask = causal", "", true, 2},
      {"one key head", "weights = softmax(s)", "", false, 1},
  };
  for (const TorchCase& what : cases) {
    const std::vector<Tensor> exact = output_and_gradients(what, false, torch::kDouble);
    const std::vector<Tensor> ours = output_and_gradients(what, true, torch::kDouble);
    const std::vector<Tensor> theirs_float = output_and_gradients(what, false, torch::kFloat);
    const std::vector<Tensor> ours_float = output_and_gradients(what, true, torch::kFloat);
    for (size_t part = 0; part < exact.size(); ++part) {
      SCOPED_TRACE(fmt::format("{}, part {}, seed {}", what.name, part, kSeed));
      // A gradient passes three products, of width, keys and queries; the numbers are of the size of 1, so
      // that no partial sum exceeds their count.
      EXPECT_TRUE(
          close(ours[part], exact[part], rounding(torch::kDouble, 3 * 9, 9 * (1 + largest(exact[part])))));
      // In float the errors of torch show how many digits the problem leaves.
      const double error = largest(theirs_float[part].to(torch::kDouble) - exact[part]);
      EXPECT_TRUE(close(ours_float[part].to(torch::kDouble), exact[part],
                        4 * error + rounding(torch::kFloat, 4, largest(exact[part]))));
    }
  }
}

// --- against loops

// One row of the map, as the definitions below see it.
struct Row {
  std::vector<double> s, t;
  std::vector<bool> allowed;
  int64_t i, head, heads;
};
struct RowResult {
  std::vector<double> weights;
  std::vector<double> log_sums;
};

double softmax_sum(const Row& row, const std::vector<double>& x, double sink = -kInfinity) {
  double sum = std::exp(sink);
  for (size_t j = 0; j < x.size(); ++j)
    if (row.allowed[j]) sum += std::exp(x[j]);
  return sum;
}

template <class F>
std::vector<double> for_allowed(const Row& row, F f) {
  std::vector<double> result(row.s.size(), 0);
  for (size_t j = 0; j < row.s.size(); ++j)
    if (row.allowed[j]) result[j] = f(j);
  return result;
}

// numerator(x) / sum(magnitude(x)) over the allowed keys; 0 where the sum is 0.
template <class Numerator, class Magnitude>
RowResult ratio(const Row& row, const std::vector<double>& x, Numerator numerator, Magnitude magnitude) {
  double sum = 0;
  for (size_t j = 0; j < x.size(); ++j)
    if (row.allowed[j]) sum += magnitude(x[j]);
  return {for_allowed(row, [&](size_t j) { return sum == 0 ? 0 : numerator(x[j]) / sum; }), {std::log(sum)}};
}

struct Form {
  std::string text;
  std::function<RowResult(const Row&)> definition;
};

std::vector<Form> forms() {
  const auto softmax = [](const Row& row, const std::vector<double>& x, double sink = -kInfinity) {
    const double sum = softmax_sum(row, x, sink);
    return RowResult{for_allowed(row, [&](size_t j) { return std::exp(x[j]) / sum; }), {std::log(sum)}};
  };
  const auto softpick = [](const Row& row, const std::vector<double>& x) {
    return ratio(
        row, x, [](double v) { return std::max(std::expm1(v), 0.0); },
        [](double v) { return std::fabs(std::expm1(v)); });
  };
  const auto absolute = [](std::vector<double> x) {
    for (double& v : x) v = std::fabs(v);
    return x;
  };
  return {
      {"weights = softmax(s)", [=](const Row& row) { return softmax(row, row.s); }},
      {"weights = softmax(s, sink = 0)", [=](const Row& row) { return softmax(row, row.s, 0); }},
      {"weights = softmax(s, sink = i - 3)",
       [=](const Row& row) { return softmax(row, row.s, static_cast<double>(row.i - 3)); }},
      {"weights = l1(s)",
       [](const Row& row) {
         return ratio(
             row, row.s, [](double v) { return v; }, [](double v) { return std::fabs(v); });
       }},
      {"weights = l1(relu(s))",
       [](const Row& row) {
         const auto relu = [](double v) { return std::max(v, 0.0); };
         return ratio(row, row.s, relu, relu);
       }},
      {"weights = softpick(s)", [=](const Row& row) { return softpick(row, row.s); }},
      {"weights = sigmoid(s)",
       [](const Row& row) {
         return RowResult{for_allowed(row, [&](size_t j) { return 1 / (1 + std::exp(-row.s[j])); }), {}};
       }},
      {"weights = relu(s) ^ 2 / (i + 1)",
       [](const Row& row) {
         return RowResult{for_allowed(row,
                                      [&](size_t j) {
                                        const double positive = std::max(row.s[j], 0.0);
                                        return positive * positive / static_cast<double>(row.i + 1);
                                      }),
                          {}};
       }},
      {"weights = sign(s) * softmax(abs(s))",
       [=](const Row& row) {
         RowResult result = softmax(row, absolute(row.s));
         for (size_t j = 0; j < row.s.size(); ++j) result.weights[j] *= row.s[j] > 0 ? 1 : -1;
         return result;
       }},
      {"weights = 1.25 * softmax(s) - 0.5 * softmax(t)",
       [=](const Row& row) {
         RowResult first = softmax(row, row.s), second = softmax(row, row.t);
         for (size_t j = 0; j < row.s.size(); ++j)
           first.weights[j] = 1.25 * first.weights[j] - 0.5 * second.weights[j];
         first.log_sums.push_back(second.log_sums[0]);
         return first;
       }},
      {"weights = where(j % 2 == 0, softmax(s), softpick(t)) / 2 + 0.125",
       [=](const Row& row) {
         RowResult first = softmax(row, row.s), second = softpick(row, row.t);
         RowResult result{
             for_allowed(row, [&](size_t j) { return (j % 2 == 0 ? first : second).weights[j] / 2 + 0.125; }),
             {first.log_sums[0], second.log_sums[0]}};
         return result;
       }},
      {"weights = 2",
       [](const Row& row) {
         return RowResult{for_allowed(row, [](size_t) { return 2; }), {}};
       }},
  };
}

struct MaskForm {
  std::string text;
  std::function<bool(int64_t i, int64_t j)> allows;
};

void expect_form(const Form& form, const MaskForm& mask, uint64_t seed) {
  Seeded random(seed);
  const int64_t batch = random.between(1, 2), kv_heads = random.between(1, 2),
                heads = kv_heads * random.between(1, 2), queries = random.between(1, 6),
                keys = random.between(1, 7), width = 4, offset = random.between(0, 3);
  SCOPED_TRACE(fmt::format("{} with {}, seed {}", form.text, mask.text, seed));
  const std::string streams = "vector q2 = norm(q)\nvector k2 = relu(k)\nstream t = q2 . k2\n";
  const bool dual = form.text.find("(t)") != std::string::npos;
  Attention attention = make((dual ? streams : "") + "mask = " + mask.text + "\n" + form.text,
                             {.heads = heads, .kv_heads = kv_heads, .head_dim = width});
  const Tensor query = random.normal({batch, heads, queries, width}) * 2,
               key = random.normal({batch, kv_heads, keys, width}),
               value = random.normal({batch, kv_heads, keys, 3});
  AttentionCall call{.offset = offset, .need_weights = true};
  const AttentionResult result = attention->run(query, key, value, call);

  const auto dot = [&](const Tensor& a, const Tensor& b) {
    return (a * b).sum().item<double>() / std::sqrt(static_cast<double>(width));
  };
  Tensor weights = torch::zeros({batch, heads, queries, keys}, torch::kDouble);
  std::vector<Tensor> log_sums(result.log_sums.size());
  for (Tensor& sums : log_sums) sums = torch::zeros({batch, heads, queries}, torch::kDouble);
  double score_size = 0;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < queries; ++i) {
        Row row{.i = offset + i, .head = h, .heads = heads};
        const Tensor q = query[b][h][i];
        for (int64_t j = 0; j < keys; ++j) {
          const Tensor k = key[b][h / (heads / kv_heads)][j];
          row.s.push_back(dot(q, k));
          row.t.push_back(dot(q / (q.square().mean() + 1e-6).sqrt(), k.clamp_min(0)));
          row.allowed.push_back(mask.allows(offset + i, j));
          score_size = std::max({score_size, std::fabs(row.s.back()), std::fabs(row.t.back())});
        }
        const RowResult expected = form.definition(row);
        for (int64_t j = 0; j < keys; ++j) {
          weights[b][h][i][j] = expected.weights[static_cast<size_t>(j)];
          if (!row.allowed[static_cast<size_t>(j)]) {
            EXPECT_EQ(result.weights[b][h][i][j].item<double>(), 0) << "of a masked pair";
          }
        }
        ASSERT_EQ(expected.log_sums.size(), result.log_sums.size());
        for (size_t norm = 0; norm < log_sums.size(); ++norm)
          log_sums[norm][b][h][i] = expected.log_sums[norm];
      }
  // An error of a score is a relative error of its exponential. l1 and softpick divide it by their sum.
  double condition = 1;
  for (const Tensor& sums : log_sums)
    for (int64_t index = 0; index < sums.numel(); ++index)
      if (const double sum = sums.flatten()[index].item<double>(); std::isfinite(sum))
        condition = std::max(condition, std::exp(-sum));
  const double error = rounding(torch::kDouble, width + keys + 8, (1 + score_size) * condition);
  EXPECT_TRUE(close(result.weights, weights, error * (1 + largest(weights))));
  const Tensor repeated = value.repeat_interleave(heads / kv_heads, 1);
  EXPECT_TRUE(close(result.output, torch::matmul(weights, repeated),
                    error * (1 + largest(weights)) * static_cast<double>(keys) * largest(value)));
  for (size_t norm = 0; norm < log_sums.size(); ++norm)
    EXPECT_TRUE(close(result.log_sums[norm], log_sums[norm], error * (1 + score_size))) << "norm " << norm;
}

TEST(Reference, EqualsTheDefinitionOfEveryFormOfWeights) {
  const std::vector<MaskForm> masks = {
      {"full", [](int64_t, int64_t) { return true; }},
      {"causal", [](int64_t i, int64_t j) { return j <= i; }},
      {"0 <= d < 2", [](int64_t i, int64_t j) { return j <= i && i - j < 2; }},
      {"i % 3 != 1 and j != 2", [](int64_t i, int64_t j) { return i % 3 != 1 && j != 2; }},  // empty rows
  };
  uint64_t seed = kSeed;
  for (const Form& form : forms())
    for (const MaskForm& mask : masks)
      for (int repeat = 0; repeat < 3; ++repeat) expect_form(form, mask, ++seed);
}

// --- small facts

struct Inputs {
  Tensor query, key, value;
};

Inputs random_inputs(Seeded& random, int64_t batch, int64_t heads, int64_t kv_heads, int64_t queries,
                     int64_t keys, int64_t width = 4) {
  return {random.normal({batch, heads, queries, width}), random.normal({batch, kv_heads, keys, width}),
          random.normal({batch, kv_heads, keys, 3})};
}

Tensor weights_of(Attention& attention, const Inputs& inputs, AttentionCall call = {}) {
  call.need_weights = true;
  return attention->run(inputs.query, inputs.key, inputs.value, call).weights;
}

TEST(Reference, QueryHeadUsesTheKeyHeadOfItsGroup) {
  Seeded random(kSeed);
  Attention attention = make("mask = causal", {.heads = 6, .kv_heads = 2, .head_dim = 4});
  Inputs inputs = random_inputs(random, 1, 6, 2, 5, 5);
  const Tensor before = attention->forward(inputs.query, inputs.key, inputs.value);
  inputs.value.select(1, 1).add_(1);
  const Tensor moved = attention->forward(inputs.query, inputs.key, inputs.value) - before;
  EXPECT_EQ(largest(moved.narrow(1, 0, 3)), 0);
  EXPECT_TRUE(close(moved.narrow(1, 3, 3), torch::ones_like(moved.narrow(1, 3, 3)),
                    rounding(torch::kDouble, 5, 1 + largest(inputs.value))));
}

TEST(Reference, ScaleReplacesTheRootOfTheWidth) {
  Seeded random(kSeed);
  const Inputs inputs = random_inputs(random, 1, 2, 2, 3, 3);
  Attention plain = make("score = s", {.heads = 2, .head_dim = 4});
  Attention doubled = make("scale = 0.5 * (h + 1)", {.heads = 2, .head_dim = 4});
  const Tensor expected = weights_of(
      plain, {inputs.query * torch::tensor({1.0, 2.0}).view({1, 2, 1, 1}), inputs.key, inputs.value});
  EXPECT_TRUE(close(weights_of(doubled, inputs), expected, rounding(torch::kDouble, 16, 1)));
}

TEST(Reference, PositionsCountFromTheOffset) {
  Attention attention = make("weights = 1000 * i + 10 * j + h", {.heads = 2, .head_dim = 1});
  const Tensor weights =
      weights_of(attention,
                 {torch::ones({1, 2, 2, 1}, torch::kDouble), torch::ones({1, 2, 3, 1}, torch::kDouble),
                  torch::ones({1, 2, 3, 1}, torch::kDouble)},
                 {.offset = 5});
  const Tensor expected =
      torch::tensor({5000, 5010, 5020, 6000, 6010, 6020, 5001, 5011, 5021, 6001, 6011, 6021}, torch::kDouble)
          .view({1, 2, 2, 3});
  EXPECT_TRUE(torch::equal(weights, expected));
}

TEST(Reference, LengthIsTheNumberOfKeys) {
  Attention attention = make("weights = n + 100 * H", {.heads = 2, .head_dim = 1});
  const Tensor ones = torch::ones({1, 2, 3, 1}, torch::kDouble);
  EXPECT_TRUE(torch::equal(weights_of(attention, {ones.narrow(2, 0, 1), ones, ones}),
                           torch::full({1, 2, 1, 3}, 203, torch::kDouble)));
}

TEST(Reference, ShortDtypesRoundOnlyAtTheirBorders) {
  Seeded random(kSeed);
  const Inputs inputs = random_inputs(random, 2, 4, 2, 6, 6);
  for (const auto dtype : {torch::kBFloat16, torch::kHalf}) {
    Attention attention = make("mask = causal\nscore = s - 0.25 * d",
                               {.heads = 4, .kv_heads = 2, .head_dim = 4}, torch::kFloat);
    const Inputs narrow{inputs.query.to(dtype), inputs.key.to(dtype), inputs.value.to(dtype)};
    const AttentionResult result =
        attention->run(narrow.query, narrow.key, narrow.value, {.need_weights = true});
    // The same stored numbers in float: what is left is the rounding of the result.
    const AttentionResult exact = attention->run(narrow.query.to(torch::kFloat), narrow.key.to(torch::kFloat),
                                                 narrow.value.to(torch::kFloat), {.need_weights = true});
    EXPECT_EQ(result.output.scalar_type(), dtype);
    EXPECT_EQ(result.log_sums[0].scalar_type(), torch::kFloat);
    EXPECT_TRUE(torch::equal(result.output, exact.output.to(dtype)));
    EXPECT_TRUE(torch::equal(result.weights, exact.weights.to(dtype)));
    EXPECT_TRUE(torch::equal(result.log_sums[0], exact.log_sums[0]));
  }
}

TEST(Reference, StridesOfTheInputsDoNotMatter) {
  Seeded random(kSeed);
  Attention attention = make("mask = causal\nscore = s - abs(d)", {.heads = 4, .kv_heads = 2, .head_dim = 4});
  const Inputs plain = random_inputs(random, 2, 4, 2, 5, 5);
  const auto as_projected = [](const Tensor& t) { return t.transpose(1, 2).contiguous().transpose(1, 2); };
  const auto as_part = [](const Tensor& t) { return torch::stack({t, t * 7}, -1).select(-1, 0); };
  const Tensor expected = attention->forward(plain.query, plain.key, plain.value);
  EXPECT_TRUE(torch::equal(
      attention->forward(as_projected(plain.query), as_part(plain.key), as_projected(plain.value)),
      expected));
  const Tensor one = plain.key.narrow(1, 0, 1);
  EXPECT_TRUE(
      torch::equal(attention->forward(plain.query, one.expand({2, 2, 5, 4}), plain.value),
                   attention->forward(plain.query, one.expand({2, 2, 5, 4}).contiguous(), plain.value)));
}

TEST(Reference, DropoutKeepsTheMeanAndZeroesTheRest) {
  Seeded random(kSeed);
  torch::manual_seed(7);
  Attention attention = make("weights = softmax(s)", {.heads = 1, .head_dim = 4});
  const Inputs inputs = random_inputs(random, 1, 1, 1, 40, 50);
  const Tensor plain = weights_of(attention, inputs);
  const Tensor dropped = weights_of(attention, inputs, {.dropout = 0.25});
  const Tensor kept = dropped != 0;
  EXPECT_TRUE(
      close(dropped, (plain / 0.75).masked_fill(kept.logical_not(), 0), rounding(torch::kDouble, 4, 2)));
  // 2000 coins: five standard deviations.
  EXPECT_NEAR(kept.to(torch::kDouble).mean().item<double>(), 0.75, 5 * std::sqrt(0.75 * 0.25 / 2000));
}

}  // namespace
}  // namespace saccade::reference_test
