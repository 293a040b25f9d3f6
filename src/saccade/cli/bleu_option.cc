#include "saccade/cli/bleu_option.h"

#include <CLI/CLI.hpp>

#include "saccade/base/error.h"
#include "saccade/base/text.h"
#include "saccade/data/parallel_files.h"

namespace saccade {

void BleuOption::declare(CLI::App& app) {
  app.add_option("--bleu", references, "Reference translations: BLEU and chrF of --hypotheses or the model")
      ->type_name("FILE");
  app.add_option("--tokenize", tokens, "How BLEU cuts words: 13a, intl, char or none")
      ->check(CLI::IsMember(bleu_token_names()))
      ->capture_default_str();
  app.add_option("--smooth", smoothing, "What BLEU does without a match: exp, floor, add-k or none")
      ->check(CLI::IsMember(bleu_smoothing_names()))
      ->capture_default_str();
  app.add_option("--smooth-value", smoothing_value,
                 "The number that floor (0.1 by default) and add-k (1) use")
      ->check(CLI::Range(0.0, 1e6));
  app.add_option("--chrf-words", chrf_words, "Longest run of words in chrF; 2 makes it chrF++")
      ->check(CLI::Range(0, 8));
  app.add_flag("--sentence-level", sentence_level,
               "Score each line by itself as well; orders of BLEU that a line is too short for do not count");
}

BleuOptions BleuOption::bleu() const {
  BleuOptions options{.tokens = bleu_tokens_named(tokens), .smoothing = bleu_smoothing_named(smoothing)};
  if (smoothing_value >= 0) options.smoothing_value = smoothing_value;
  return options;
}

std::vector<std::vector<std::string>> BleuOption::read_references() const {
  std::vector<std::vector<std::string>> result;
  for (const std::string& file : references) result.push_back(read_lines_of(file));
  return result;
}

std::vector<std::vector<std::string>> BleuOption::checked(const std::vector<std::string>& hypotheses,
                                                          const std::string& name) const {
  std::vector<std::vector<std::string>> lines = read_references();
  for (size_t file = 0; file < lines.size(); ++file)
    require(lines[file].size() == hypotheses.size(), "eval: {} has {}, {} has {}; expected as many", name,
            plural(static_cast<int64_t>(hypotheses.size()), "line"), references[file],
            plural(static_cast<int64_t>(lines[file].size()), "line"));
  require(!hypotheses.empty(), "eval: {} has no line", name);
  return lines;
}

std::string BleuOption::text(const std::vector<std::string>& hypotheses, const std::string& name) const {
  const auto lines = checked(hypotheses, name);
  std::string by_line;
  if (sentence_level)
    for (const Json& line : sentences(hypotheses, lines))
      by_line += fmt::format("{:.2f}\t{:.2f}\n", line["bleu"].get<double>(), line["chrf"].get<double>());
  return by_line + fmt::format("{}\n  {}\n{} = {:.2f}\n  {}\n", corpus_bleu(hypotheses, lines, bleu()).text(),
                               bleu_signature(bleu(), lines.size()), chrf_name(chrf()),
                               corpus_chrf(hypotheses, lines, chrf()), chrf_signature(chrf(), lines.size()));
}

Json BleuOption::json(const std::vector<std::string>& hypotheses, const std::string& name) const {
  const auto lines = checked(hypotheses, name);
  Json score = to_json(corpus_bleu(hypotheses, lines, bleu()));
  score["signature"] = bleu_signature(bleu(), lines.size());
  Json result = {{"lines", hypotheses.size()},
                 {"bleu", std::move(score)},
                 {"chrf",
                  {{"name", chrf_name(chrf())},
                   {"score", corpus_chrf(hypotheses, lines, chrf())},
                   {"signature", chrf_signature(chrf(), lines.size())}}}};
  if (sentence_level) result["sentences"] = sentences(hypotheses, lines);
  return result;
}

Json BleuOption::sentences(const std::vector<std::string>& hypotheses,
                           const std::vector<std::vector<std::string>>& lines) const {
  BleuOptions alone = bleu();
  alone.effective_order = true;
  Json result = Json::array();
  for (size_t line = 0; line < hypotheses.size(); ++line) {
    std::vector<std::string_view> wanted;
    for (const std::vector<std::string>& file : lines) wanted.push_back(file[line]);
    result.push_back({{"bleu", bleu_of(count_bleu(hypotheses[line], wanted, alone), alone).score},
                      {"chrf", chrf_of(count_chrf(hypotheses[line], wanted, chrf()), chrf())}});
  }
  return result;
}

std::vector<std::string> read_lines_of(const std::string& file) { return read_parallel_lines(file); }

}  // namespace saccade
