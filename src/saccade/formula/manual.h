// The language reference, written from the tables that the program itself uses, so that it cannot fall
// behind.
#pragma once

#include <string>

namespace saccade {

// Markdown; the content of docs/language.md.
std::string language_manual();

}  // namespace saccade
