// Linux keeps the peak of a process's memory in /proc and starts it afresh on demand.
#include "saccade/base/meter.h"

#include <cstdlib>
#include <fstream>
#include <string>

namespace saccade {

Meter::Meter() : start_(std::chrono::steady_clock::now()) { std::ofstream("/proc/self/clear_refs") << "5"; }

double Meter::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

int64_t Meter::peak_bytes() const {
  constexpr std::string_view kName = "VmHWM:";
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(kName)) return std::strtoll(line.c_str() + kName.size(), nullptr, 10) * 1024;
  return 0;
}

}  // namespace saccade
