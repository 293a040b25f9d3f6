// Labels for whole texts: how many are right, and for each label how well it is found.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/evaluate/reader.h"
#include "saccade/text/tokenizer.h"

namespace saccade {

struct LabelledText {
  std::string text;
  int64_t label = 0;
};

// Lines of JSON, {"text": ..., "label": ...}, or of a text, a tab and a label; a first line of tabbed names
// says which columns these are. A label is a number below `labels`, or one of the names. `where` is for
// messages.
std::vector<LabelledText> read_labelled(std::string_view content, std::string_view where, int64_t labels,
                                        std::span<const std::string> names = {});

struct LabelScore {
  int64_t texts = 0;  // that have the label
  double precision = 0, recall = 0, f1 = 0;
};

struct Classification {
  std::vector<std::vector<int64_t>> confusion;  // [the true label][the predicted one]
  double seconds = 0;
  int64_t peak_bytes = 0;

  int64_t texts() const;
  double accuracy() const;
  std::vector<LabelScore> scores() const;
  // The mean of F1 over the labels that occur or were predicted, as scikit-learn has it.
  double macro_f1() const;
};

// From labels alone. Throws Error unless there are as many of both, all below `labels`.
Classification compare_labels(std::span<const int64_t> truth, std::span<const int64_t> predicted,
                              int64_t labels);

struct ClassificationOptions {
  int64_t context = 512;  // longer texts are cut, but for their last token
  int64_t batch_size = 8;
  OnProgress on_progress;
};

Classification measure_classification(Transformer model, const Tokenizer& tokenizer,
                                      std::span<const LabelledText> texts,
                                      const ClassificationOptions& options);

}  // namespace saccade
