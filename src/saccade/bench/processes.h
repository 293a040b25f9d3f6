// Running this program once more: some of torch's kernels settle into a fast or a slow state for the life of
// a process, and only a median over several processes tells the truth about them.
#pragma once

#include <string>
#include <vector>

namespace saccade::bench {

// The standard output of this program with other arguments, once it has ended. Its standard error is ours.
// Throws Error when it cannot be started or ends with anything but 0 or 1 (a missed mark).
std::string output_of_this_program(const std::vector<std::string>& arguments);

}  // namespace saccade::bench
