// The language reference, written from the tables that the program itself uses, so that it cannot fall
// behind.
#pragma once

#include <string>

#include "saccade/base/json.h"

namespace saccade {

// Markdown; the content of docs/language.md.
std::string language_manual();

// The same tables for programs, such as an editor that completes names: statements, dimensions, variables,
// operations, norms, host_functions and limits. Texts in it are Markdown.
Json language_json();

}  // namespace saccade
