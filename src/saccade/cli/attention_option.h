// `--attention`, with `--set` and `--layers`: the attention of a loaded model swapped for another formula.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/models/transformer.h"

namespace saccade {

struct AttentionOption {
  std::string formula;           // a file or a shipped mechanism; empty: the model's own
  std::vector<std::string> set;  // "w=128"
  std::string layers;            // "0-5,7"; empty: all

  void declare(CLI::App& app);
  bool given() const { return !formula.empty(); }
  // The formula that is asked for; finds what is wrong with it before a model is loaded.
  Formula load() const;
  // Swaps it in where it is asked for; the other layers keep what they have, and what that has learned. Warns
  // when a model that predicts what comes next could see it now.
  void apply(Transformer model, Path path) const;
  // For a column: "last10", or "last10 in layers 0-5,7".
  std::string title() const;
};

// "0-5,7" as a list in rising order. Throws Error for what cannot be read or is not below `count`.
std::vector<int64_t> parse_layers(std::string_view text, int64_t count);

}  // namespace saccade
