// A step is one text: forward through the gated model, the divergence's gradient a few rows at a time, and
// back.
#include "saccade/distill/fine_tune.h"

#include <torch/autograd.h>

#include <cmath>

#include "saccade/base/error.h"
#include "saccade/base/random.h"
#include "saccade/distill/adam.h"
#include "saccade/distill/teacher.h"
#include "saccade/formula/augment.h"
#include "saccade/kernels/key_selection.h"
#include "saccade/sparse/low_rank.h"

namespace saccade {

using at::Tensor;

namespace {

constexpr double kClosed = -30;                    // added to the score of a key that is left out
constexpr double kSmallest = 1e-7, kLargest = 10;  // thresholds that can be learned from
constexpr int64_t kTuningRising = 5;               // steps

// A layer's gates, computed from its queries and keys as the selector computes its choice.
class SoftSelector : public Selector {
 public:
  SoftSelector(LowRankSelector& selector, const Formula& formula, size_t table)
      : selector_(selector), formula_(formula), table_(table) {
    for (const auto& [name, tensor] : selector.scorer().named()) {
      Tensor& leaf = leaves_[name];
      leaf = name == "thresholds" ? tensor->clamp(kSmallest, kLargest).log() : tensor->clone();
      leaf.requires_grad_(true);
    }
    // Heads that keep all or none have nothing to learn.
    open_ = selector.scorer().thresholds <= kernels::kKeepAll;
  }

  std::optional<KeyLists> select(const PairInputs&, KvCache*) override { return std::nullopt; }

  void adjust(PairInputs& inputs) override {
    const SelectionOptions& options = selector_.options();
    const LowRankScorer& scorer = selector_.scorer();
    const LessonOptions lesson_options{
        .selection = options, .pool = scorer.pool, .samples = scorer.samples, .causal = selector_.causal()};
    PairInputs plain = inputs;
    for (Tensor& query : plain.queries)
      if (query.defined()) query = query.detach();
    for (Tensor& key : plain.keys)
      if (key.defined()) key = key.detach();
    plain.tables.clear();
    const int64_t n = plain.keys[0].size(2), tile = options.query_tile, tiles = n / tile,
                  groups = tile / scorer.pool;
    const Lesson lesson = make_lesson(formula_, plain, lesson_options);
    const int64_t shared = scorer.heads() / lesson.key.size(0);
    const Tensor key = shared == 1 ? lesson.key : lesson.key.repeat_interleave(shared, 0);
    Tensor scores = torch::bmm(torch::bmm(lesson.features, leaves_["query_map"]),
                               torch::bmm(key, leaves_["key_map"]).transpose(1, 2)) +
                    torch::matmul(lesson.features, leaves_["query_bias"].unsqueeze(-1)) +
                    leaves_["constant"].view({-1, 1, 1}) - lesson.near.unsqueeze(-1) +
                    torch::matmul(key, leaves_["key_bias"].unsqueeze(-1)).transpose(1, 2);
    const Tensor weights = scores.clamp_max(60).exp() * lesson.far;
    const Tensor share = weights / (weights.sum(-1, true) + 1) * leaves_["log_factor"].exp().view({-1, 1, 1});
    if (map_loss) {
      const Tensor error = share - lesson.target * (share + 1e-12).log();
      *map_loss = (error * lesson.far).sum() / static_cast<double>(lesson.near.numel());
    }
    const Tensor estimate = (share.square().view({scorer.heads(), tiles, groups, n}).sum(2) + 1e-20).sqrt();
    // Thresholds by position, as the kernels have them.
    std::vector<Tensor> limits;
    for (int64_t index = 0; index < tiles; ++index) {
      const double middle = (static_cast<double>(index) + 0.5) * static_cast<double>(tile);
      const auto range = std::ranges::upper_bound(selector_.ranges(), static_cast<int64_t>(middle)) -
                         selector_.ranges().begin() - 1;
      limits.push_back(torch::where(open_.select(1, range), torch::full({scorer.heads()}, -40.0),
                                    leaves_["thresholds"].select(1, range)) +
                       selector_.length_power * std::log(1024 / std::max(middle, 1.0)));
    }
    const Tensor above = estimate.log() - torch::stack(limits, 1).unsqueeze(-1);
    const Tensor soft = torch::sigmoid(above / temperature);
    const Tensor far = lesson.far.view({tiles, groups, n}).select(1, 0);
    Tensor kept = soft;
    if (hard) kept = soft + ((above > 0).to(torch::kFloat) - soft).detach();
    const Tensor gate = torch::where(far, (soft + 1e-12).log(), torch::zeros({}));
    Tensor closed = gate;
    if (hard)
      closed = gate +
               (torch::where(far.logical_and(above <= 0), torch::full({}, kClosed), torch::zeros({})) - gate)
                   .detach();
    inputs.tables[table_] = closed.unsqueeze(0);
    // Kept pairs over visible ones; near keys are always kept and change nothing.
    density = (kept * far).sum() * static_cast<double>(tile) /
              (visible_pairs(plain, selector_.causal(), 0, n) * static_cast<double>(scorer.heads()));
  }

  std::map<std::string, Tensor>& leaves() { return leaves_; }

  // What was learned goes into the selector, where a head has something to learn.
  void store() {
    for (const auto& [name, tensor] : selector_.scorer().named()) {
      const Tensor value = leaves_[name].detach();
      *tensor = name == "thresholds"
                    ? torch::where(tensor->gt(kernels::kKeepAll).logical_and(tensor->isfinite()), value.exp(),
                                   *tensor)
                    : value.clone();
    }
  }

  double temperature = 1;
  bool hard = false;
  Tensor density;
  std::optional<Tensor> map_loss;

 private:
  LowRankSelector& selector_;
  Formula formula_;
  size_t table_;
  Tensor open_;
  std::map<std::string, Tensor> leaves_;
};

// Puts gates into a model's attention for its life.
class GatedModel {
 public:
  GatedModel(Transformer model, const Selectors& selectors) : model_(std::move(model)) {
    for (size_t layer = 0; layer < selectors.size(); ++layer) {
      auto* low_rank = dynamic_cast<LowRankSelector*>(selectors[layer].get());
      require(low_rank != nullptr, "distill: selectors of kind '{}' have no scores to fine-tune",
              selectors[layer]->kind());
      const Block block = model_->block(static_cast<int64_t>(layer));
      own_.push_back(block->attention);
      const MaskedFormula gated = with_tile_gate(block->attention->formula(), low_rank->options().query_tile);
      Attention attention(gated.formula, *block->attention);
      input_ = gated.input;
      soft_.push_back(
          std::make_shared<SoftSelector>(*low_rank, block->attention->formula(),
                                         static_cast<size_t>(gated.formula.plan().table_index(gated.input))));
      attention->set_selector(soft_.back());
      gated_.push_back(attention);
    }
    enter();
  }
  ~GatedModel() { leave(); }
  GatedModel(const GatedModel&) = delete;
  GatedModel& operator=(const GatedModel&) = delete;

  // Gated attention, or the model's own again.
  void enter() { put(gated_); }
  void leave() { put(own_); }

  Tensor forward(const TokenIds& text, std::vector<Tensor>* blocks) {
    ModelCall call{.ids = torch::tensor(text, torch::kInt).to(torch::kLong).unsqueeze(0)};
    call.inputs[input_] = torch::zeros({model_->architecture().heads, 1, 1});
    if (blocks) call.on_block = [blocks](int64_t, const Tensor& x) { blocks->push_back(x); };
    return model_->forward(call)[0];
  }

  std::vector<std::shared_ptr<SoftSelector>>& layers() { return soft_; }

 private:
  void put(const std::vector<Attention>& attentions) {
    for (size_t layer = 0; layer < attentions.size(); ++layer)
      model_->block(static_cast<int64_t>(layer))->attention = attentions[layer];
  }

  Transformer model_;
  std::string input_;
  std::vector<Attention> own_, gated_;
  std::vector<std::shared_ptr<SoftSelector>> soft_;
};

// All that learns, with its sizes: thresholds, factors and constants are logarithms or parts of one.
std::vector<Tensor> leaves_of(const std::vector<std::shared_ptr<SoftSelector>>& layers, Adam& adam) {
  std::vector<Tensor> result;
  for (const auto& layer : layers)
    for (auto& [name, leaf] : layer->leaves()) {
      const bool logarithm = name == "thresholds" || name == "log_factor" || name == "constant";
      adam.add(leaf, logarithm ? 1 : std::max(leaf.detach().square().mean().sqrt().item<double>(), 1e-3));
      result.push_back(leaf);
    }
  return result;
}

std::vector<TokenIds> shortest(const std::vector<TokenIds>& texts) {
  std::vector<TokenIds> result;
  for (const TokenIds& text : texts)
    if (text.size() == texts.front().size()) result.push_back(text);
  return result;
}

}  // namespace

ScorerStates states_of(const Selectors& selectors) {
  ScorerStates states;
  for (const auto& selector : selectors) {
    states.emplace_back();
    for (const auto& [name, tensor] : dynamic_cast<LowRankSelector&>(*selector).scorer().named())
      states.back().push_back(tensor->clone());
  }
  return states;
}

void restore(const Selectors& selectors, const ScorerStates& states) {
  for (size_t layer = 0; layer < selectors.size(); ++layer) {
    auto tensors = dynamic_cast<LowRankSelector&>(*selectors[layer]).scorer().named();
    for (size_t index = 0; index < tensors.size(); ++index)
      *tensors[index].second = states[layer][index].clone();
  }
}

FineTuned fine_tune(Transformer model, const Selectors& selectors, const TextWindows& windows,
                    const FineTuning& options, const DistillRun& run) {
  const std::vector<TokenIds> learn = shortest(windows.learn), held_out = shortest(windows.held_out);
  detach(model);
  const std::vector<Teacher> teachers =
      options.teacher.empty() ? teachers_of(model, learn)
                              : stored_teachers(model, learn, options.likely_tokens, options.teacher);
  const std::vector<Tensor> dense = last_hidden_states(model, held_out);
  const auto look = [&] {
    const HeldOutMeasure measured = measure_held_out(model, selectors, held_out, dense);
    detach(model);
    return measured.divergence * options.output + measured.density * options.density;
  };
  FineTuned result{.before = look()};
  ScorerStates best = states_of(selectors);
  result.after = result.before;
  GatedModel gated(model, selectors);
  Adam adam;
  std::vector<Tensor> leaves = leaves_of(gated.layers(), adam);
  RandomStream random(17, "fine-tuning");
  for (int64_t step = 0; step < options.steps; ++step) {
    const double progress = static_cast<double>(step) / static_cast<double>(options.steps);
    std::vector<Tensor> densities, maps;
    for (const auto& layer : gated.layers()) {
      layer->temperature = options.first_temperature *
                           std::pow(options.last_temperature / options.first_temperature, progress);
      layer->hard = progress >= 1 - options.hard_share;
      layer->map_loss = options.maps > 0 ? std::optional(Tensor()) : std::nullopt;
    }
    const size_t chosen = random.below(learn.size());
    std::vector<Tensor> goals, blocks;
    if (options.hidden > 0) {
      torch::NoGradGuard no_gradient;
      gated.leave();
      ModelCall call{.ids = torch::tensor(learn[chosen], torch::kInt).to(torch::kLong).unsqueeze(0)};
      call.on_block = [&](int64_t, const Tensor& x) { goals.push_back(x); };
      model->forward(call);
      gated.enter();
    }
    torch::AutoGradMode with_gradient(true);
    const Tensor hidden = gated.forward(learn[chosen], options.hidden > 0 ? &blocks : nullptr);
    for (const auto& layer : gated.layers()) {
      densities.push_back(layer->density);
      if (layer->map_loss) maps.push_back(*layer->map_loss);
    }
    const Tensor density = torch::stack(densities).mean();
    Tensor extra = density * options.density;
    if (!maps.empty()) extra = extra + torch::stack(maps).mean() * options.maps;
    for (size_t block = 0; block < blocks.size(); ++block)
      extra = extra + (blocks[block] - goals[block]).square().mean() / goals[block].square().mean() *
                          (options.hidden / static_cast<double>(blocks.size()));
    const Tensor start = divergence_gradient(model, teachers[chosen], hidden) * options.output;
    torch::autograd::backward({hidden, extra}, {start, torch::ones({})});
    std::vector<Tensor> gradients;
    for (Tensor& leaf : leaves) gradients.push_back(std::exchange(leaf.mutable_grad(), Tensor()));
    adam.step(gradients, rate_at(options.rate, step, options.steps, kTuningRising));
    if (run.on_progress) run.on_progress("fine-tuning", step + 1, options.steps);
    if ((step + 1) % options.watch_every != 0 && step + 1 != options.steps) continue;
    for (const auto& layer : gated.layers()) layer->store();
    gated.leave();
    const double now = look();
    gated.enter();
    if (run.on_event)
      run.on_event({{"stage", "fine-tuning"},
                    {"step", step + 1},
                    {"held_out_loss", now},
                    {"soft_density", density.item<double>()}});
    if (now < result.after) {
      result.after = now;
      result.steps = step + 1;
      result.kept = true;
      best = states_of(selectors);
    }
    if (!(now < options.unstable * result.before)) {
      result.stepped_back = true;
      break;
    }
  }
  restore(selectors, best);
  return result;
}

}  // namespace saccade
