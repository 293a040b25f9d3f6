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
#include "saccade/distill/token_gate_training.h"

namespace saccade {

enum class SelectorKind { gate, indexer, token_gate, span, full_or_local };

// Training all scorers together by what the model says in the end; see fine_tune.h.
struct FineTuning {
  int64_t steps = 0;      // 0: none
  double rate = 0.003;    // times the typical size of each tensor's numbers; thresholds in logarithms
  double output = 1;      // weight of the divergence of what the model says
  double hidden = 0;      // weight of the squared distance of what leaves each block, relative to its size
  double maps = 0;        // weight of the divergence of attention's own weights from the estimates
  double density = 0.02;  // price of keeping all pairs, beside the divergence
  double first_temperature = 1, last_temperature = 0.2;
  double hard_share = 0.25;       // of the steps, at the end, that compute the hard choice
  int64_t watch_every = 10;       // steps between looks at held-out text
  double unstable = 2;            // a held-out loss so many times the first's ends training
  std::filesystem::path teacher;  // a file for what the dense model says; empty: kept in memory
  int64_t likely_tokens = 64;     // that are written into it
};

struct DistillOptions {
  SelectorKind kind = SelectorKind::gate;
  FineTuning fine_tuning;
  Goal goal;
  SelectionOptions selection;
  std::vector<WindowCount> windows;  // empty: as the model's context allows
  int64_t pool = 16, samples = 2;
  ScorerTraining scorer{.rank = 28};
  ScorerTraining single{.rank = 8, .rate = 0.03};  // for decoding
  GateTraining token_gate;
  bool decoding = true;
  int64_t draws = 3;
  int64_t longest =
      8192;  // up to which the crossover is looked for, within the model's context; 0: it is not
  uint64_t seed = 1;
};

// Throws Error for sizes that do not fit together.
void check(const DistillOptions& options);

// Windows of 1024 and 4096 tokens, or what the context has room for.
std::vector<WindowCount> usual_windows(const Architecture& architecture, int64_t query_tile);

// Where a run writes and what it shows.
struct DistillRun {
  std::filesystem::path directory;  // empty: nothing is written
  std::string base;                 // what the model is found by
  std::filesystem::path scorers;    // a run whose scorers are taken; empty: they are trained
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
  std::optional<Json> fine_tuned;    // what fine-tuning did
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
