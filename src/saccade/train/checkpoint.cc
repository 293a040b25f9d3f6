#include "saccade/train/checkpoint.h"

#include "saccade/attention/shapes.h"
#include "saccade/base/error.h"
#include "saccade/base/file.h"
#include "saccade/base/json.h"
#include "saccade/models/model_files.h"
#include "saccade/models/tensor_files.h"

namespace saccade {

using at::Tensor;
namespace fs = std::filesystem;

namespace {
constexpr const char* kState = "training.safetensors";
constexpr const char* kCounters = "training.json";
constexpr const char* kRawWeights = "weights.";

}  // namespace

WeightAverage::WeightAverage(const Transformer& model, double decay) : model_(model), decay_(decay) {
  if (decay_ <= 0) return;
  for (const auto& item : model->named_parameters()) values_[item.key()] = item.value().detach().clone();
}

void WeightAverage::update(int64_t step) {
  if (!active()) return;
  const torch::NoGradGuard no_gradient;
  // In the beginning there is little to average: what was there at the start must not weigh for long.
  const double decay =
      std::min(decay_, (1.0 + static_cast<double>(step)) / (10.0 + static_cast<double>(step)));
  for (const auto& item : model_->named_parameters()) values_.at(item.key()).lerp_(item.value(), 1 - decay);
}

void WeightAverage::swap() {
  if (!active()) return;
  const torch::NoGradGuard no_gradient;
  for (const auto& item : model_->named_parameters()) {
    Tensor& other = values_.at(item.key());
    const Tensor mine = item.value().clone();
    item.value().copy_(other);
    other.copy_(mine);
  }
}

void write_training_state(const TrainingState& state, const Tokenizer& tokenizer, const fs::path& folder) {
  std::vector<TensorSource> sources;
  for (const auto& [name, tensor] : state.optimiser.state()) sources.push_back(source_of(name, tensor));
  std::map<std::string, Tensor> raw;
  if (state.average.active())
    for (const auto& item : state.model->named_parameters()) raw[item.key()] = item.value().detach().clone();
  for (const auto& [name, tensor] : raw) sources.push_back(source_of(kRawWeights + name, tensor));
  write_safetensors(folder / kState, sources);
  state.average.swap();
  save_model(state.model, folder);
  state.average.swap();
  write_atomic(folder / "tokenizer.json", tokenizer.to_json());
  write_atomic(folder / "tokenizer_config.json", tokenizer.config_json());
  const TrainingCounters& c = state.counters;
  Json counters = {{"step", c.step},
                   {"best_loss", c.best_loss},
                   {"best_step", c.best_step},
                   {"without_progress", c.without_progress},
                   {"seconds", c.seconds}};
  write_atomic(folder / kCounters, dump(counters, 2) + "\n");
}

void read_training_state(const TrainingState& state, const fs::path& folder) {
  const torch::NoGradGuard no_gradient;
  const Checkpoint file = Checkpoint::open(folder / kState);
  for (auto& [name, tensor] : state.optimiser.state())
    read_tensor(file.get(name), tensor, file.path().string());
  const Transformer stored = load_model(folder);
  const auto values = stored->named_parameters();
  for (const auto& item : state.model->named_parameters()) {
    const Tensor* value = values.find(item.key());
    require(value && value->sizes() == item.value().sizes(),
            "{}: the model there has no parameter '{}' of shape {}", folder.string(), item.key(),
            shape_text(item.value()));
    if (state.average.active()) {
      read_tensor(file.get(kRawWeights + item.key()), item.value(), file.path().string());
      Tensor average = state.average.values().at(item.key());
      average.copy_(*value);
    } else {
      item.value().copy_(*value);
    }
  }
  const Json json = parse_json(read_file(folder / kCounters, 1 << 20), (folder / kCounters).string());
  TrainingCounters& c = state.counters;
  try {
    c.step = json.at("step");
    c.best_loss = json.at("best_loss").is_null() ? 0.0 : json.at("best_loss").get<double>();
    c.best_step = json.at("best_step");
    c.without_progress = json.at("without_progress");
    c.seconds = json.at("seconds");
  } catch (const nlohmann::json::exception& error) {
    fail("{}: {}", (folder / kCounters).string(), error.what());
  }
  state.optimiser.set_steps(c.step);
}

}  // namespace saccade
