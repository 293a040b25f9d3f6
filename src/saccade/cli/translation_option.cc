#include "saccade/cli/translation_option.h"

#include <CLI/CLI.hpp>

#include "saccade/base/log.h"

namespace saccade {

void TranslationOption::declare(CLI::App& app) {
  app.add_option("--beams", options.beams, "Unfinished translations that are followed; 1: greedy")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--length-penalty", options.length_penalty,
                 "Score is the sum of log-probabilities / length ^ this; more favours longer translations")
      ->capture_default_str();
  app.add_flag("--early-stopping", options.early_stopping, "End with the first --beams finished ones");
  app.add_option("--max-new-tokens", options.max_new_tokens,
                 "Longest translation; twice the source and 20 tokens by default")
      ->check(CLI::Range(1, 1 << 20));
  app.add_flag("--extend", options.extend,
               "Read lines beyond the model's context, where positions are rotary; otherwise they are cut");
}

void warn_about(std::span<const LineTranslation> lines, size_t first) {
  for (size_t line = 0; line < lines.size(); ++line) {
    if (lines[line].read_tokens < lines[line].source_tokens)
      log::warn("line {}: it has {} tokens and the model reads {}; the rest is left out", first + line + 1,
                lines[line].source_tokens, lines[line].read_tokens);
    if (!lines[line].ended)
      log::warn("line {}: the translation did not come to an end, and is cut", first + line + 1);
  }
}

}  // namespace saccade
