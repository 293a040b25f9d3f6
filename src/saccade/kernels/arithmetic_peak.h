// How fast this machine multiplies and adds when nothing is loaded or stored: the ceiling of every product,
// and what a benchmark measures all of them by. Two processors that are one core's two threads have one
// core's ceiling, which a number of cores does not tell.
#pragma once

namespace saccade::kernels {

// Floating-point operations a second of all OpenMP threads together, in single precision: the best of a few
// short rounds, so that a busy moment does not lower the ceiling.
double arithmetic_peak();

}  // namespace saccade::kernels
