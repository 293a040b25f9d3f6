// A diagnosis as text for a terminal: a line per layer.
#pragma once

#include <string>

#include "saccade/diagnose/diagnosis.h"

namespace saccade {

std::string table_of(const Diagnosis& diagnosis);

}  // namespace saccade
