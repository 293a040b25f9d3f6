// What a comparison measures of a model that translates, beyond its loss.
#pragma once

#include <filesystem>
#include <vector>

#include "saccade/evaluate/bleu.h"
#include "saccade/evaluate/robustness.h"
#include "saccade/train/trainer.h"

namespace saccade {

// Translates the validation sentences, as many as the recipe validates on, into validation.translation of the
// run's folder, where the training has left validation.target.
void translate_validation(const Recipe& recipe, const TrainingResult& result,
                          const std::filesystem::path& folder);
// BLEU's counts of each line, from these two files; none when the run has none.
std::vector<BleuCounts> translated_lines(const std::filesystem::path& folder);
double bleu_score(const std::vector<BleuCounts>& lines);

// How much the loss of the reference translations grows when a share of each source is damaged.
std::vector<double> source_damage(const Recipe& recipe, const TrainingResult& result,
                                  const std::vector<Corruption>& corruptions, double rate);

}  // namespace saccade
