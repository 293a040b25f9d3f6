// How faithful a candidate is to its baseline: both read the same texts, and everything that a reader of a
// certificate asks is measured. What is demanded of the numbers is said elsewhere, in fidelity_criteria.h.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "saccade/certify/fidelity_cost.h"
#include "saccade/certify/fidelity_embeddings.h"
#include "saccade/certify/fidelity_gradients.h"
#include "saccade/certify/fidelity_maps.h"
#include "saccade/certify/fidelity_tokens.h"
#include "saccade/evaluate/retrieval.h"
#include "saccade/generate/text_model.h"

namespace saccade {

struct DataText {
  std::string name, content;
};

struct FidelityOptions {
  int64_t context = 1024;  // tokens in a window
  int64_t max_tokens = 0;  // of each text; 0: all
  int64_t batch_size = 4;
  // Attention weights and gradients are looked at in so many windows, cut to so many tokens.
  int64_t look_windows = 2, look_tokens = 512;
  std::vector<int64_t> memory_lengths = {1024, 2048, 4096};  // empty: memory is not measured
  int64_t speed_rounds = 5;
  bool passkey = false, recall = false;  // tasks of measure_retrieval
  uint64_t seed = 1;
  std::function<OnProgress(const std::string& what)> progress;
};

struct Fidelity {
  std::optional<TokenFidelity> tokens;          // of models with a head for tokens
  std::optional<EmbeddingFidelity> embeddings;  // of the others
  std::optional<MapFidelity> maps;
  std::optional<GradientFidelity> gradients;
  std::optional<MemoryFidelity> memory;
  std::optional<SpeedFidelity> speed;
  std::optional<Retrieval> baseline_task, candidate_task;
  std::string no_maps, no_gradients;  // why there are none
  int64_t text_tokens = 0;            // that went through the models
  bool predicts_next = false;         // the next token; otherwise masked ones, or none
};

// Throws Error when the two cannot be compared, or the texts are too short.
Fidelity measure_fidelity(TextModel& baseline, TextModel& candidate, std::span<const DataText> texts,
                          const FidelityOptions& options);

// The share of tasks that a model solved.
double task_accuracy(const Retrieval& retrieval);

}  // namespace saccade
