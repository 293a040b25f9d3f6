#include "saccade/cli/eval_translation.h"

#include "saccade/base/error.h"
#include "saccade/base/progress.h"
#include "saccade/base/text.h"
#include "saccade/cli/output.h"
#include "saccade/evaluate/translation_curves.h"

namespace saccade {
namespace {

constexpr double kRates[] = {0.05, 0.1, 0.2};
constexpr int64_t kSentences[] = {1, 2, 4, 8};

// Translates with a bar; lines that were cut are said once, of the plain input.
class Translator {
 public:
  Translator(const TextModel& model, const TranslationOptions& options)
      : model_(model), encoder_(model.tokenizer), options_(options) {}

  std::vector<std::string> operator()(std::span<const std::string> lines, const std::string& label,
                                      bool warns) const {
    Progress progress(static_cast<int64_t>(lines.size()), label);
    const std::vector<LineTranslation> found = translate(
        model_.model, encoder_, lines, options_, [&](int64_t done, int64_t) { progress.update(done); });
    progress.finish();
    if (warns) warn_about(found, 0);
    std::vector<std::string> texts;
    for (const LineTranslation& line : found) texts.push_back(line.texts.empty() ? "" : line.texts.front());
    return texts;
  }

 private:
  const TextModel& model_;
  PairEncoder encoder_;
  TranslationOptions options_;
};

}  // namespace

ExitCode evaluate_translation(const TextModel& model, const TranslationEvaluation& e) {
  const std::vector<std::string> sources = read_lines_of(e.input);
  const std::vector<std::vector<std::string>> references = e.bleu.read_references();
  for (size_t file = 0; file < references.size(); ++file)  // before anything is translated
    require(references[file].size() == sources.size(), "eval: {} has {}, {} has {}; expected as many",
            e.input, plural(static_cast<int64_t>(sources.size()), "line"), e.bleu.references[file],
            plural(static_cast<int64_t>(references[file].size()), "line"));
  require(!sources.empty(), "eval: {} has no line", e.input);
  const Translator translator(model, e.translation.options);
  const std::vector<std::string> hypotheses = translator(sources, "translation", true);
  const BleuOptions bleu = e.bleu.bleu();
  std::vector<NoisePoint> noise;
  if (e.noise)
    noise = noise_curve([&](auto lines) { return translator(lines, "noise", false); }, model.tokenizer,
                        sources, references, kRates, e.seed, bleu);
  std::vector<LengthPoint> lengths;
  if (e.lengths) {
    TranslationOptions whole = e.translation.options;
    whole.extend = !model.model->architecture().learned_positions;
    const Translator reader(model, whole);
    lengths = length_curve([&](auto lines) { return reader(lines, "documents", false); }, sources, references,
                           kSentences, bleu);
  }
  if (e.json) {
    Json json = {{"model", model.name}, {"beams", e.translation.options.beams}};
    json.update(e.bleu.json(hypotheses, "the translation"));
    for (const NoisePoint& point : noise)
      json["noise"].push_back({{"corruption", std::string(name_of(point.corruption))},
                               {"rate", point.rate},
                               {"bleu", point.bleu.score}});
    for (const LengthPoint& point : lengths)
      json["lengths"].push_back(
          {{"sentences", point.sentences}, {"words", point.words}, {"bleu", point.bleu.score}});
    print("{}\n", dump(json, 2));
    return ExitCode::success;
  }
  print("{}", e.bleu.text(hypotheses, "the translation"));
  if (e.noise) {
    Table table({"damage of the source", "rate", "BLEU"});
    for (const NoisePoint& point : noise)
      table.add({std::string(name_of(point.corruption)), fmt::format("{:.0f} %", 100 * point.rate),
                 fmt::format("{:.2f}", point.bleu.score)});
    print("\n{}", table.print());
  }
  if (e.lengths) {
    Table table({"sentences in one", "words", "BLEU", "BP"});
    for (const LengthPoint& point : lengths)
      table.add({std::to_string(point.sentences), fmt::format("{:.1f}", point.words),
                 fmt::format("{:.2f}", point.bleu.score), fmt::format("{:.3f}", point.bleu.brevity_penalty)});
    print("\n{}", table.print());
  }
  return ExitCode::success;
}

}  // namespace saccade
