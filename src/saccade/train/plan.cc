#include "saccade/train/plan.h"

#include <ATen/Parallel.h>

#include <charconv>

#include "saccade/base/error.h"
#include "saccade/base/meter.h"
#include "saccade/base/text.h"
#include "saccade/base/units.h"
#include "saccade/models/initialise.h"
#include "saccade/models/parameter_names.h"
#include "saccade/train/recipe_model.h"
#include "saccade/train/token_loss.h"
#include "saccade/train/trainer.h"

namespace saccade {
namespace {

int64_t vocabulary_of(const Recipe& recipe) {
  const std::string& tokenizer = recipe.data.tokenizer;
  if (recipe.model.vocabulary > 0) return recipe.model.vocabulary;
  if (tokenizer == "bytes") return 257;
  if (tokenizer.starts_with("bpe:")) {
    int64_t size = 0;
    std::from_chars(tokenizer.data() + 4, tokenizer.data() + tokenizer.size(), size);
    require(size > 256, "recipe: data.tokenizer is '{}'; expected bpe:<size> with more than 256", tokenizer);
    return size;
  }
  if (const std::optional<Tokenizer> known = existing_tokenizer(recipe.data)) return known->size();
  fail("recipe: the size of the vocabulary is in the data; give model.vocabulary to plan without them");
}

// A pass forward and backward over a few sequences: as many as a step computes at once, unless that would
// take long.
void measure(TrainingPlan& plan, const Recipe& recipe, Transformer model) {
  constexpr double kMostFlops = 2e12;
  const int64_t length = recipe.data.length;
  const int64_t wanted = recipe.train.micro_batch > 0 ? recipe.train.micro_batch : recipe.train.batch;
  const double one = 3 * plan.forward_flops * static_cast<double>(length);
  const int64_t sequences = std::clamp<int64_t>(static_cast<int64_t>(kMostFlops / one), 1, wanted);
  torch::manual_seed(1);
  const at::Tensor ids = torch::randint(plan.vocabulary, {sequences, length}, torch::kLong);
  for (at::Tensor parameter : model->parameters()) {
    parameter.requires_grad_(true);
    parameter.mutable_grad() = torch::zeros_like(parameter);
  }
  model->train();
  const auto pass = [&] {
    const at::Tensor hidden = model->forward({.ids = ids,
                                              .source = recipe.translates() ? ids : at::Tensor(),
                                              .recompute = recipe.train.recompute});
    const at::Tensor loss = token_loss(model, hidden, ids) / static_cast<double>(ids.numel());
    loss.backward();
  };
  const int64_t before = Meter::held_bytes();
  {
    const Meter meter;
    pass();
    plan.measured_seconds = meter.seconds();
    plan.activation_bytes = std::max<int64_t>(0, meter.peak_bytes() - before) / sequences * wanted;
  }
  plan.measured_tokens = ids.numel();
  // Fresh memory makes a first pass slow, which shows when it is short.
  if (one * static_cast<double>(sequences) > kMostFlops / 8) return;
  const Meter meter;
  pass();
  plan.measured_seconds = meter.seconds();
}

std::string amount(double value) {
  for (const auto& [unit, size] :
       {std::pair{"E", 1e18}, {"P", 1e15}, {"T", 1e12}, {"G", 1e9}, {"M", 1e6}, {"k", 1e3}})
    if (value >= size) return fmt::format("{:.4g} {}", value / size, unit);
  return fmt::format("{:.4g} ", value);
}

std::string duration(double seconds) {
  if (seconds < 120) return fmt::format("{:.0f} s", seconds);
  if (seconds < 2 * 3600) return fmt::format("{:.0f} min", seconds / 60);
  if (seconds < 2 * 86400) return fmt::format("{:.1f} h", seconds / 3600);
  return fmt::format("{:.1f} days", seconds / 86400);
}

}  // namespace

TrainingPlan plan_training(const Recipe& recipe) {
  TrainingPlan plan;
  plan.vocabulary = vocabulary_of(recipe);
  const Architecture a = architecture_of(recipe, 0 < recipe.model.vocabulary ? 1 : plan.vocabulary);
  Transformer model = make_model(recipe, a);
  const Formula formula = recipe.formula();
  initialise(model, {.seed = recipe.seed, .deviation = recipe.model.initial_deviation});
  double product_weights = 0;
  for (const auto& item : model->named_parameters()) {
    const at::Tensor& value = item.value();
    plan.parameters += value.numel();
    const bool of_formula = learned_by_formula(item.key());
    const bool looked_up = item.key() == "tokens" || item.key().ends_with("positions") ||
                           item.key().ends_with("token_projection") || item.key() == "encoder.tokens";
    if (of_formula) plan.formula_parameters += value.numel();
    if (looked_up) plan.embedding_parameters += value.numel();
    if (value.dim() >= 2 && (!looked_up || (item.key() == "tokens" && a.tied)))
      product_weights += static_cast<double>(value.numel());
  }
  const TrainOptions& t = recipe.train;
  const auto length = static_cast<double>(recipe.data.length);
  plan.tokens_per_step = t.batch_tokens > 0 ? t.batch_tokens : t.batch * recipe.data.length;
  plan.tokens = static_cast<double>(plan.tokens_per_step) * static_cast<double>(t.steps);
  // Half of all pairs, since no key comes after its query; a product for each stream, and one for the values.
  const double streams = static_cast<double>(formula.plan().streams.size());
  plan.attention_flops =
      static_cast<double>(a.layers * a.heads * a.head_dim) * length / 2 * 2 * (streams + 1);
  plan.forward_flops = 2 * product_weights + plan.attention_flops;
  plan.flops = plan.forward_flops * (t.recompute ? 4 : 3) * plan.tokens;
  plan.weight_bytes = plan.gradient_bytes = plan.gradient_message_bytes = plan.parameters * 4;
  plan.optimiser_bytes = plan.parameters * 8;
  plan.average_bytes = t.average > 0 ? plan.parameters * 4 : 0;
  plan.threads = at::get_num_threads();
  measure(plan, recipe, model);
  return plan;
}

Json to_json(const TrainingPlan& p) {
  return {{"vocabulary", p.vocabulary},
          {"parameters", p.parameters},
          {"embedding_parameters", p.embedding_parameters},
          {"formula_parameters", p.formula_parameters},
          {"tokens_per_step", p.tokens_per_step},
          {"tokens", p.tokens},
          {"forward_flops_per_token", p.forward_flops},
          {"attention_flops_per_token", p.attention_flops},
          {"flops", p.flops},
          {"memory",
           {{"weights", p.weight_bytes},
            {"gradients", p.gradient_bytes},
            {"optimiser", p.optimiser_bytes},
            {"average", p.average_bytes},
            {"activations", p.activation_bytes},
            {"all", p.bytes()}}},
          {"gradient_message_bytes", p.gradient_message_bytes},
          {"measured",
           {{"tokens", p.measured_tokens},
            {"seconds", p.measured_seconds},
            {"threads", p.threads},
            {"tokens_per_second", p.tokens_per_second()},
            {"flops_per_second", p.flops_per_second()}}},
          {"seconds", p.seconds()}};
}

std::string describe(const Recipe& recipe, const TrainingPlan& p) {
  const TrainOptions& t = recipe.train;
  std::string text;
  const auto line = [&](std::string_view name, const std::string& value) {
    text += fmt::format("{:<12} {}\n", name, value);
  };
  line("model",
       fmt::format("{} parameters, of which {} in embeddings and {} in formulas; vocabulary {}",
                   amount(static_cast<double>(p.parameters)),
                   amount(static_cast<double>(p.embedding_parameters)), p.formula_parameters, p.vocabulary));
  line("data", t.batch_tokens > 0
                   ? fmt::format("{} x {} tokens = {} tokens", plural(t.steps, "step"), t.batch_tokens,
                                 amount(p.tokens))
                   : fmt::format("{} x {} sequences x {} tokens = {} tokens", plural(t.steps, "step"),
                                 t.batch, recipe.data.length, amount(p.tokens)));
  line("work",
       fmt::format("{}FLOP: {} x {}FLOP per token forward, {:.0f} % of it attention", amount(p.flops),
                   t.recompute ? 4 : 3, amount(p.forward_flops), 100 * p.attention_flops / p.forward_flops));
  line("memory", fmt::format("{}: weights {}, gradients {}, optimiser {}{}, activations of {} about {}",
                             bytes_text(p.bytes()), bytes_text(p.weight_bytes), bytes_text(p.gradient_bytes),
                             bytes_text(p.optimiser_bytes),
                             p.average_bytes > 0 ? ", average " + bytes_text(p.average_bytes) : "",
                             plural(t.micro_batch > 0 ? t.micro_batch : t.batch, "sequence"),
                             bytes_text(p.activation_bytes)));
  line("speed", fmt::format("{:.0f} tokens/s and {}FLOP/s here, with {}: measured on {} tokens in {:.1f} s",
                            p.tokens_per_second(), amount(p.flops_per_second()), plural(p.threads, "thread"),
                            p.measured_tokens, p.measured_seconds));
  line("time", duration(p.seconds()) + " on this machine, without validation and checkpoints");
  line("messages", fmt::format("{} of gradients in each step, for each of several processes",
                               bytes_text(p.gradient_message_bytes)));
  return text;
}

}  // namespace saccade
