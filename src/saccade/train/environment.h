// Where and with what something was computed, for whoever wonders later why numbers differ.
#pragma once

#include "saccade/base/json.h"

namespace saccade {

Json environment(int processes = 1);

}  // namespace saccade
