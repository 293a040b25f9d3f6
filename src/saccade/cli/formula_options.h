// The options that every command with formulas shares: which file or shipped mechanism, and new values for
// its constants.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "saccade/formula/formula.h"

namespace saccade {

struct FormulaOptions {
  std::vector<std::string> files;
  std::vector<std::string> set;  // "w=128"

  void declare(CLI::App& app, bool many);
  Formula load(const std::string& file) const;
};

// "w=128" pairs; throws Error for anything else.
Overrides parse_overrides(const std::vector<std::string>& pairs);

}  // namespace saccade
