// How a model translates, for every command that lets one.
#pragma once

#include <CLI/App.hpp>

#include "saccade/generate/translation.h"

namespace saccade {

struct TranslationOption {
  TranslationOptions options;

  void declare(CLI::App& app);
};

// Says on standard error which lines were not read to their end, or whose translation did not come to one.
// `first`: how many lines came before these.
void warn_about(std::span<const LineTranslation> lines, size_t first);

}  // namespace saccade
