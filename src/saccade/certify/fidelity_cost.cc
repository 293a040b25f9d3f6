// Every trial starts with memory that was freed before given back, and the candidate runs before the larger
// ones.
#include "saccade/certify/fidelity_cost.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "saccade/attention/peak_memory.h"
#include "saccade/base/memory.h"
#include "saccade/base/meter.h"
#include "saccade/diagnose/gradients.h"

namespace saccade {

using at::Tensor;

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

Tensor first_tokens(std::span<const int32_t> ids, int64_t count) {
  const Tensor tokens = torch::empty({1, count}, torch::kLong);
  for (int64_t index = 0; index < count; ++index)
    tokens.data_ptr<int64_t>()[index] = ids[static_cast<size_t>(index) % ids.size()];
  return tokens;
}

// The attention of a layer runs by its definition, as long as this lives.
class ByDefinition {
 public:
  explicit ByDefinition(Attention attention) : attention_(attention), path_(attention->options().path) {
    attention_->set_path(Path::reference);
  }
  ~ByDefinition() { attention_->set_path(path_); }
  ByDefinition(const ByDefinition&) = delete;
  ByDefinition& operator=(const ByDefinition&) = delete;

 private:
  Attention attention_;
  Path path_;
};

int64_t layer_to_measure(Transformer& baseline, Transformer& candidate) {
  std::vector<int64_t> changed, all;
  for (int64_t layer = 0; layer < candidate->architecture().layers; ++layer) {
    all.push_back(layer);
    if (layer < baseline->architecture().layers && baseline->formula(layer) != candidate->formula(layer))
      changed.push_back(layer);
  }
  const std::vector<int64_t>& from = changed.empty() ? all : changed;
  return from[from.size() / 2];
}

Tensor attention_input(Transformer& model, int64_t layer, const Tensor& ids) {
  const at::NoGradGuard no_gradients;
  Tensor input;
  model->forward({.ids = ids, .on_attention_input = [&](int64_t at, const Tensor& x) {
                    if (at == layer) input = x.clone();
                  }});
  return input;
}

// `entering` is what the attention of the layer reads, `ids` the tokens that it was made from.
MemoryPeak measure(Block block, const Tensor& entering, const Tensor& ids, bool training) {
  const auto work = [&] {
    if (!training) {
      const at::NoGradGuard no_gradients;
      block->attend(entering, {.ids = ids});
      return;
    }
    const torch::AutoGradMode with_gradients(true);
    std::vector<Tensor> wanted = block->attention->parameters();
    wanted.push_back(block->output->weight);
    wanted.push_back(block->token_projection.defined() ? block->token_projection : block->projection->weight);
    const AskForGradients asking(wanted);
    const Tensor input = entering.detach().set_requires_grad(true);
    wanted.push_back(input);
    const Tensor out = block->attend(input, {.ids = ids});
    torch::autograd::grad({out}, wanted, {torch::ones_like(out)}, {}, false, true);
  };
  release_freed_memory();
  const Meter meter;
  const int64_t attention = peak_bytes(work);
  return {attention, meter.peak_bytes()};
}

// A definition holds several maps at once, and their gradients in training.
double bytes_by_definition(const Architecture& architecture, int64_t tokens, bool training) {
  return (training ? 10.0 : 6.0) * static_cast<double>(architecture.heads * tokens * tokens) * sizeof(float);
}

double share_saved(const MemoryPeak& of, const MemoryPeak& against) {
  return 1 - static_cast<double>(of.attention) / static_cast<double>(against.attention);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

std::optional<double> cache_bytes(Transformer& model, const Tensor& ids) {
  for (int64_t layer = 0; layer < model->architecture().layers; ++layer)
    if (!model->formula(layer).plan().decoding.possible) return std::nullopt;
  ModelCache cache = model->make_cache();
  // Two steps: what a model evicts goes at the beginning of the second.
  const int64_t first = std::max<int64_t>(1, ids.size(1) - 1);
  model->forward({.ids = ids.narrow(1, 0, first), .cache = &cache});
  if (first < ids.size(1)) model->forward({.ids = ids.narrow(1, first, 1), .cache = &cache});
  int64_t bytes = 0;
  for (int64_t layer = 0; layer < model->architecture().layers; ++layer)
    bytes += cache.layer(layer).bytes_held();
  return static_cast<double>(bytes) / static_cast<double>(ids.size(1));
}

}  // namespace

double MemoryPoint::saving() const { return naive ? share_saved(candidate, *naive) : kNone; }

double MemoryPoint::saving_against_dense() const { return share_saved(candidate, dense); }

double MemoryFidelity::least_saving(bool training) const {
  double least = kNone;
  for (const MemoryPoint& point : points)
    if (point.training == training && point.naive && !(point.saving() >= least)) least = point.saving();
  return least;
}

MemoryFidelity compare_memory(Transformer baseline, Transformer candidate, std::span<const int32_t> ids,
                              std::span<const int64_t> lengths, const OnProgress& on_progress) {
  const Architecture& a = baseline->architecture();
  MemoryFidelity result{.layer = layer_to_measure(baseline, candidate)};
  const int64_t layer = std::min(result.layer, a.layers - 1);  // a baseline may have fewer
  const auto total = static_cast<int64_t>(lengths.size());
  for (int64_t done = 0; done < total; ++done) {
    const int64_t tokens = lengths[static_cast<size_t>(done)];
    const bool fits = std::ranges::all_of(std::vector{a, candidate->architecture()}, [&](const auto& each) {
      return !each.learned_positions || tokens <= each.context;
    });
    if (!fits) {
      result.remarks.push_back(fmt::format("{} tokens were left out: learned positions end at {}", tokens,
                                           std::min(a.context, candidate->architecture().context)));
      continue;
    }
    const Tensor window = first_tokens(ids, tokens);
    const Tensor theirs = attention_input(candidate, result.layer, window);
    const Tensor ours = attention_input(baseline, layer, window);
    for (const bool training : {false, true}) {
      MemoryPoint point{.tokens = tokens, .training = training};
      point.candidate = measure(candidate->block(result.layer), theirs, window, training);
      point.dense = measure(baseline->block(layer), ours, window, training);
      const double needed = bytes_by_definition(a, tokens, training),
                   there = 0.7 * static_cast<double>(available_bytes());
      if (there == 0 || needed < there) {
        const ByDefinition naive(baseline->block(layer)->attention);
        point.naive = measure(baseline->block(layer), ours, window, training);
      } else {
        result.remarks.push_back(fmt::format(
            "the naive path at {} tokens was left out: it would need about {:.1f} GB", tokens, needed / 1e9));
      }
      result.points.push_back(point);
    }
    if (on_progress) on_progress(done + 1, total);
  }
  release_freed_memory();
  return result;
}

SpeedFidelity compare_speed(Transformer baseline, Transformer candidate, std::span<const int32_t> ids,
                            int64_t rounds) {
  const at::NoGradGuard no_gradients;
  const Tensor window = first_tokens(ids, static_cast<int64_t>(ids.size()));
  SpeedFidelity result{.tokens = window.size(1), .rounds = rounds};
  std::vector<double> ours, theirs;
  // The first round finds memory and choices of kernels that later ones have already, and does not count.
  for (int64_t round = 0; round <= rounds; ++round)
    for (Transformer* model : {&baseline, &candidate}) {
      const Meter meter;
      (*model)->forward({.ids = window});
      if (round > 0) (model == &baseline ? ours : theirs).push_back(meter.seconds());
    }
  result.baseline_seconds = median(ours);
  result.candidate_seconds = median(theirs);
  result.baseline_cache = cache_bytes(baseline, window);
  result.candidate_cache = cache_bytes(candidate, window);
  return result;
}

}  // namespace saccade
