// MultiheadAttention with plain softmax against torch's own: output, weights and all gradients, over every
// combination of options. How far two correct computations may lie apart is itself computed: from sums of
// absolute values and the rounding unit.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/activation.h>
#include <torch/utils.h>

#include <limits>

#include "saccade/attention/multihead.h"

namespace saccade::multihead_parity_test {
namespace {

using torch::Tensor;
namespace functional = torch::nn::functional;

constexpr int64_t kWidth = 12, kHeads = 3, kHeadDim = kWidth / kHeads;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

enum class MaskForm { none, flat_boolean, flat_real, deep_boolean, deep_real };

struct Setting {
  MaskForm mask = MaskForm::none;
  torch::ScalarType dtype = torch::kFloat;
  int64_t key_width = kWidth;
  bool bias = true, bias_kv = false, zero_attn = false, padding = false, self = false;
  int64_t batch = 2, queries = 4, keys = 5;
  double dropout = 0;

  int64_t all_keys() const { return keys + bias_kv + zero_attn; }
  std::string text() const {
    return fmt::format("{}, key width {}, bias {}, bias_kv {}, zero_attn {}, padding {}, self {}",
                       c10::toString(dtype), key_width, bias, bias_kv, zero_attn, padding, self);
  }
};

// What is compared. Gradients are by parameter name, and "query", "key", "value", "mask" for the arguments.
struct Results {
  Tensor output, weights;
  std::map<std::string, Tensor> gradients;
};

// One set of numbers for both modules.
struct Problem {
  Setting setting;
  torch::nn::MultiheadAttention theirs{nullptr};
  MultiheadAttention ours{nullptr};
  std::map<std::string, Tensor> arguments;  // query, key, value; a real mask
  Tensor padding, mask;                     // the mask in our form
  Tensor output_gradient, weights_gradient;

  explicit Problem(const Setting& given) : setting(given) {
    torch::manual_seed(7);
    theirs = torch::nn::MultiheadAttention(torch::nn::MultiheadAttentionOptions(kWidth, kHeads)
                                               .bias(setting.bias)
                                               .dropout(setting.dropout)
                                               .add_bias_kv(setting.bias_kv)
                                               .add_zero_attn(setting.zero_attn)
                                               .kdim(setting.key_width)
                                               .vdim(setting.key_width));
    ours = MultiheadAttention(MultiheadAttentionOptions{.embed_dim = kWidth,
                                                        .num_heads = kHeads,
                                                        .dropout = setting.dropout,
                                                        .bias = setting.bias,
                                                        .add_bias_kv = setting.bias_kv,
                                                        .add_zero_attn = setting.zero_attn,
                                                        .kdim = setting.key_width,
                                                        .vdim = setting.key_width});
    theirs->to(setting.dtype);
    ours->to(setting.dtype);
    torch::NoGradGuard no_gradient;
    const auto same = ours->named_parameters();
    for (const auto& parameter : theirs->named_parameters()) {
      parameter->normal_(0, 0.25);
      same[parameter.key()].copy_(*parameter);
    }
    draw_arguments();
  }

  void draw_arguments() {
    const auto& [batch, queries, keys] = std::tie(setting.batch, setting.queries, setting.keys);
    const auto options = torch::TensorOptions().dtype(setting.dtype);
    arguments["query"] = torch::randn({queries, batch, kWidth}, options);
    if (!setting.self) {
      arguments["key"] = torch::randn({keys, batch, setting.key_width}, options);
      arguments["value"] = torch::randn({keys, batch, setting.key_width}, options);
    }
    // The first key stays visible: torch makes NaN of a row without any.
    if (setting.padding)
      padding = torch::rand({batch, keys}).gt(0.7).index_fill(1, torch::tensor({0}), false);
    if (setting.mask != MaskForm::none) {
      const bool deep = setting.mask == MaskForm::deep_boolean || setting.mask == MaskForm::deep_real;
      std::vector<int64_t> shape{queries, keys};
      if (deep) shape.insert(shape.begin(), batch * kHeads);
      const Tensor hidden = torch::rand(shape).gt(0.7).index_fill(-1, torch::tensor({0}), false);
      if (setting.mask == MaskForm::flat_boolean || setting.mask == MaskForm::deep_boolean)
        mask = hidden;
      else
        mask = arguments["mask"] = torch::randn(shape, options).masked_fill(hidden, -kInfinity);
    }
    for (auto& [name, tensor] : arguments) tensor.requires_grad_();
    output_gradient = torch::randn({queries, batch, kWidth}, options);
    weights_gradient = torch::randn({batch, kHeads, queries, setting.all_keys()}, options);
  }

  const Tensor& argument(const std::string& name) const {
    return arguments.at(setting.self && name != "mask" ? "query" : name);
  }

  Results finish(const Tensor& output, const Tensor& weights, const torch::nn::Module& module) const {
    Results results{output.detach(), weights.detach(), {}};
    std::vector<std::string> names;
    std::vector<Tensor> sources;
    for (const auto& parameter : module.named_parameters()) {
      names.push_back(parameter.key());
      sources.push_back(*parameter);
    }
    for (const auto& [name, tensor] : arguments) {
      names.push_back(name);
      sources.push_back(tensor);
    }
    const auto gradients = torch::autograd::grad({output, weights}, sources,
                                                 {output_gradient, weights_gradient}, {}, false, true);
    for (size_t index = 0; index < names.size(); ++index) results.gradients[names[index]] = gradients[index];
    return results;
  }
};

Results our_results(const Problem& problem) {
  torch::manual_seed(11);
  const auto [output, weights] =
      problem.ours.ptr()->forward(problem.argument("query"), problem.argument("key"),
                                  problem.argument("value"), problem.padding, true, problem.mask, false);
  return problem.finish(output, weights, *problem.ours);
}

Tensor added(const Tensor& mask, torch::ScalarType dtype) {
  if (!mask.defined() || mask.is_floating_point()) return mask;
  return torch::zeros(mask.sizes(), dtype).masked_fill(mask, -kInfinity);
}

// Torch's class in C++ takes one mask for all heads. With a mask per sequence and head it is asked for one of
// each at a time, with out_proj seeing that head alone, and the answers are put together.
std::pair<Tensor, Tensor> head_by_head(const Problem& problem) {
  const auto& module = *problem.theirs;
  std::vector<Tensor> outputs, weights;
  for (int64_t n = 0; n < problem.setting.batch; ++n) {
    Tensor sum;
    std::vector<Tensor> maps;
    for (int64_t h = 0; h < kHeads; ++h) {
      const int64_t first = h * kHeadDim;
      const Tensor place = torch::arange(kWidth);
      const Tensor selected = place.ge(first).logical_and(place.lt(first + kHeadDim));
      auto options = functional::MultiheadAttentionForwardFuncOptions(
                         kWidth, kHeads, module.in_proj_weight, module.in_proj_bias, module.bias_k,
                         module.bias_v, problem.setting.zero_attn, 0, module.out_proj->weight * selected,
                         h == 0 ? module.out_proj->bias : Tensor())
                         .training(false)
                         .attn_mask(added(problem.mask, problem.setting.dtype)[n * kHeads + h])
                         .use_separate_proj_weight(!module._qkv_same_embed_dim)
                         .q_proj_weight(module.q_proj_weight)
                         .k_proj_weight(module.k_proj_weight)
                         .v_proj_weight(module.v_proj_weight)
                         .average_attn_weights(false);
      if (problem.padding.defined()) options.key_padding_mask(problem.padding.slice(0, n, n + 1));
      const auto one = [&](const char* name) { return problem.argument(name).slice(1, n, n + 1); };
      const auto [output, map] =
          functional::multi_head_attention_forward(one("query"), one("key"), one("value"), options);
      sum = sum.defined() ? sum + output : output;
      maps.push_back(map.slice(1, h, h + 1));
    }
    outputs.push_back(sum);
    weights.push_back(torch::cat(maps, 1));
  }
  return {torch::cat(outputs, 1), torch::cat(weights, 0)};
}

Results torch_results(const Problem& problem) {
  torch::manual_seed(11);
  if (problem.mask.defined() && problem.mask.dim() == 3) {
    const auto [output, weights] = head_by_head(problem);
    return problem.finish(output, weights, *problem.theirs);
  }
  const auto [output, weights] = problem.theirs.ptr()->forward(
      problem.argument("query"), problem.argument("key"), problem.argument("value"), problem.padding, true,
      added(problem.mask, problem.setting.dtype), false);
  return problem.finish(output, weights, *problem.theirs);
}

// What every number would be if nothing cancelled: all operands replaced by their absolute values, in double.
// A computed number lies within (roundings on its way) * (rounding unit) * (its majorant) of the true one.
// For the softmax, whose backward is dS = P (dP - sum P dP), the sign in the middle becomes a plus.
struct Majorant {
  Results results;
  double largest_score = 0;
};

Majorant majorant_of(const Problem& problem, const Tensor& undropped_weights) {
  const Setting& setting = problem.setting;
  const auto absolute = [](const Tensor& tensor) {
    return tensor.detach().to(torch::kDouble).abs().nan_to_num(0, 0, 0).requires_grad_();
  };
  std::map<std::string, Tensor> leaves;
  for (const auto& parameter : problem.theirs->named_parameters())
    leaves[parameter.key()] = absolute(*parameter);
  for (const auto& [name, tensor] : problem.arguments) leaves[name] = absolute(tensor);
  const auto leaf = [&](const std::string& name) { return leaves.contains(name) ? leaves[name] : Tensor(); };
  const auto heads = [&](const char* name, const char* weight_name, int64_t place) {
    const Tensor packed = leaf("in_proj_weight"), biases = leaf("in_proj_bias");
    const Tensor weight = packed.defined() ? packed.chunk(3)[static_cast<size_t>(place)] : leaf(weight_name);
    const Tensor bias = biases.defined() ? biases.chunk(3)[static_cast<size_t>(place)] : Tensor();
    Tensor projected = at::linear(leaf(setting.self ? "query" : name), weight, bias);
    if (place > 0 && setting.bias_kv)
      projected =
          torch::cat({projected, leaf(place == 1 ? "bias_k" : "bias_v").expand({1, setting.batch, kWidth})});
    if (place > 0 && setting.zero_attn) projected = at::constant_pad_nd(projected, {0, 0, 0, 0, 0, 1});
    return projected.unflatten(2, {kHeads, kHeadDim}).permute({1, 2, 0, 3});
  };
  const Tensor q = heads("query", "q_proj_weight", 0), k = heads("key", "k_proj_weight", 1),
               v = heads("value", "v_proj_weight", 2);
  Tensor score = torch::matmul(q, k.transpose(-2, -1)) / std::sqrt(static_cast<double>(kHeadDim));
  if (const Tensor mask = leaf("mask"); mask.defined()) {
    const Tensor padded = at::constant_pad_nd(mask, {0, setting.all_keys() - setting.keys});
    score = score + (mask.dim() == 3 ? padded.unflatten(0, {setting.batch, kHeads}) : padded);
  }
  const Tensor p = undropped_weights.detach().to(torch::kDouble);
  const Tensor change = score - score.detach();
  const Tensor weights =
      p * (1 + change + (p * change).sum(-1, true)) / (1 - setting.dropout);  // dropping only makes less
  const Tensor context = torch::matmul(weights, v).permute({2, 0, 1, 3}).flatten(2);
  const Tensor output = at::linear(context, leaf("out_proj.weight"), leaf("out_proj.bias"));

  Majorant result;
  result.results.output = output.detach();
  result.results.weights = weights.detach();
  result.largest_score = score.numel() == 0 ? 0 : score.detach().masked_fill(p == 0, 0).max().item<double>();
  std::vector<Tensor> sources;
  for (const auto& [name, tensor] : leaves) sources.push_back(tensor);
  const auto gradients = torch::autograd::grad(
      {output, weights}, sources,
      {problem.output_gradient.to(torch::kDouble).abs(), problem.weights_gradient.to(torch::kDouble).abs()},
      {}, false, true);
  size_t index = 0;
  for (const auto& [name, tensor] : leaves) result.results.gradients[name] = gradients[index++];
  return result;
}

// The roundings on the way to any of the numbers: the lengths of the sums that it passes through, forward and
// backward, each no more than four times. Their signs are as good as random, so that n of them add up to 4
// sqrt(n) at most (Higham and Mary 2019: with a probability of 1 - 2n exp(-4^2 / 2) for each sum; the numbers
// here are fixed by a seed). A weight of the softmax carries a relative error of twice its score's absolute
// error besides, and a gradient is made of two weights.
double roundings(const Setting& setting, double largest_score) {
  const auto width = static_cast<double>(std::max(kWidth, setting.key_width));
  const auto keys = static_cast<double>(setting.all_keys());
  const auto tokens = static_cast<double>(setting.batch * (setting.queries + setting.all_keys()));
  const double elementwise = 32;
  const double of_sums = 4 * (2 * width + kHeadDim + keys) + tokens + elementwise;
  const double of_score = 2 * (width + 1) + kHeadDim + 2;
  return 4 * (std::sqrt(of_sums) + 2 * (2 * largest_score * std::sqrt(of_score) + std::sqrt(keys + 4)));
}

void expect_within(const Tensor& ours, const Tensor& theirs, const Tensor& majorant, double unit,
                   const std::string& what) {
  SCOPED_TRACE(what);
  // What no result depends on has no gradient with one, and a gradient of 0 with the other.
  if (!ours.defined() || !theirs.defined()) {
    const Tensor& other = ours.defined() ? ours : theirs;
    EXPECT_TRUE(!other.defined() || other.count_nonzero().item<int64_t>() == 0);
    return;
  }
  ASSERT_EQ(ours.sizes(), theirs.sizes());
  ASSERT_EQ(ours.scalar_type(), theirs.scalar_type());
  if (ours.numel() == 0) return;
  const Tensor distance = (ours - theirs).to(torch::kDouble).abs();
  const Tensor excess = distance - unit * majorant;
  EXPECT_LE(excess.max().item<double>(), 0) << "largest distance " << distance.max().item<double>()
                                            << ", allowed at most " << (unit * majorant).max().item<double>();
}

void expect_parity(const Problem& problem) {
  const bool dropping = problem.setting.dropout > 0;
  problem.ours.ptr()->train(dropping);
  problem.theirs.ptr()->eval();
  Results theirs = torch_results(problem);
  const Majorant majorant = majorant_of(problem, theirs.weights);
  if (dropping) {
    problem.theirs.ptr()->train();
    theirs = torch_results(problem);
  }
  const Results ours = our_results(problem);
  const double epsilon = problem.setting.dtype == torch::kFloat ? std::numeric_limits<float>::epsilon()
                                                                : std::numeric_limits<double>::epsilon();
  // Each of the two may be off by half an epsilon for every rounding.
  const double unit = epsilon * roundings(problem.setting, majorant.largest_score);
  expect_within(ours.output, theirs.output, majorant.results.output, unit, "output");
  expect_within(ours.weights, theirs.weights, majorant.results.weights, unit, "weights");
  ASSERT_EQ(ours.gradients.size(), theirs.gradients.size());
  for (const auto& [name, gradient] : ours.gradients)
    expect_within(gradient, theirs.gradients.at(name), majorant.results.gradients.at(name), unit,
                  "gradient of " + name);
}

class MultiheadTable : public testing::TestWithParam<std::tuple<MaskForm, torch::ScalarType>> {};

TEST_P(MultiheadTable, EqualsTorchForEveryCombinationOfOptions) {
  for (int bits = 0; bits < 64; ++bits) {
    Setting setting{.mask = std::get<0>(GetParam()), .dtype = std::get<1>(GetParam())};
    setting.bias = bits & 1;
    setting.bias_kv = bits & 2;
    setting.zero_attn = bits & 4;
    setting.padding = bits & 8;
    setting.self = bits & 16;
    if (setting.self) setting.keys = setting.queries;
    if (bits & 32) {
      if (setting.self) continue;
      setting.key_width = 7;
    }
    SCOPED_TRACE(setting.text());
    expect_parity(Problem(setting));
  }
}

TEST_P(MultiheadTable, EqualsTorchForUnusualShapes) {
  const auto [mask, dtype] = GetParam();
  for (const auto& [batch, queries, keys] :
       {std::tuple{1, 1, 1}, {1, 6, 2}, {3, 1, 9}, {2, 33, 65}, {1, 3, 0}, {1, 0, 3}}) {
    if (keys == 0 && mask != MaskForm::none) continue;  // there is no first key to keep visible
    SCOPED_TRACE(fmt::format("batch {}, queries {}, keys {}", batch, queries, keys));
    expect_parity(Problem({.mask = mask, .dtype = dtype, .batch = batch, .queries = queries, .keys = keys}));
  }
}

std::string test_name(const testing::TestParamInfo<std::tuple<MaskForm, torch::ScalarType>>& parameters) {
  static const char* const kForms[] = {"None", "FlatBoolean", "FlatReal", "DeepBoolean", "DeepReal"};
  const auto [mask, dtype] = parameters.param;
  return fmt::format("{}{}", kForms[static_cast<int>(mask)], c10::toString(dtype));
}

INSTANTIATE_TEST_SUITE_P(Multihead, MultiheadTable,
                         testing::Combine(testing::Values(MaskForm::none, MaskForm::flat_boolean,
                                                          MaskForm::flat_real, MaskForm::deep_boolean,
                                                          MaskForm::deep_real),
                                          testing::Values(torch::kFloat, torch::kDouble)),
                         test_name);

// Both draw from the generator once, for the same number of weights in the same order.
TEST(MultiheadParity, DropsTheSameWeightsAsTorchForTheSameSeed) {
  for (auto dtype : {torch::kFloat, torch::kDouble})
    for (MaskForm mask : {MaskForm::none, MaskForm::flat_boolean, MaskForm::flat_real}) {
      const Problem problem({.mask = mask, .dtype = dtype, .padding = true, .dropout = 0.4});
      SCOPED_TRACE(static_cast<int>(mask));
      expect_parity(problem);
      problem.ours.ptr()->train();
      const Tensor weights = our_results(problem).weights;
      problem.ours.ptr()->eval();
      const Tensor dropped = (weights == 0).logical_and(our_results(problem).weights != 0);
      EXPECT_GT(dropped.sum().item<int64_t>(), 0);
    }
}

TEST(MultiheadParity, HoldsForStridedArguments) {
  Problem problem({.mask = MaskForm::flat_real, .dtype = torch::kDouble, .padding = true});
  for (auto& [name, tensor] : problem.arguments) {
    const Tensor wide = torch::stack({tensor.detach(), tensor.detach() + 1}, -1);
    tensor = wide.transpose(0, 1).contiguous().transpose(0, 1).select(-1, 0).detach().requires_grad_();
    EXPECT_FALSE(tensor.is_contiguous());
  }
  problem.mask = problem.arguments["mask"];
  expect_parity(problem);
}

// Torch's class in C++ wants key and value of one width, so it gets the narrower one with features of 0.
TEST(MultiheadParity, TakesKeysAndValuesOfTwoWidths) {
  for (auto [key_width, value_width] : {std::pair{5, 16}, {16, 9}}) {
    SCOPED_TRACE(fmt::format("kdim {}, vdim {}", key_width, value_width));
    Problem wide({.dtype = torch::kDouble, .key_width = 16});
    MultiheadAttention narrow(MultiheadAttentionOptions{
        .embed_dim = kWidth, .num_heads = kHeads, .kdim = key_width, .vdim = value_width});
    narrow->to(torch::kDouble);
    {
      torch::NoGradGuard no_gradient;
      wide.arguments["key"].slice(2, key_width).zero_();
      wide.arguments["value"].slice(2, value_width).zero_();
      for (const auto& parameter : narrow->named_parameters()) {
        const Tensor full = wide.theirs->named_parameters()[parameter.key()];
        parameter->copy_(parameter->dim() == 2 ? full.slice(1, 0, parameter->size(1)) : full);
      }
    }
    const auto [output, weights] =
        narrow->forward(wide.argument("query"), wide.argument("key").slice(2, 0, key_width),
                        wide.argument("value").slice(2, 0, value_width), {}, true, {}, false);
    const Results theirs = torch_results(wide), ours = wide.finish(output, weights, *narrow);
    const Majorant majorant = majorant_of(wide, theirs.weights);
    const double unit =
        std::numeric_limits<double>::epsilon() * roundings(wide.setting, majorant.largest_score);
    expect_within(output, theirs.output, majorant.results.output, unit, "output");
    for (const auto& [name, gradient] : ours.gradients) {
      const auto cut = [&, &ours_gradient = gradient](const Tensor& full) {
        return full.dim() >= 2 ? full.slice(-1, 0, ours_gradient.size(-1)) : full;
      };
      if (name == "key" || name == "value") continue;  // leaves of the wide problem
      expect_within(gradient, cut(theirs.gradients.at(name)), cut(majorant.results.gradients.at(name)), unit,
                    "gradient of " + name);
    }
  }
}

}  // namespace
}  // namespace saccade::multihead_parity_test
