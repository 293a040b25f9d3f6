// Checks of an implementation beside the reference path: exactness, precision, and what a fast path may do
// differently without anyone noticing.
#include <algorithm>

#include "saccade/base/random.h"
#include "saccade/certify/compare.h"
#include "saccade/certify/problem.h"
#include "saccade/certify/properties.h"
#include "saccade/certify/runs.h"
#include "saccade/formula/augment.h"

namespace saccade::properties {
namespace {

using torch::Tensor;

Problem converted(const Problem& problem, at::ScalarType dtype) {
  const auto convert = [&](Tensor& tensor) {
    if (tensor.defined() && tensor.is_floating_point()) tensor = tensor.to(dtype);
  };
  Problem result = problem;
  convert(result.query);
  convert(result.key);
  convert(result.value);
  convert(result.call.x);
  for (auto& [name, input] : result.call.inputs) convert(input);
  return result;
}

// Every other key or so, and all keys of no sequence.
Tensor scattered_padding(const Case& c) {
  Tensor mask = normal_tensor({c.batch, c.keys}, c.seed, "padding", torch::kDouble) > -0.3;
  mask.select(1, c.keys - 1).fill_(true);
  return mask;
}

// The errors of one tensor over several problems: ours, those of the definition in float, and how many
// roundings of the largest number are allowed to anyone.
struct Errors {
  std::string name;
  double ours = 0, theirs = 0;  // sums of squares
  int64_t count = 0;
  double largest = 1;

  bool too_large() const {
    // The definition may be lucky: with one key every rounding is undone, and a few numbers may come out
    // right by chance. So a few roundings of the largest number are always allowed, and that is taken as at
    // least 1, the size of what problems are made of, because a small gradient is often a sum of large parts
    // that cancel.
    const double floor = 4 * std::numeric_limits<float>::epsilon() * largest;
    return !(root(ours) <= std::max(4 * root(theirs), floor));
  }
  double root(double sum) const { return count > 0 ? std::sqrt(sum / static_cast<double>(count)) : 0; }
};

// The sum of the squared errors; not a number where one of the two is infinite and the other is not.
double squared_error(const Tensor& found, const Tensor& exact) {
  const Tensor left = found.to(torch::kDouble), right = exact.to(torch::kDouble);
  return torch::where(left == right, torch::zeros_like(left), left - right).square().sum().item<double>();
}

double magnitude_of(const Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  return torch::nan_to_num(tensor.to(torch::kDouble), 0.0, 0.0, 0.0).abs().max().item<double>();
}

// Lists that hold about half of the keys, some of them none, and the same as a mask of pairs.
struct Choice {
  KeyLists lists;
  Tensor allowed;  // [batch, heads, queries, keys]
};

Choice choose_keys(const Case& c, int64_t query_tile, int64_t key_tile, bool per_head) {
  RandomStream random(static_cast<uint64_t>(c.seed), fmt::format("lists {} {}", query_tile, key_tile));
  const int64_t tiles = (c.queries + query_tile - 1) / query_tile,
                key_tiles = (c.keys + key_tile - 1) / key_tile;
  const int64_t batch = per_head ? c.batch : 1, heads = per_head ? c.heads : 1;
  std::vector<int32_t> starts, keys;
  Tensor allowed = torch::zeros({batch, heads, tiles, key_tiles}, torch::kBool);
  bool* pair = allowed.data_ptr<bool>();
  for (int64_t row = 0; row < batch * heads; ++row) {
    for (int64_t tile = 0; tile < tiles; ++tile) {
      starts.push_back(static_cast<int32_t>(keys.size()));
      const uint64_t share = random.below(4);  // of 4: a list of none, few, more, most
      for (int64_t key = 0; key < key_tiles; ++key, ++pair)
        if ((*pair = random.below(4) < share)) keys.push_back(static_cast<int32_t>(key));
    }
    starts.push_back(static_cast<int32_t>(keys.size()));
  }
  return {{query_tile, key_tile, torch::tensor(starts, torch::kInt).view({batch, heads, tiles + 1}),
           torch::tensor(keys, torch::kInt)},
          allowed.repeat_interleave(query_tile, 2)
              .narrow(2, 0, c.queries)
              .repeat_interleave(key_tile, 3)
              .narrow(3, 0, c.keys)
              .expand({c.batch, c.heads, c.queries, c.keys})
              .contiguous()};
}

}  // namespace

std::string precision(const Subject& subject, const Case& c) {
  std::vector<Errors> errors;
  // A parameter of one number says little about precision: either error is small by chance now and then.
  // Before anything is called wrong, it must be so over several problems together.
  for (int64_t round = 0; round < 12; ++round) {
    Case again = c;
    again.seed = c.seed + 100 * round;
    const auto module = subject.module(again, torch::kFloat);
    const Problem problem = make_problem(subject.formula, again, torch::kFloat);
    // The exact result is that of the same numbers, which float holds, computed in double.
    const auto exact = whole_run(*subject.honest(*module), converted(problem, torch::kDouble), again.seed);
    const auto plain = whole_run(*subject.honest(*module, torch::kFloat), problem, again.seed);
    const auto found = whole_run(*module, problem, again.seed);
    errors.resize(exact.size());
    for (size_t index = 0; index < exact.size(); ++index) {
      Errors& error = errors[index];
      error.name = exact[index].name;
      error.ours += squared_error(found[index].tensor, exact[index].tensor);
      error.theirs += squared_error(plain[index].tensor, exact[index].tensor);
      error.count += exact[index].tensor.numel();
      error.largest = std::max(error.largest, magnitude_of(exact[index].tensor));
    }
    if (std::ranges::none_of(errors, &Errors::too_large)) return "";
  }
  const Errors& worst = *std::ranges::find_if(errors, &Errors::too_large);
  return fmt::format("{} is off by {:.3g} in float (root of the mean square), the definition by {:.3g}",
                     worst.name, worst.root(worst.ours), worst.root(worst.theirs));
}

std::string gradients_against_reference(const Subject& subject, const Case& c) {
  const auto module = subject.module(c);
  for (const bool padded : {false, true}) {
    Problem problem = make_problem(subject.formula, c);
    if (padded) problem.call.key_mask = scattered_padding(c);
    if (auto wrong = compare_runs(padded ? "with padding, " : "", whole_run(*module, problem, c.seed),
                                  whole_run(*subject.honest(*module), problem, c.seed), kDoubleTolerance);
        !wrong.empty())
      return wrong;
  }
  return "";
}

std::string sizes(const Subject& subject, const Case& c) {
  for (const auto& [dtype, tolerance] :
       {std::pair{torch::kDouble, kDoubleTolerance}, {torch::kFloat, 1e-3}}) {
    // In float more numbers fit into a vector than in double, and so other remainders are left. There the
    // bound is for gross mistakes, and one length in three is enough.
    if (dtype == torch::kFloat && c.queries % 3 != 1) continue;
    const auto module = subject.module(c, dtype);
    const Problem problem = make_problem(subject.formula, c, dtype);
    if (auto wrong =
            compare_runs(dtype == torch::kFloat ? "in float, " : "", whole_run(*module, problem, c.seed),
                         whole_run(*subject.honest(*module, dtype), problem, c.seed), tolerance);
        !wrong.empty())
      return wrong;
  }
  return "";
}

std::string lists(const Subject& subject, const Case& c) {
  const auto module = subject.module(c);
  const auto honest = subject.honest(*module);
  const MaskedFormula masked = with_pair_mask(subject.formula, PairMask::allowed);
  AttentionImpl with_mask(masked.formula, *honest);
  for (const int64_t key_tile : {1, 16})
    for (const int64_t query_tile : {1, 16, 64}) {
      // Half of the kinds for each case, so that neighbours in the table have them all.
      if ((c.seed + key_tile + query_tile / 16) % 2 == 0 && c.queries > 5) continue;
      const bool per_head = (c.seed / 2 + query_tile / 16) % 2 == 0;
      const Choice choice = choose_keys(c, query_tile, key_tile, per_head);
      Problem listed = make_problem(subject.formula, c), hidden = listed;
      listed.call.lists = choice.lists;
      hidden.call.inputs[masked.input] = choice.allowed;
      const auto expected = whole_run(with_mask, hidden, c.seed);
      for (const bool gather : {true, false}) {
        const auto wrong = compare_runs(
            fmt::format("with lists for tiles of {} x {}, {}, ", query_tile, key_tile,
                        gather ? "picked" : "as a mask"),
            whole_run(*module, listed, c.seed, [&](PairInputs& inputs) { inputs.gather = gather; }), expected,
            kDoubleTolerance);
        if (!wrong.empty()) return wrong;
      }
    }
  return "";
}

std::string skipping(const Subject& subject, const Case& c) {
  const auto module = subject.module(c, torch::kFloat);
  const Problem problem = make_problem(subject.formula, c, torch::kFloat);
  const auto everything =
      whole_run(*module, problem, c.seed, [](PairInputs& inputs) { inputs.skip = false; });
  return compare_bits("with empty tiles left out, ", whole_run(*module, problem, c.seed), everything);
}

}  // namespace saccade::properties
