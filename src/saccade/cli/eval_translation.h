// The part of `saccade eval` for models that translate: BLEU of their own translations, and how it falls with
// noise and length.
#pragma once

#include "saccade/cli/bleu_option.h"
#include "saccade/cli/command.h"
#include "saccade/cli/translation_option.h"
#include "saccade/generate/text_model.h"

namespace saccade {

struct TranslationEvaluation {
  std::string input;  // file of sources
  BleuOption bleu;
  TranslationOption translation;
  bool noise = false, lengths = false, json = false;
  uint64_t seed = 1;
};

ExitCode evaluate_translation(const TextModel& model, const TranslationEvaluation& evaluation);

}  // namespace saccade
