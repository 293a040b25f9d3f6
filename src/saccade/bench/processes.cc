// The program finds itself through the system.
#include "saccade/bench/processes.h"

#include "saccade/base/error.h"
#include "saccade/base/process.h"

namespace saccade::bench {

std::string output_of_this_program(const std::vector<std::string>& arguments) {
  const ProcessResult result = run_process("/proc/self/exe", arguments);
  require(result.exit_code <= 1, "bench: another process of this program ended with exit code {}",
          result.exit_code);
  return result.output;
}

}  // namespace saccade::bench
