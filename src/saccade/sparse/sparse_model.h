// A model whose layers have selectors, and its files: a directory with sparse.json, which names the model
// that was made sparse, and selector.safetensors, which has what was learned. The model's own weights stay
// where they are.
#pragma once

#include <filesystem>

#include "saccade/base/json.h"
#include "saccade/models/model_files.h"
#include "saccade/sparse/selection.h"

namespace saccade {

using Selectors = std::vector<std::shared_ptr<SparseSelector>>;  // one per layer

// Throws Error unless there is one for each layer, which can choose for its formula.
void attach(Transformer model, const Selectors& selectors);
// Looks at all keys again.
void detach(Transformer model);
// The selectors of a sparse model; empty for one that has none.
Selectors selectors_of(Transformer model);

// What share of the pairs is kept, by layer and head, [layers, heads], while `work` runs the model.
struct ModelDensity {
  at::Tensor by_head;
  double all() const { return by_head.mean().item<double>(); }
};
ModelDensity measure_density(const Selectors& selectors, const std::function<void()>& work);

// The share of dense attention's arithmetic that choosing takes, for a text of so many tokens.
double selection_cost(const Selectors& selectors, const Architecture& architecture, int64_t tokens);

// --- files ---

bool is_sparse_directory(const std::filesystem::path& path);
// `base` is what find_model finds the dense model by; `notes` is kept beside it for whoever reads the file.
void save_sparse(const std::filesystem::path& directory, const std::string& base, const Selectors& selectors,
                 const Json& notes);

struct SparseFiles {
  std::string base;
  Selectors selectors;
  Json notes;
};
// Throws Error for what is missing or does not fit together.
SparseFiles load_sparse(const std::filesystem::path& directory);

}  // namespace saccade
