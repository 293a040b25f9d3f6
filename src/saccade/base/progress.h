// One line on standard error that shows how far a long piece of work has come. It exists only for a person at
// a terminal: elsewhere nothing is written.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace saccade {

/// The line of a progress bar for a given state, cut to `width` columns: label, bar, count, rate, time left,
/// note. The bar, the rate and the time left are missing when `total` is not known (0 or less).
std::string progress_line(std::string_view label, std::int64_t done, std::int64_t total, double seconds,
                          std::string_view note, int width);

/// "0:07", "12:05", "3:20:09": a length of time as a clock shows it.
std::string clock_time(double seconds);

/// A progress bar. Its functions never throw, and the bar is gone after finish() or at the end of its life,
/// so that only messages and results stay on the screen.
class Progress {
 public:
  /// `total` is the amount of work, in the units that update() counts; 0 if it is not known.
  Progress(std::int64_t total, std::string_view label) noexcept;
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Work so far, and a short note such as "loss 2.31". Drawn at most ten times per second, so that it may be
  /// called after every step.
  void update(std::int64_t done, std::string_view note = {}) noexcept;

  /// Removes the bar. Further updates draw nothing.
  void finish() noexcept;

 private:
  using Clock = std::chrono::steady_clock;

  std::int64_t total_;
  std::string label_;
  bool active_;  // false without a terminal and after finish()
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_draw_{};
};

}  // namespace saccade
