// The same training with several mechanisms and seeds: same data in the same order, same starting weights
// outside the mechanism; then the same measurements of each.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "saccade/evaluate/significance.h"
#include "saccade/train/recipe.h"
#include "saccade/train/spread.h"
#include "saccade/train/trainer.h"

namespace saccade {

// One column of the experiment: the recipe with some keys changed.
struct Variant {
  std::string name;
  std::vector<std::string> overrides;
  bool control = false;  // added to have as many parameters as the largest
};

struct Sweep {
  std::string key;  // of the recipe, or of the formula ("lp")
  std::vector<std::string> values;
};

// All mechanisms with all combinations of what is swept.
std::vector<Variant> variants_of(const std::vector<std::string>& attentions,
                                 const std::vector<Sweep>& sweeps);
// The first variant with a wider MLP, so that it has at least as many parameters as the largest; nothing when
// all are within one in a thousand of it.
std::vector<Variant> control_of(const Recipe& recipe, const std::vector<Variant>& variants);

struct RunOutcome {
  uint64_t seed = 0;
  TrainingEnd end = TrainingEnd::finished;
  int64_t parameters = 0, formula_parameters = 0;
  double loss = 0, answers = 0;  // of validation; answers are NaN when the data have none
  double tokens_per_second = 0;
  int64_t peak_bytes = 0;
  std::vector<double> length_losses, length_answers;  // at multiples of the length; NaN where the model ends
  std::vector<BleuCounts> bleu_lines;                 // of a model that translates: of each line
  double bleu = 0;                                    // of all of them; NaN when there are none
  std::vector<double> damage;  // of the loss, by each corruption of what was read before; empty: not measured
};

struct VariantResult {
  Variant variant;
  std::vector<RunOutcome> runs;

  std::vector<double> losses() const;
  std::vector<double> bleus() const;
  // Whether its translations differ from the other's, line by line, over all runs.
  PairedBootstrap bleu_difference(const VariantResult& other) const;
};

struct Comparison {
  std::vector<double> lengths;           // multiples of the training's
  std::vector<std::string> corruptions;  // "10 % dropped"
  std::vector<VariantResult> variants;   // the first is what others are compared with

  bool translates() const { return !variants.front().runs.front().bleu_lines.empty(); }
};

struct ComparisonOptions {
  int64_t runs = 3;
  std::vector<double> lengths = {1, 2, 4};
  bool corruption = true;
  std::filesystem::path directory;  // a folder for each run; finished ones are not run again
  std::function<void(const std::string& what, int64_t done, int64_t total)> on_run;
  std::function<void(const TrainingStep&)> on_step;
  std::function<bool()> interrupted;
};

// Throws Error when interrupted, with how to go on.
Comparison compare(const Recipe& recipe, const std::vector<Variant>& variants,
                   const ComparisonOptions& options);

// The folder of a run within the comparison's.
std::string run_folder(const Variant& variant, uint64_t seed);

Json to_json(const Comparison& comparison);
std::string table_of(const Comparison& comparison);

// Pictures by their file names: losses over steps, results, losses over lengths.
struct NamedPicture {
  std::string file, svg;
};
std::vector<NamedPicture> pictures_of(const Comparison& comparison, const std::filesystem::path& directory,
                                      const std::string& title);

}  // namespace saccade
