#include "saccade/train/translation_outcome.h"

#include "saccade/base/file.h"
#include "saccade/data/parallel.h"
#include "saccade/data/parallel_files.h"
#include "saccade/evaluate/translation_curves.h"
#include "saccade/generate/translation.h"

namespace saccade {

namespace fs = std::filesystem;

namespace {

std::span<const TranslationPair> some_pairs(const Recipe& recipe, const TrainingResult& result) {
  const std::span<const TranslationPair> pairs = result.data->validation_pairs;
  return pairs.first(std::min(pairs.size(), static_cast<size_t>(recipe.train.validation_sequences)));
}

}  // namespace

void translate_validation(const Recipe& recipe, const TrainingResult& result, const fs::path& folder) {
  std::vector<std::string> sources;
  for (const TranslationPair& pair : some_pairs(recipe, result)) sources.push_back(pair.source);
  std::string translations;
  const PairEncoder encoder(result.data->tokenizer);
  for (const std::string& line : translate_lines(result.model, encoder, sources, {}))
    translations += line + "\n";
  write_atomic(folder / "validation.translation", translations);
}

std::vector<BleuCounts> translated_lines(const fs::path& folder) {
  const fs::path translation = folder / "validation.translation";
  if (!fs::exists(translation)) return {};
  const std::vector<std::string> lines = read_parallel_lines(translation.string());
  std::vector<std::vector<std::string>> references{
      read_parallel_lines((folder / "validation.target").string())};
  references[0].resize(std::min(references[0].size(), lines.size()));
  return count_corpus(lines, references, {});
}

double bleu_score(const std::vector<BleuCounts>& lines) {
  BleuCounts sum;
  for (const BleuCounts& line : lines) sum += line;
  return bleu_of(sum, {}).score;
}

std::vector<double> source_damage(const Recipe& recipe, const TrainingResult& result,
                                  const std::vector<Corruption>& corruptions, double rate) {
  const PairEncoder encoder(result.data->tokenizer);
  Team alone;
  const auto loss_with = [&](Corruption corruption) {
    std::vector<TranslationPair> pairs;
    const RandomStream random(1, name_of(corruption));
    for (const TranslationPair& pair : some_pairs(recipe, result))
      pairs.push_back({damaged(encoder.tokenizer(), pair.source, corruption, rate,
                               random.split(std::to_string(pairs.size()))),
                       pair.target});
    // Damage may make a source longer; the same pairs must count in all cases.
    const auto data = pairs_dataset(pairs, encoder, 4 * recipe.data.length, {}, "the damaged pairs");
    return validate(result.model, *data, {.sequences = data->size(), .batch = 16}, alone).loss();
  };
  const double clean = loss_with(Corruption::none);
  std::vector<double> gains;
  for (const Corruption corruption : corruptions) gains.push_back(loss_with(corruption) - clean);
  return gains;
}

}  // namespace saccade
