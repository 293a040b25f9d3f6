// Whether this machine can really multiply in bfloat16.
#pragma once

namespace saccade {

// To be called before anything else is computed when products in bfloat16 will be. Some virtual machines
// announce tile instructions that they do not have, and the library behind LibTorch's products then ends the
// program; a child tries it, and if it dies the library is told to do without them (ONEDNN_MAX_CPU_ISA,
// unless somebody has set it).
void prepare_bfloat16();

}  // namespace saccade
