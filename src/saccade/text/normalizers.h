// What is done to a text before it is cut into pieces: Unicode's normal forms, lower case, replacements.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "saccade/text/json_part.h"

namespace saccade {

class Normalizer {
 public:
  Normalizer() = default;
  virtual ~Normalizer() = default;
  Normalizer(const Normalizer&) = delete;
  Normalizer& operator=(const Normalizer&) = delete;

  /// Changes valid UTF-8, and leaves valid UTF-8.
  virtual void normalize(std::string& text) const = 0;
};

/// The normalizer that a tokenizer file describes; throws an Error that names what is not supported.
std::unique_ptr<Normalizer> make_normalizer(const JsonPart& part);

}  // namespace saccade
