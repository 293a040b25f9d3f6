// Mechanisms that are broken on purpose, each in a way that people have met. The suite must catch every one
// of them, by the check that is meant for it, with a small case. A fault is an honest attention with one half
// of its call replaced.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "saccade/certify/conformance.h"

namespace saccade {
namespace {

using torch::Tensor;

// Which part of a call a fault spoils. `decoding` tells whether a cache is in use.
struct Fault {
  const char* name;
  const char* formula;
  const char* caught_by;
  void (*spoil_inputs)(PairInputs& inputs, bool decoding);
  void (*spoil_result)(const Plan& plan, const PairInputs& inputs, AttentionResult& result);
  int64_t most_tokens;  // the smallest case has at most so many queries
};

class Faulty : public AttentionImpl {
 public:
  Faulty(const Formula& formula, const AttentionOptions& options, const Fault& fault)
      : AttentionImpl(formula, options), fault_(fault) {}

  PairInputs prepare(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionCall& call,
                     KvCache* cache) override {
    PairInputs inputs = AttentionImpl::prepare(query, key, value, call, cache);
    if (fault_.spoil_inputs) fault_.spoil_inputs(inputs, cache != nullptr);
    return inputs;
  }

  AttentionResult attend(const PairInputs& inputs, bool need_weights) override {
    AttentionResult result = AttentionImpl::attend(inputs, need_weights);
    if (fault_.spoil_result) fault_.spoil_result(formula().plan(), inputs, result);
    return result;
  }

 private:
  const Fault& fault_;
};

constexpr const char* kCausal = "mask = causal";
constexpr const char* kAlibi = "mask = causal ; score = s - 2 ^ (-8 * (h + 1) / H) * d";
constexpr const char* kPrior =
    "param alpha[head] = 1 ; param beta[head] = 1 in [0.01, 4] ; mask = causal ; score = s - abs(alpha * d) "
    "^ beta";

void replace_by(const char* formula, const PairInputs& inputs, AttentionResult& result) {
  result = reference_attention(Formula::parse(formula).plan(), inputs, result.weights.defined());
}

// The prior as it is written in a hurry: torch's own derivative of the power is infinite at 0, and 0 * inf is
// NaN.
void naive_prior(const Plan&, const PairInputs& inputs, AttentionResult& result) {
  const Tensor q = inputs.queries[0],
               k = inputs.keys[0].repeat_interleave(q.size(1) / inputs.keys[0].size(1), 1);
  const Tensor v = inputs.value.repeat_interleave(q.size(1) / inputs.value.size(1), 1);
  const Tensor i = (torch::arange(q.size(2)) + inputs.offset).unsqueeze(1),
               j = torch::arange(k.size(2)).unsqueeze(0);
  const Tensor d = (i - j).to(q.scalar_type());
  const Tensor alpha = inputs.tables[0].unsqueeze(-1).unsqueeze(-1),
               beta = inputs.tables[1].unsqueeze(-1).unsqueeze(-1);
  Tensor score = torch::matmul(q, k.transpose(-2, -1)) / std::sqrt(static_cast<double>(q.size(-1)));
  score = score - torch::pow(torch::abs(alpha * d), beta);
  result.output = torch::matmul(torch::softmax(score.masked_fill(d < 0, -1e30), -1), v);
}

const Fault kFaults[] = {
    {"LeaksOneFutureToken", kCausal, "causality", nullptr,
     [](const Plan&, const PairInputs& inputs, AttentionResult& result) {
       replace_by("mask = d >= -1", inputs, result);
     },
     2},
    {"ForgetsOffsetInDecoding", kAlibi, "cache-tokens",
     [](PairInputs& inputs, bool decoding) {
       if (decoding) inputs.offset = 0;
     },
     nullptr, 3},
    {"NanGradientAtDistanceZero", kPrior, "finite-gradients", nullptr, naive_prior, 1},
    {"UsesNumberOfKeys", kCausal, "cache-tokens",
     [](PairInputs& inputs, bool) {
       inputs.queries[0] = inputs.queries[0] * std::log(1.0 + static_cast<double>(inputs.value.size(2)));
     },
     nullptr, 3},
    {"WrongGroupedHeadMapping", kCausal, "grouped-heads",
     [](PairInputs& inputs, bool) {
       const int64_t copies = inputs.queries[0].size(1) / inputs.value.size(1);
       inputs.keys[0] = inputs.keys[0].repeat({1, copies, 1, 1});
       inputs.value = inputs.value.repeat({1, copies, 1, 1});
     },
     nullptr, 1},
    {"NonDeterministic", kCausal, "deterministic", nullptr,
     [](const Plan&, const PairInputs&, AttentionResult& result) {
       result.output = result.output + 1e-4 * torch::randn_like(result.output);
     },
     1},
    {"DependsOnThreads", kCausal, "threads", nullptr,
     [](const Plan&, const PairInputs&, AttentionResult& result) {
       result.output = result.output * (1 + 1e-5 * static_cast<double>(at::get_num_threads()));
     },
     1},
    {"IgnoresPadding", "weights = softmax(s)", "padding",
     [](PairInputs& inputs, bool) { inputs.key_mask.reset(); }, nullptr, 3},
    {"MixesSequences", kCausal, "broadcasting", nullptr,
     [](const Plan&, const PairInputs&, AttentionResult& result) {
       result.output = result.output + 0.1 * result.output.mean(0, true);
     },
     1},
    {"ReadsMemoryInsteadOfStrides", kCausal, "non-contiguous",
     [](PairInputs& inputs, bool) {
       Tensor& key = inputs.keys[0];
       key = torch::as_strided(
           key, key.sizes(),
           {key.size(1) * key.size(2) * key.size(3), key.size(2) * key.size(3), key.size(3), 1});
     },
     nullptr, 3},
    {"TurnsDecodedKeysByTheWrongAngle", kCausal, "cache-tokens",
     [](PairInputs& inputs, bool decoding) {
       if (decoding && inputs.offset > 0)
         inputs.queries[0] = rotate(
             inputs.queries[0], torch::full({inputs.queries[0].size(2)}, 1, torch::kLong), RotaryOptions{});
     },
     nullptr, 3},
    {"ForgetsToScale", kCausal, "definition",
     [](PairInputs& inputs, bool) {
       inputs.queries[0] = inputs.queries[0] * std::sqrt(static_cast<double>(inputs.queries[0].size(3)));
     },
     nullptr, 2},
    {"NanForRowsWithoutKeys", kCausal, "masked-rows", nullptr,
     [](const Plan&, const PairInputs& inputs, AttentionResult& result) {
       if (inputs.key_mask.defined() && !inputs.key_mask.any().item<bool>())
         result.output = torch::full_like(result.output, std::numeric_limits<double>::quiet_NaN());
     },
     1},
    {"WrongGradient", kPrior, "gradients", nullptr,
     [](const Plan&, const PairInputs&, AttentionResult& result) {
       result.output = result.output.detach() + 0.9 * (result.output - result.output.detach());
     },
     1},
    {"OverflowsForLargeScores", kCausal, "extreme-values", nullptr,
     [](const Plan&, const PairInputs& inputs, AttentionResult& result) {
       const Tensor largest =
           inputs.queries[0].abs().max().exp() - inputs.queries[0].abs().max().exp();  // inf - inf
       result.output = result.output + largest.to(result.output.scalar_type());
     },
     1},
    {"KeepsHalfPrecisionSums", kCausal, "dtypes", nullptr,
     [](const Plan&, const PairInputs& inputs, AttentionResult& result) {
       if (inputs.queries[0].scalar_type() == torch::kBFloat16) result.output = result.output * 1.05;
     },
     1},
    {"SkipsRotary", kCausal, "rotary", nullptr, nullptr, 3},
    {"RoundsValuesToHalf", kCausal, "precision",
     [](PairInputs& inputs, bool) {
       if (inputs.value.scalar_type() == torch::kFloat)
         inputs.value = inputs.value.to(torch::kHalf).to(torch::kFloat);
     },
     nullptr, 1},
    {"RoundsGradientsToHalf", kPrior, "precision",
     [](PairInputs& inputs, bool) {
       for (Tensor& table : inputs.tables)
         if (table.scalar_type() == torch::kFloat && table.requires_grad())
           table.register_hook(
               [](const Tensor& gradient) { return gradient.to(torch::kHalf).to(torch::kFloat); });
     },
     nullptr, 12},
    {"HasNoGradientThroughLogSums", kCausal, "gradients-against-reference", nullptr,
     [](const Plan&, const PairInputs&, AttentionResult& result) {
       for (Tensor& log_sum : result.log_sums) log_sum = log_sum.detach();
     },
     1},
    {"WrongGradientUnderPadding", kAlibi, "gradients-against-reference", nullptr,
     [](const Plan&, const PairInputs& inputs, AttentionResult& result) {
       if (inputs.key_mask.defined() && inputs.key_mask.any().item<bool>())
         result.output = result.output.detach() + 1.001 * (result.output - result.output.detach());
     },
     1},
    {"AddsInAnotherOrderWhenSkipping", kCausal, "skipping", nullptr,
     [](const Plan&, const PairInputs& inputs, AttentionResult& result) {
       if (inputs.skip) result.output = result.output * (1 + std::numeric_limits<float>::epsilon());
     },
     1},
    {"SkipsTilesThatAreOnlyFar", "mask = causal ; score = s - 0.001 * d", "skipping", nullptr,
     [](const Plan&, const PairInputs& inputs, AttentionResult& result) {
       if (inputs.skip && inputs.value.size(2) > 96)
         replace_by("mask = 0 <= d < 96 ; score = s - 0.001 * d", inputs, result);
     },
     1},
    {"IgnoresLists", kCausal, "lists", [](PairInputs& inputs, bool) { inputs.lists.reset(); }, nullptr, 1},
    {"TakesTheListOfTheFirstHead", kCausal, "lists",
     [](PairInputs& inputs, bool) {
       if (!inputs.lists || inputs.lists->starts.size(1) == 1) return;
       inputs.lists->starts = inputs.lists->starts.narrow(1, 0, 1).contiguous();
     },
     nullptr, 2},
    {"LosesKeysBehindTheFirstTile", "weights = softmax(s)", "sizes",
     [](PairInputs& inputs, bool) {
       if (inputs.value.size(2) <= 256) return;
       inputs.keys[0] = inputs.keys[0].narrow(2, 0, 256);
       inputs.value = inputs.value.narrow(2, 0, 256);
     },
     nullptr, 1},
    {"ReadsTheLastFeatureTwice", kCausal, "sizes",
     [](PairInputs& inputs, bool) {
       const int64_t width = inputs.queries[0].size(3);
       if (width % 16 != 13) return;  // the rest of a vector, which no other case has
       inputs.queries[0] = torch::cat({inputs.queries[0], inputs.queries[0].narrow(3, width - 1, 1)}, 3);
       inputs.keys[0] = torch::cat({inputs.keys[0], inputs.keys[0].narrow(3, width - 1, 1)}, 3);
     },
     nullptr, 1},
};

Subject subject_of(const Fault& fault) {
  const bool skips_rotary = std::string_view(fault.name) == "SkipsRotary";
  return {.formula = Formula::parse(fault.formula),
          .make = [&fault, skips_rotary](const Formula& formula,
                                         const AttentionOptions& options) -> std::shared_ptr<AttentionImpl> {
            AttentionOptions spoilt = options;
            if (skips_rotary) spoilt.rotary.reset();
            return std::make_shared<Faulty>(formula, spoilt, fault);
          }};
}

class PlantedFault : public testing::TestWithParam<Fault> {};

TEST_P(PlantedFault, IsCaughtWithASmallCase) {
  const Fault& fault = GetParam();
  const auto results = run_conformance(subject_of(fault), {.only = {fault.caught_by}});
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].outcome, Outcome::failed) << fault.caught_by << " let it pass";
  EXPECT_FALSE(results[0].detail.empty());
  ASSERT_TRUE(results[0].failing.has_value());
  EXPECT_LE(results[0].failing->queries, fault.most_tokens) << results[0].detail << "\n"
                                                            << to_string(*results[0].failing);
  // The case on the command line reproduces the failure.
  const Case again = parse_case(to_string(*results[0].failing));
  const auto repeated = run_conformance(subject_of(fault), {.only = {fault.caught_by}, .only_case = again});
  EXPECT_EQ(repeated[0].outcome, Outcome::failed);
}

TEST_P(PlantedFault, IsNotInTheHonestMechanism) {
  const Subject honest{.formula = Formula::parse(GetParam().formula)};
  const auto results = run_conformance(honest, {.only = {GetParam().caught_by}});
  EXPECT_EQ(results[0].outcome, Outcome::passed) << results[0].detail;
}

INSTANTIATE_TEST_SUITE_P(Suite, PlantedFault, testing::ValuesIn(kFaults),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace saccade
