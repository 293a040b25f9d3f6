// A model that reads and writes text: a transformer and its tokenizer.
#pragma once

#include <string>

#include "saccade/models/model_files.h"
#include "saccade/text/tokenizer.h"

namespace saccade {

struct TextModel {
  std::string name;  // as the person called it
  Transformer model{nullptr};
  Tokenizer tokenizer;

  // The ids that end a text: what the model's files say, or the tokenizer's.
  std::vector<int64_t> end_ids() const;
};

// `name_or_path` as find_model understands it, or the directory of a sparse model, which is that model with
// its selectors. Throws Error when files are missing or of an unknown kind.
TextModel load_text_model(const std::string& name_or_path);

// The tokenizer of a model directory or GGUF file.
Tokenizer load_tokenizer(const std::filesystem::path& path);

}  // namespace saccade
