// `--bleu`, with how BLEU is to be counted: for translations of any origin, line by line.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "saccade/evaluate/bleu.h"
#include "saccade/evaluate/chrf.h"

namespace saccade {

struct BleuOption {
  std::vector<std::string> references;  // files
  std::string tokens = "13a", smoothing = "exp";
  double smoothing_value = -1;  // negative: the smoothing's own
  int64_t chrf_words = 0;
  bool sentence_level = false;

  void declare(CLI::App& app);
  bool given() const { return !references.empty(); }
  BleuOptions bleu() const;
  ChrfOptions chrf() const { return {.words = static_cast<size_t>(chrf_words)}; }
  std::vector<std::vector<std::string>> read_references() const;
  // Scores of lines, as text or JSON; `name` is what messages call the translation. Throws Error, with both
  // names, when the files do not go together.
  std::string text(const std::vector<std::string>& hypotheses, const std::string& name) const;
  Json json(const std::vector<std::string>& hypotheses, const std::string& name) const;

 private:
  std::vector<std::vector<std::string>> checked(const std::vector<std::string>& hypotheses,
                                                const std::string& name) const;
  Json sentences(const std::vector<std::string>& hypotheses,
                 const std::vector<std::vector<std::string>>& lines) const;
};

// The lines of a file, of a compressed one (.gz), or of standard input ("-").
std::vector<std::string> read_lines_of(const std::string& file);

}  // namespace saccade
