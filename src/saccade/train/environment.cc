#include "saccade/train/environment.h"

#include <ATen/Parallel.h>
#include <fmt/chrono.h>
#include <torch/version.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

#include "saccade/base/text.h"
#include "saccade/kernels/primitives.h"
#include "saccade/train/team.h"
#include "saccade/version.h"

namespace saccade {
namespace {

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return std::string(trim(line.substr(line.find(':') + 1)));
  return "unknown";
}

}  // namespace

Json environment(int processes) {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return {{"saccade", SACCADE_VERSION},
          {"torch", TORCH_VERSION},
          {"mpi", mpi_version()},
          {"host", host},
          {"processor", processor()},
          {"kernels", kernels::target_name()},
          {"threads", at::get_num_threads()},
          {"processes", processes},
          {"started", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(
                                                               std::chrono::system_clock::now())))}};
}

}  // namespace saccade
