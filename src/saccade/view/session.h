// A model, perhaps beside another, and what the page may ask about them while they read a text.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "saccade/generate/text_model.h"
#include "saccade/report/field.h"
#include "saccade/serve/server.h"
#include "saccade/view/texts.h"

namespace saccade {

struct Viewed {
  TextModel baseline;
  // Reads the same tokens; null: there is none.
  Transformer candidate{nullptr};
  std::string candidate_name;
};

class Session {
 public:
  static constexpr int64_t kMostTokens = 4096;

  // Nothing to read with: the page then shows formulas alone.
  Session() = default;
  explicit Session(Viewed viewed);

  // {}: the models, their formulas and what these learned, and the shipped mechanisms.
  Json describe() const;
  // {"text", "model", "layer", "head", "cell", "values"}: weights of one head, or of all heads of a layer. Of
  // long texts, cells of several tokens; "cell" sets their size. "values" are tried in place of what the
  // layer's formula has learned.
  Json attention(const Json& request);
  // {"text", "model", "layer", "head", "row", "values"}: the exact weights of one query.
  Json row(const Json& request);
  // {"text", "position"}: what comes next by each model, and how far apart they are at every position.
  Json prediction(const Json& request);
  // {"text"}: how different the tokens still are after each block.
  Json rank(const Json& request);

  // All of the above by name, and what is shown of formulas.
  std::map<std::string, Answer> answers();

 private:
  Transformer model_of(const Field& request) const;
  ViewedText read(const Field& request) const;

  std::optional<Viewed> viewed_;
};

}  // namespace saccade
