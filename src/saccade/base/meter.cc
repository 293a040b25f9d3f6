// Linux keeps the peak of a process's memory in /proc and starts it afresh on demand.
#include "saccade/base/meter.h"

#include <cstdlib>
#include <fstream>
#include <string>

namespace saccade {
namespace {

int64_t bytes_in_status(std::string_view name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name)) return std::strtoll(line.c_str() + name.size(), nullptr, 10) * 1024;
  return 0;
}

}  // namespace

Meter::Meter() : start_(std::chrono::steady_clock::now()) { std::ofstream("/proc/self/clear_refs") << "5"; }

double Meter::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

int64_t Meter::peak_bytes() const { return bytes_in_status("VmHWM:"); }

int64_t Meter::held_bytes() { return bytes_in_status("VmRSS:"); }

}  // namespace saccade
