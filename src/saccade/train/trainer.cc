// The loop. What a step reads, drops and starts from is a function of the seed and the step's number, so that
// a training that goes on does what it would have done.
#include "saccade/train/trainer.h"

#include <ATen/autocast_mode.h>

#include <array>
#include <chrono>
#include <cmath>
#include <deque>

#include "saccade/base/error.h"
#include "saccade/base/file.h"
#include "saccade/base/meter.h"
#include "saccade/base/random.h"
#include "saccade/data/batch_order.h"
#include "saccade/data/parallel.h"
#include "saccade/diagnose/diagnosis.h"
#include "saccade/generate/text_model.h"
#include "saccade/models/checkpoint_folders.h"
#include "saccade/models/initialise.h"
#include "saccade/models/parameter_names.h"
#include "saccade/train/batch.h"
#include "saccade/train/checkpoint.h"
#include "saccade/train/environment.h"
#include "saccade/train/recipe_file.h"
#include "saccade/train/recipe_model.h"
#include "saccade/train/run_directory.h"
#include "saccade/train/schedule.h"
#include "saccade/train/token_loss.h"

namespace saccade {

using at::Tensor;
namespace fs = std::filesystem;

namespace {

constexpr int64_t kMostInBatch = int64_t{1} << 24;

// While it lives, products are computed in bfloat16, with weights that stay in float32.
class Autocast {
 public:
  explicit Autocast(bool wanted) : wanted_(wanted) {
    if (!wanted_) return;
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (!wanted_) return;
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool wanted_;
};

class Trainer {
 public:
  Trainer(const Recipe& recipe, const TrainingOptions& options, Team& team)
      : recipe_(recipe), options_(options), team_(team), train_(recipe.train) {}

  TrainingResult run();

 private:
  void check_folder() const;
  void build();
  void open_folder();
  void start_or_resume();
  bool step();  // whether all numbers were finite
  std::vector<Batch> read_share() const;
  void validate_now();
  void diagnose_now();
  void save();
  void report(double loss, double rate, double norm, double tokens, double seconds);
  std::string find_problem(const std::vector<Batch>& batches);
  bool due(int64_t every) const {
    return counters_.step == train_.steps || (every > 0 && counters_.step % every == 0);
  }
  void say(const std::string& text) const {
    if (options_.on_message && team_.leads()) options_.on_message(text);
  }

  Recipe recipe_;
  const TrainingOptions& options_;
  Team& team_;
  TrainOptions train_;
  std::optional<RunDirectory> run_;  // of the process that leads
  std::optional<Data> data_;
  std::shared_ptr<const BatchOrder> batches_;
  Transformer model_{nullptr};
  std::optional<Optimiser> optimiser_;
  std::optional<WeightAverage> average_;
  TrainingCounters counters_;
  std::optional<Validation> fresh_;  // of this step
  Validation last_;
  std::deque<double> recent_losses_;
  std::string problem_;
  double tokens_read_ = 0;  // in this call
  bool stop_wanted_ = false, saved_ = false;
};

void require_same_training(const Recipe& stored, const Recipe& wanted, const fs::path& folder) {
  const std::vector<RecipeKey> before = recipe_values(stored), after = recipe_values(wanted);
  for (size_t index = 0; index < before.size(); ++index)
    require(before[index].otherwise == after[index].otherwise || may_change(before[index].key),
            "{}: this run has {} = {}, not {}; to go on it must stay the same", folder.string(),
            before[index].key, before[index].otherwise, after[index].otherwise);
}

void Trainer::check_folder() const {
  const fs::path& folder = options_.directory;
  if (options_.resume) {
    require(fs::exists(folder / "recipe.toml"), "{}: there is no run to go on with", folder.string());
    require_same_training(load_recipe(folder / "recipe.toml"), recipe_, folder);
  }
  require(!team_.leads() || options_.resume || options_.overwrite || !RunDirectory::is_run(folder),
          "{}: a run is there; --resume goes on with it, --overwrite starts again", folder.string());
}

// Only when data and model are known to be possible: a mistake in a recipe must not leave a run, or cost one.
void Trainer::open_folder() {
  if (!team_.leads()) return;
  const fs::path& folder = options_.directory;
  run_.emplace(folder);
  check_folder();  // somebody may have trained here meanwhile
  if (options_.overwrite && !options_.resume && RunDirectory::is_run(folder)) run_->clear();
  write_atomic(folder / "tokenizer.json", data_->tokenizer.to_json());
  write_atomic(folder / "tokenizer_config.json", data_->tokenizer.config_json());
  write_atomic(folder / "recipe.toml", print_recipe(recipe_));
  write_atomic(folder / "attention.attn", recipe_.formula().resolved());
  if (recipe_.translates()) {
    write_atomic(folder / "encoder_attention.attn", recipe_.formula(AttentionSlot::encoder).resolved());
    write_atomic(folder / "cross_attention.attn", recipe_.formula(AttentionSlot::cross).resolved());
    // What was held out, line by line, to be translated: built-in pairs are in no other file.
    std::string sources, targets;
    for (const TranslationPair& pair : data_->validation_pairs) {
      sources += pair.source + "\n";
      targets += pair.target + "\n";
    }
    write_atomic(folder / "validation.source", sources);
    write_atomic(folder / "validation.target", targets);
  }
  write_atomic(folder / "environment.json", dump(environment(team_.size()), 2) + "\n");
}

void Trainer::build() {
  std::optional<Tokenizer> tokenizer = existing_tokenizer(recipe_.data);
  if (!tokenizer && options_.resume && fs::exists(options_.directory / "tokenizer.json"))
    tokenizer = Tokenizer::from_file(options_.directory);
  data_ = open_recipe_data(recipe_, tokenizer);
  for (const std::string& remark : data_->remarks) say(remark);
  batches_ = train_.batch_tokens > 0 ? bucketed_batches(*data_->train, train_.batch_tokens, recipe_.seed)
                                     : consecutive_batches(train_.batch);
  Architecture architecture = architecture_of(recipe_, data_->tokenizer.size());
  const SpecialIds& special = data_->tokenizer.special_ids();
  if (special.bos) architecture.bos = *special.bos;
  if (special.eos) architecture.eos = {*special.eos};
  model_ = make_model(recipe_, architecture);
  initialise(model_, {.seed = recipe_.seed, .deviation = recipe_.model.initial_deviation});
  if (options_.on_start) options_.on_start(model_);
  optimiser_.emplace(model_, train_);
  average_.emplace(model_, train_.average);
  std::vector<Tensor> shared;
  for (const Optimiser::Group& group : optimiser_->groups())
    for (const Optimiser::Parameter& parameter : group.parameters) shared.push_back(parameter.value);
  team_.share_gradients(shared);
  require(train_.batch_tokens > 0 || train_.batch % team_.size() == 0,
          "training: a batch of {} sequences cannot be shared by {} processes", train_.batch, team_.size());
}

void Trainer::start_or_resume() {
  team_.meet();  // until the folder is ready
  if (!options_.resume) return;
  // Every process reads the same checkpoint: the newest that the leader sees.
  double newest = -1;
  if (team_.leads() && !run_->steps().empty()) newest = static_cast<double>(run_->steps().back());
  std::array<double, 1> agreed{team_.leads() ? newest : 0};
  team_.add_up(agreed);
  const auto cut_lines = [&](int64_t last_step) {
    if (!team_.leads()) return;
    for (const char* file : {"metrics.jsonl", "diagnostics.jsonl"}) run_->cut_lines(file, last_step);
  };
  if (agreed[0] < 0) {
    cut_lines(0);
    return say("there is no checkpoint yet; it starts from the beginning");
  }
  const auto step = static_cast<int64_t>(agreed[0]);
  read_training_state({model_, *optimiser_, *average_, counters_}, checkpoint_of(options_.directory, step));
  saved_ = true;
  cut_lines(step);
  // Whoever was killed may have come to write the best checkpoint, and not to say that it is the best.
  if (team_.leads() && counters_.best_step == step) run_->set_best(step);
  say(fmt::format("goes on after step {}", step));
}

std::vector<Batch> Trainer::read_share() const {
  const std::vector<int64_t> numbers = batches_->sequences(counters_.step);
  const auto all = static_cast<int64_t>(numbers.size());
  const int64_t first = all * team_.rank() / team_.size(), end = all * (team_.rank() + 1) / team_.size();
  const int64_t at_once = train_.micro_batch > 0 ? train_.micro_batch : std::max<int64_t>(1, end - first);
  std::vector<Batch> batches;
  for (int64_t begin = first; begin < end; begin += at_once) {
    const auto part = std::span(numbers).subspan(static_cast<size_t>(begin),
                                                 static_cast<size_t>(std::min(at_once, end - begin)));
    batches.push_back(read_batch(*data_->train, part, train_.separate_documents));
    // Sorted sentences come again in each epoch under the same number, but shall lose other parts by dropout.
    if (train_.batch_tokens > 0) batches.back().first = counters_.step * kMostInBatch + begin;
  }
  return batches;
}

bool Trainer::step() {
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<Batch> batches = read_share();
  std::array<double, 3> counts{};
  for (const Batch& batch : batches) {
    counts[0] += static_cast<double>(batch.scored);
    counts[1] += static_cast<double>(batch.tokens());
  }
  counts[2] = options_.interrupted && options_.interrupted() ? 1 : 0;
  team_.add_up(counts);
  stop_wanted_ |= counts[2] > 0;
  require(counts[0] > 0, "training: step {} has no token to learn from", counters_.step);

  optimiser_->clear_gradients();
  model_->train();
  std::array<double, 1> loss{};
  const uint64_t dropout_seed = RandomStream(recipe_.seed, "dropout").next();
  for (size_t index = 0; index < batches.size(); ++index) {
    const Batch& batch = batches[index];
    Tensor part;
    {
      const Autocast autocast(train_.dtype == "bfloat16");
      const Tensor hidden = model_->forward({.ids = batch.ids,
                                             .source = batch.source,
                                             .source_mask = batch.source_mask,
                                             .documents = batch.documents,
                                             .dropout_seed = dropout_seed,
                                             .first_sequence = batch.first,
                                             .recompute = train_.recompute});
      part = token_loss(model_, hidden, batch.targets, train_.label_smoothing) / counts[0];
    }
    loss[0] += part.item<double>();
    if (index + 1 == batches.size()) team_.begin();
    part.backward();
  }
  if (batches.empty()) team_.begin();  // fewer sentences than processes: this one has nothing to add
  team_.end();
  team_.add_up(loss);
  const double norm = optimiser_->clip_gradients(train_.clip);
  if (!std::isfinite(loss[0]) || !std::isfinite(norm)) {
    problem_ = fmt::format("step {}: the {} is {}; first seen in {}", counters_.step + 1,
                           std::isfinite(loss[0]) ? "gradient's length" : "loss",
                           std::isfinite(loss[0]) ? norm : loss[0], find_problem(batches));
    return false;
  }
  const double rate = learning_rate(train_, counters_.step);
  optimiser_->step(rate);
  average_->update(counters_.step);
  ++counters_.step;
  saved_ = false;
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  if (due(train_.validate_every)) validate_now();
  report(loss[0], rate, norm, counts[1], taken.count());
  if (train_.diagnose_every > 0 && due(train_.diagnose_every)) diagnose_now();
  return true;
}

// Weights first, then what blocks give out, then gradients: the order in which trouble spreads.
std::string Trainer::find_problem(const std::vector<Batch>& batches) {
  const torch::NoGradGuard no_gradient;
  std::string found = optimiser_->find_unhealthy();
  if (found.starts_with("the parameter")) return found;
  model_->eval();
  for (const Batch& batch : batches) {
    std::vector<Tensor> states;
    model_->forward({.ids = batch.ids,
                     .source = batch.source,
                     .source_mask = batch.source_mask,
                     .documents = batch.documents,
                     .hidden_states = &states});
    for (size_t layer = 0; layer < states.size(); ++layer)
      if (!torch::isfinite(states[layer]).all().item<bool>())
        return layer == 0 ? "the embedding" : fmt::format("the output of block {}", layer - 1);
  }
  return found.empty() ? "another process" : found;
}

void Trainer::validate_now() {
  average_->swap();
  last_ = validate(model_, *data_->validation,
                   {.sequences = train_.validation_sequences,
                    .batch = train_.micro_batch > 0 ? train_.micro_batch : train_.batch,
                    .separate_documents = train_.separate_documents},
                   team_);
  average_->swap();
  fresh_ = last_;
  const bool better = counters_.best_step < 0 || last_.loss() < counters_.best_loss;
  counters_.without_progress = better ? 0 : counters_.without_progress + 1;
  if (!better) return;
  counters_.best_loss = last_.loss();
  counters_.best_step = counters_.step;
}

void Trainer::report(double loss, double rate, double norm, double tokens, double seconds) {
  counters_.seconds += seconds;
  tokens_read_ += tokens;
  recent_losses_.push_back(loss);
  if (static_cast<int64_t>(recent_losses_.size()) > std::max<int64_t>(1, train_.steps / 10))
    recent_losses_.pop_front();
  if (team_.leads()) {
    Json line = {{"step", counters_.step}, {"loss", loss},     {"lr", rate},
                 {"gradient_norm", norm},  {"tokens", tokens}, {"seconds", seconds}};
    if (fresh_) line["validation"] = to_json(*fresh_);
    run_->append("metrics.jsonl", line);
    if (options_.on_step)
      options_.on_step({counters_.step, train_.steps, loss, rate, norm, tokens / seconds, fresh_});
  }
}

// What goes on inside, on some sequences of validation; one process is enough.
void Trainer::diagnose_now() {
  constexpr int64_t kSequences = 4;
  if (!team_.leads()) return;
  const Batch batch =
      read_batch(*data_->validation, 0, std::min(kSequences, data_->validation->size()), false);
  Json line = {{"step", counters_.step}};
  line.update(to_json(diagnose(model_, batch.ids, {.distances = 0})));
  run_->append("diagnostics.jsonl", line);
}

void Trainer::save() {
  if (team_.leads() && !saved_) {
    run_->write_checkpoint(counters_.step, [&](const fs::path& folder) {
      write_training_state({model_, *optimiser_, *average_, counters_}, data_->tokenizer, folder);
    });
    if (counters_.best_step == counters_.step) run_->set_best(counters_.step);
    run_->prune(train_.keep);
  }
  saved_ = true;
  team_.meet();
}

TrainingResult Trainer::run() {
  check_folder();
  build();
  open_folder();
  start_or_resume();
  const Meter meter;
  TrainingResult result{.directory = options_.directory};
  const double seconds_before = counters_.seconds;
  const int64_t first = counters_.step;
  while (counters_.step < train_.steps) {
    fresh_.reset();
    if (!step()) {
      result.end = TrainingEnd::not_finite;
      break;
    }
    const bool early = train_.patience > 0 && counters_.without_progress >= train_.patience;
    if (due(train_.checkpoint_every) || counters_.best_step == counters_.step || stop_wanted_ || early)
      save();
    if (early || stop_wanted_) {
      result.end = stop_wanted_ ? TrainingEnd::interrupted : TrainingEnd::early;
      break;
    }
  }
  if (counters_.step == train_.steps && !fresh_ && result.end == TrainingEnd::finished) validate_now();
  average_->swap();
  model_->eval();
  result.problem = problem_;
  result.step = counters_.step;
  for (const auto& item : model_->named_parameters()) {
    result.parameters += item.value().numel();
    if (learned_by_formula(item.key())) result.formula_parameters += item.value().numel();
  }
  for (const double loss : recent_losses_) result.loss += loss / static_cast<double>(recent_losses_.size());
  result.validation = last_;
  result.best_loss = counters_.best_loss;
  result.best_step = counters_.best_step;
  result.seconds = counters_.seconds;
  result.tokens_per_second = counters_.step > first ? tokens_read_ / (counters_.seconds - seconds_before) : 0;
  result.peak_bytes = meter.peak_bytes();
  result.model = model_;
  result.data = data_;
  if (team_.leads() && result.end != TrainingEnd::interrupted)
    write_atomic(options_.directory / "result.json", dump(to_json(result), 2) + "\n");
  team_.meet();
  return result;
}

}  // namespace

std::string_view name_of(TrainingEnd end) {
  switch (end) {
    case TrainingEnd::finished:
      return "finished";
    case TrainingEnd::early:
      return "stopped early";
    case TrainingEnd::interrupted:
      return "interrupted";
    case TrainingEnd::not_finite:
      return "not finite";
  }
  return "";
}

Json to_json(const TrainingResult& result) {
  Json json = {{"directory", result.directory.string()},
               {"end", std::string(name_of(result.end))},
               {"step", result.step},
               {"parameters", result.parameters},
               {"formula_parameters", result.formula_parameters},
               {"loss", result.loss},
               {"best_loss", result.best_loss},
               {"best_step", result.best_step},
               {"seconds", result.seconds},
               {"tokens_per_second", result.tokens_per_second},
               {"peak_bytes", result.peak_bytes}};
  if (result.validation.tokens > 0) json["validation"] = to_json(result.validation);
  if (!result.problem.empty()) json["problem"] = result.problem;
  return json;
}

std::optional<Tokenizer> existing_tokenizer(const DataOptions& options) {
  if (options.source == "tokens" || options.tokenizer == "bytes" || options.tokenizer.starts_with("bpe:"))
    return {};
  if (options.tokenizer.ends_with(".json")) return Tokenizer::from_file(options.tokenizer);
  return load_tokenizer(find_model(options.tokenizer));
}

Data open_recipe_data(const Recipe& recipe, std::optional<Tokenizer> tokenizer) {
  return recipe.translates() ? open_pairs(recipe.data, recipe.seed, std::move(tokenizer))
                             : open_data(recipe.data, recipe.seed, std::move(tokenizer));
}

TrainingResult train(const Recipe& recipe, const TrainingOptions& options, Team& team) {
  recipe.check();
  return Trainer(recipe, options, team).run();
}

}  // namespace saccade
