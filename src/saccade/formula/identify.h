// Which shipped mechanism a formula is, when its text comes from a file that does not say.
#pragma once

#include <string>

#include "saccade/formula/formula.h"

namespace saccade {

// The name of the shipped mechanism with the same statements, whatever numbers its constants and learned
// values start from; otherwise the formula's own name, of a file without folders and ending.
std::string mechanism_name(const Formula& formula);

}  // namespace saccade
