// Other programs: started without a shell, waited for, their output read.
#pragma once

#include <string>
#include <vector>

namespace saccade {

struct ProcessResult {
  int exit_code = 0;   // 128 + the signal's number when one ended it
  std::string output;  // standard output, if it was captured
};

/// Runs `program` (a path, or a name that PATH knows) with these arguments and waits for its end. Its
/// standard error is ours. Throws an Error when it cannot be started.
ProcessResult run_process(const std::string& program, const std::vector<std::string>& arguments,
                          bool capture = true);

}  // namespace saccade
