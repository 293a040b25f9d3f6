// What a single token stands for, to be shown to a person.
#pragma once

#include <string>

#include "saccade/text/tokenizer.h"

namespace saccade {

/// The token's text, blanks included. One that is only part of a character is shown as the vocabulary writes
/// it.
std::string piece_of(const Tokenizer& tokenizer, int32_t id);

}  // namespace saccade
