// Time and memory of a piece of work, as the process itself sees them.
#pragma once

#include <chrono>
#include <cstdint>

namespace saccade {

// Starts with its life. Where the system does not let a process forget its peak, the peak is that since the
// process began.
class Meter {
 public:
  Meter();

  double seconds() const;
  // The most memory that the process has held at once, with the model and everything else; 0: not known.
  int64_t peak_bytes() const;
  // What it holds now; 0: not known.
  static int64_t held_bytes();

 private:
  std::chrono::steady_clock::time_point start_;
};

}  // namespace saccade
