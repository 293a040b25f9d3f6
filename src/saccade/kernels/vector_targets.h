// Which instruction sets the vector code is compiled for, and which of them runs. To be included before
// Highway.
#pragma once

// Between plain code and AVX2 there is nothing that a machine of the last ten years needs; vectors of unknown
// size (SVE, RVV) cannot be kept in arrays.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

namespace saccade::kernels {

// Obeys the environment variable SACCADE_TARGET, once; every file with a dispatch of its own calls it before.
// Throws Error for a name that this machine does not have.
void choose_target();

}  // namespace saccade::kernels
