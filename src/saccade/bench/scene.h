// A scene: one attention problem at benchmark size with everything in place, so that any contestant can run
// on it. A setup is its declaration as plain data; the same one gives correctness and timing.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "saccade/attention/attention.h"
#include "saccade/bench/rounds.h"
#include "saccade/certify/problem.h"

namespace saccade::bench {

enum class Task { forward, training, decoding };
std::string_view name_of(Task task);  // "forward", "training step", "decoding step"

// A formula by the name of a shipped mechanism or a file, or by its text.
struct FormulaSource {
  std::string name;
  std::string text;  // empty: load `name`
  Overrides set;
  std::map<std::string, double> parameters;  // values of learned parameters, instead of their start values
  bool operator==(const FormulaSource&) const = default;
};
Formula load(const FormulaSource& source);

// A random choice of key tiles for each head and query tile.
struct Sparsity {
  double density = 1;
  int64_t query_tile = 64, key_tile = 64;
  // Picks the listed keys, or walks over all and hides the others; by default as the tuner chooses.
  std::optional<bool> gather = {};
  bool operator==(const Sparsity&) const = default;
};

struct Setup {
  FormulaSource formula;
  Task task = Task::forward;
  // `queries` and `keys` are equal; a decoding step has so many tokens in its cache, and one more query.
  Case shape;
  at::ScalarType dtype = at::kFloat;
  Path path = Path::automatic;  // of our attention
  double epsilon = 0;           // of our attention: what may be left out
  std::optional<Sparsity> sparsity;
  bool operator==(const Setup&) const = default;
};

// Self-attention of n tokens, for short.
Case self_attention(int64_t n, int64_t heads = 8, int64_t width = 64, int64_t kv_heads = 0);

struct Scene {
  Setup setup;
  Formula formula;
  std::shared_ptr<AttentionImpl> attention;
  Problem problem;  // all tokens; a decoding step is about the last one
  at::Tensor output_gradient;
};
std::shared_ptr<Scene> make_scene(const Setup& setup);

// Runs a forward computation as the scene's task wants it: without a graph, or with the gradients by query,
// key, value and `more`.
Results perform(const Scene& scene, const std::function<at::Tensor()>& forward,
                const std::vector<std::pair<std::string, at::Tensor>>& more);

// The learned parameters of the scene by name: what `perform` differentiates by beyond query, key and value.
std::vector<std::pair<std::string, at::Tensor>> learned(const Scene& scene);

// Our own attention on the scene.
Contestant saccade_contestant(const std::shared_ptr<Scene>& scene);

// Floating-point operations that the task needs: products over pairs that the mask allows, counted on a
// sample of rows. What a softmax costs is not counted, as usual.
double useful_operations(const Scene& scene);

}  // namespace saccade::bench
