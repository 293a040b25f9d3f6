// From a dense model to a sparse one that keeps a budget: selectors learn layer by layer, sensitivities are
// measured, heads are set, and held-out text has the last word. The model's weights are never touched.
//
// A run's folder has distill.json (what was asked for), metrics.jsonl (what happened), layers/ (what each
// layer has learned, which an interrupted run goes on from), and at the end sparse.json with
// selector.safetensors, which make it a model.
#pragma once

#include <filesystem>

#include "saccade/distill/attention_time.h"
#include "saccade/distill/scorer_training.h"
#include "saccade/distill/solver.h"
#include "saccade/distill/texts.h"

namespace saccade {

enum class SelectorKind { gate, indexer, span, full_or_local };

struct DistillOptions {
  SelectorKind kind = SelectorKind::gate;
  Goal goal;
  SelectionOptions selection;
  std::vector<WindowCount> windows;  // empty: as the model's context allows
  int64_t pool = 16, samples = 4;
  ScorerTraining scorer;
  ScorerTraining single{.rank = 8, .rate = 0.03};  // for decoding
  bool decoding = true;
  int64_t draws = 3;
  int64_t longest =
      8192;  // up to which the crossover is looked for, within the model's context; 0: it is not
  uint64_t seed = 1;
};

// Windows of 1024 and 4096 tokens, or what the context has room for.
std::vector<WindowCount> usual_windows(const Architecture& architecture, int64_t query_tile);

// Where a run writes and what it shows.
struct DistillRun {
  std::filesystem::path directory;  // empty: nothing is written
  std::string base;                 // what the model is found by
  bool resume = false;
  std::function<void(const Json&)> on_event;  // lines of metrics.jsonl
  std::function<void(std::string_view stage, int64_t done, int64_t total)> on_progress;
  std::function<bool()> stop;  // asked between layers; true: the run ends and can be resumed
};

struct DistillResult {
  bool stopped = false;
  Selectors selectors;
  Solution solution;
  std::optional<Solution> decoding;
  double learned_divergence = 0;     // on texts that were learned from, beside held-out ones
  double selection_cost = 0;         // share of dense attention's arithmetic, at the longest window
  std::vector<AttentionTime> times;  // by length; see set_crossover
  double seconds = 0;
};

DistillResult distill(Transformer model, const TokenIds& text, const DistillOptions& options,
                      const DistillRun& run);

// The selectors before anything is set: trained scorers, or spans. For `distill` and the frontier.
Selectors train_selectors(Transformer model, const TextWindows& windows, const DistillOptions& options,
                          const DistillRun& run);

Json to_json(const DistillOptions& options);
Json to_json(const Solution& solution);
std::string_view name_of(SelectorKind kind);

}  // namespace saccade
