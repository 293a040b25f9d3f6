// Divergence against density for one selector after the other, on the same held-out text: what learning is
// worth, and how far it is from knowing the weights.
#pragma once

#include "saccade/distill/distillation.h"

namespace saccade {

struct FrontierPoint {
  double density = 0, divergence = 0;
};

struct FrontierCurve {
  std::string name;                   // "learned gate"
  std::string meaning;                // what it keeps, in a sentence
  std::vector<FrontierPoint> points;  // by rising density

  // On the line through the points, in logarithms; nothing outside of them.
  std::optional<double> divergence_at(double density) const;
  std::optional<double> density_at(double divergence) const;
};

// Where the divergence at one density comes from: each step adds to the one before.
struct Decomposition {
  double density = 0;
  double best = 0;           // the true weights, chosen for each query
  double granularity = 0;    // added by one list for a tile of queries
  double mistakes = 0;       // added by scores that are learned
  double approximation = 0;  // added by weighing near keys for some queries only
};

struct Frontier {
  std::vector<FrontierCurve> curves;
  std::optional<Decomposition> decomposition;  // at the density of the first goal
  int64_t tokens = 0;                          // of a window
};

struct FrontierOptions {
  DistillOptions distill;
  std::vector<double> goals = {0.0003, 0.001, 0.003, 0.01, 0.03, 0.1};
};

Frontier measure_frontier(Transformer model, const TokenIds& text, const FrontierOptions& options,
                          const DistillRun& run);

Json to_json(const Frontier& frontier);

}  // namespace saccade
