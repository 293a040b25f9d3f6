// What could be made once and kept (masks, a bias that is not learned) is made outside the measured work, as
// a careful user of torch would do.
#include "saccade/bench/rivals.h"

#include <ATen/ops/scaled_dot_product_attention.h>

#include <algorithm>
#include <limits>

#include "saccade/attention/peak_memory.h"
#include "saccade/base/error.h"
#include "saccade/base/text.h"
#include "saccade/bench/dense_map.h"

namespace saccade::bench {
namespace {

using torch::Tensor;
using ScenePointer = std::shared_ptr<Scene>;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The last token of a decoding step, or all queries; and the call that goes with them.
struct View {
  Tensor query, key, value;
  AttentionCall call;
};
View view_of(const Scene& scene) {
  View view{scene.problem.query, scene.problem.key, scene.problem.value, scene.problem.call};
  if (scene.setup.task == Task::decoding) {
    view.call.offset = view.query.size(2) - 1;
    view.query = view.query.narrow(2, view.call.offset, 1).contiguous();
  }
  return view;
}

PairInputs inputs_of(const Scene& scene, const View& view) {
  return scene.attention->prepare(view.query, view.key, view.value, view.call, nullptr);
}

// The formula's mask for SDPA: undefined where there is none, or where its causal flag says the same.
Tensor mask_of(const Scene& scene, const Form& form, const View& view) {
  if (form.unmasked || (form.causal && scene.setup.task == Task::decoding)) return {};
  torch::NoGradGuard no_gradient;
  const PairInputs inputs = inputs_of(scene, view);
  return DenseMap(scene.formula.plan(), inputs).value(scene.formula.plan().mask);
}

Tensor sdpa(const View& view, const Tensor& mask, bool causal) {
  const auto given = mask.defined() ? std::optional(mask) : std::nullopt;
  const bool grouped = view.query.size(1) != view.key.size(1);
  return at::scaled_dot_product_attention(view.query, view.key, view.value, given, 0, causal, std::nullopt,
                                          grouped);
}

Contestant contestant(const ScenePointer& scene, std::function<Tensor()> forward,
                      std::vector<std::pair<std::string, Tensor>> more) {
  return {.run = [scene, forward = std::move(forward),
                  more = std::move(more)] { return perform(*scene, forward, more); },
          .held_bytes = static_cast<int64_t>(scene->problem.key.nbytes() + scene->problem.value.nbytes())};
}

Contestant make_sdpa(const ScenePointer& scene, const Form& form) {
  const bool causal = form.causal && scene->setup.task != Task::decoding;
  return contestant(scene, [view = view_of(*scene), causal] { return sdpa(view, {}, causal); }, {});
}

Contestant make_masked(const ScenePointer& scene, const Form& form) {
  const View view = view_of(*scene);
  return contestant(scene, [view, mask = mask_of(*scene, form, view)] { return sdpa(view, mask, false); },
                    {});
}

// What the formula adds to s, with -inf where the mask forbids.
Tensor build_bias(const Scene& scene, const View& view, const Tensor& mask) {
  const Plan& plan = scene.formula.plan();
  const PairInputs inputs = inputs_of(scene, view);
  Tensor bias = DenseMap(plan, inputs).without_streams(plan.norms[0].argument);
  if (mask.defined()) bias = bias.masked_fill(mask.logical_not(), -kInfinity);
  return bias.to(view.query.scalar_type());
}

Contestant make_bias(const ScenePointer& scene, const Form& form) {
  const View view = view_of(*scene);
  Tensor bias;
  {
    torch::NoGradGuard no_gradient;
    bias = build_bias(*scene, view, mask_of(*scene, form, view)).contiguous();
  }
  std::vector<std::pair<std::string, Tensor>> more;
  if (form.learned && scene->setup.task == Task::training) {
    bias.requires_grad_(true);
    more.emplace_back("bias", bias);
  }
  return contestant(
      scene, [view, bias] { return sdpa(view, bias, false); }, more);
}

Contestant make_built_bias(const ScenePointer& scene, const Form& form) {
  const View view = view_of(*scene);
  const auto forward = [scene, view, mask = mask_of(*scene, form, view)] {
    return sdpa(view, build_bias(*scene, view, mask), false);
  };
  return contestant(scene, forward, learned(*scene));
}

Contestant make_folded(const ScenePointer& scene, const Form& form) {
  View view = view_of(*scene);
  const auto shape = view.query.sizes().vec();
  view.query = view.query.view({shape[0], view.key.size(1), -1, shape[3]});
  Tensor mask = mask_of(*scene, form, view_of(*scene));
  if (mask.defined() && mask.size(1) > 1)
    mask = mask.view({mask.size(0), view.key.size(1), -1, mask.size(3)});
  return contestant(scene, [view, shape, mask] { return sdpa(view, mask, false).view(shape); }, {});
}

Contestant make_mixture(const ScenePointer& scene, const Form& form) {
  const View view = view_of(*scene);
  const bool causal = form.causal && scene->setup.task != Task::decoding;
  const Tensor mask = causal ? Tensor() : mask_of(*scene, form, view);
  const auto forward = [scene, view, mask, causal] {
    const Plan& plan = scene->formula.plan();
    const PairInputs inputs = inputs_of(*scene, view);
    DenseMap map(plan, inputs);
    Tensor sum;
    for (const TermInfo& term : plan.terms) {
      const Node& argument = plan.graph[plan.norms[static_cast<size_t>(term.norm)].argument];
      const StreamInfo& stream = plan.streams[static_cast<size_t>(argument.symbol)];
      View part = view;
      part.query = inputs.queries[static_cast<size_t>(stream.query_vector + 1)];
      part.key = inputs.keys[static_cast<size_t>(stream.key_vector + 1)];
      const Tensor weighted =
          map.value(term.coefficient).to(part.query.scalar_type()) * sdpa(part, mask, causal);
      sum = sum.defined() ? sum + weighted : weighted;
    }
    return sum;
  };
  return contestant(scene, forward, learned(*scene));
}

bool known_to_dense_map(const Plan& plan) {
  return std::ranges::all_of(
      plan.norms, [](const NormInfo& norm) { return norm.kind == Op::softmax && norm.sink == kNoNode; });
}

Contestant make_naive(const ScenePointer& scene, const Form& form) {
  const View view = view_of(*scene);
  const Plan& plan = scene->formula.plan();
  if (!known_to_dense_map(plan)) {
    const auto reference = [scene, view] {
      return reference_attention(scene->formula.plan(), inputs_of(*scene, view), false).output;
    };
    return contestant(scene, reference, learned(*scene));
  }
  const auto forward = [scene, view, mask = mask_of(*scene, form, view)] {
    const Plan& p = scene->formula.plan();
    const PairInputs inputs = inputs_of(*scene, view);
    Tensor weights = DenseMap(p, inputs).value(p.weights, mask);
    // Outside a softmax nothing has looked at the mask yet.
    const bool outside = std::ranges::any_of(p.terms, [](const TermInfo& term) { return term.norm < 0; });
    if (outside && mask.defined()) weights = weights.masked_fill(mask.logical_not(), 0);
    Tensor value = view.value;
    const int64_t group = view.query.size(1) / value.size(1);
    if (group > 1) value = value.repeat_interleave(group, 1);
    return torch::matmul(weights.to(value.scalar_type()), value);
  };
  return contestant(scene, forward, learned(*scene));
}

constexpr Rival kRivals[] = {
    {"naive", "the n x n map in plain torch operations, under autograd",
     [](const Scene&, const Form&) { return true; }, 8, make_naive},
    {"sdpa", "SDPA plain or causal, with enable_gqa where heads are grouped",
     [](const Scene&, const Form& form) { return form.plain() && (form.unmasked || form.causal); }, 0,
     make_sdpa},
    {"sdpa-mask", "SDPA with a ready-made Boolean mask",
     [](const Scene& scene, const Form& form) {
       return form.plain() && !form.unmasked && !(form.causal && scene.setup.task == Task::decoding);
     },
     1, make_masked},
    {"sdpa-bias", "SDPA with a ready-made bias; a leaf that collects its gradient if the formula learns it",
     [](const Scene&, const Form& form) { return form.biased; }, 6, make_bias},
    {"sdpa-built", "SDPA with a bias that autograd builds from the learned parameters",
     [](const Scene&, const Form& form) { return form.learned; }, 12, make_built_bias},
    {"sdpa-folded", "SDPA with the query heads that share a key head folded into queries",
     [](const Scene& scene, const Form& form) {
       return form.plain() && scene.setup.task == Task::decoding &&
              scene.setup.shape.heads > scene.setup.shape.kv_heads;
     },
     0, make_folded},
    {"sdpa-twice", "one call of SDPA for each softmax",
     [](const Scene&, const Form& form) { return form.mixed; }, 0, make_mixture},
};

// 0 where the task holds no map worth counting.
double bytes_of_maps(const Scene& scene, const Rival& rival) {
  const Case& shape = scene.setup.shape;
  if (scene.setup.task == Task::decoding) return 0;
  const double share = scene.setup.task == Task::training ? 1 : 0.6;
  return share * rival.maps * static_cast<double>(shape.batch * shape.heads * shape.queries * shape.keys) *
         static_cast<double>(c10::elementSize(scene.setup.dtype));
}

}  // namespace

Form form_of(const Plan& plan) {
  Form form;
  form.unmasked = plan.graph[plan.mask].op == Op::number && plan.graph[plan.mask].number != 0;
  form.causal = !plan.graph.has_position_input() && plan.graph.print(plan.mask, {}) == "d >= 0";
  const bool softmaxes = !plan.terms.empty() && plan.scale == kNoNode && known_to_dense_map(plan) &&
                         std::ranges::all_of(plan.terms, [](const TermInfo& t) { return t.norm >= 0; });
  if (!softmaxes) return form;
  const auto argument = [&](const TermInfo& term) {
    return plan.norms[static_cast<size_t>(term.norm)].argument;
  };
  if (plan.terms.size() > 1) {
    form.mixed = std::ranges::all_of(plan.terms, [&](const TermInfo& term) {
      const Rate rate = plan.graph.rate(term.coefficient);
      return plan.graph[argument(term)].op == Op::stream && (rate <= Rate::row);
    });
    return form;
  }
  if (!plan.graph.is_number(plan.terms[0].coefficient, 1)) return form;
  const NodeId score = argument(plan.terms[0]);
  if (plan.graph[score].op == Op::stream) {
    form.single = plan.graph[score].symbol == 0;
    return form;
  }
  int streams = 0;
  for (const NodeId id : plan.graph.reachable({score})) {
    if (plan.graph[id].op == Op::stream) streams += plan.graph[id].symbol == 0 ? 1 : 2;
    if (plan.graph[id].op == Op::read)
      form.learned |= plan.tables[static_cast<size_t>(plan.graph[id].symbol)].learned();
  }
  const bool slope_is_one = std::ranges::any_of(plan.derivatives, [&](const DerivativeInfo& derivative) {
    return derivative.of == score && plan.graph[derivative.by].op == Op::stream &&
           plan.graph.is_number(derivative.value, 1);
  });
  form.single = form.biased = streams == 1 && slope_is_one;
  form.learned &= form.biased;
  return form;
}

std::span<const Rival> rivals() { return kRivals; }

const Rival& find_rival(std::string_view name) {
  const auto found = std::ranges::find(kRivals, name, &Rival::name);
  if (found != std::ranges::end(kRivals)) return *found;
  std::vector<std::string_view> names;
  for (const Rival& rival : kRivals) names.push_back(rival.name);
  fail("bench: unknown rival '{}'{}; there are {}", name, did_you_mean(name, names), join(names, ", "));
}

Contestant make_contestant(std::string_view name, const ScenePointer& scene) {
  if (name == "saccade") return saccade_contestant(scene);
  const Rival& rival = find_rival(name);
  require(!scene->setup.sparsity, "bench: {} knows no lists of keys", name);
  const Form form = form_of(scene->formula.plan());
  require(rival.fits(*scene, form), "bench: {} cannot compute the formula '{}'", name, scene->formula.name());
  const double needed = bytes_of_maps(*scene, rival), there = 0.7 * static_cast<double>(available_bytes());
  require(there == 0 || needed < there, "bench: {} would need about {:.0f} GB; {:.0f} GB are there", name,
          needed / 1e9, there / 0.7e9);
  Contestant result = rival.make(scene, form);
  result.name = name;
  return result;
}

Contestant yardstick(const ScenePointer& scene) {
  Form form = form_of(scene->formula.plan());
  form.causal |= scene->formula.plan().decoding.possible;
  Contestant result = make_sdpa(scene, form);
  result.name = "plain sdpa";
  return result;
}

}  // namespace saccade::bench
