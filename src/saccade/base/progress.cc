// Draws the progress bar by returning to the line's start and writing over it.
#include "saccade/base/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "saccade/base/terminal.h"
#include "saccade/base/text.h"

namespace saccade {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(100);
constexpr int kBarWidth = 24;

// The beginning of `text` that fits into `width` columns; a character of several bytes stays whole.
std::string fit(std::string_view text, int width) {
  std::size_t end = text.size();
  while (end > 0 && display_width(text.substr(0, end)) > width) {
    do --end;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80);
  }
  return std::string(text.substr(0, end));
}

std::string bar(double part) {
  const int filled = static_cast<int>(std::lround(part * kBarWidth));
  std::string result;
  for (int i = 0; i < kBarWidth; ++i) result += i < filled ? "━" : "─";
  return result;
}

// "3.1/s", or "2.4/min" for what takes seconds.
std::string rate(double each_second) {
  const auto digits = [](double value) {
    return value < 10 ? fmt::format("{:.1f}", value) : fmt::format("{:.0f}", value);
  };
  return each_second >= 1 ? digits(each_second) + "/s" : digits(each_second * 60) + "/min";
}

}  // namespace

std::string clock_time(double seconds) {
  constexpr double kLongest = 1000 * 3600;
  if (!(seconds >= 0) || seconds >= kLongest) return "--:--";
  const std::int64_t whole = std::llround(seconds);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string progress_line(std::string_view label, std::int64_t done, std::int64_t total, double seconds,
                          std::string_view note, int width) {
  std::string line;
  if (total > 0) {
    const std::int64_t bounded = std::clamp<std::int64_t>(done, 0, total);
    const double part = static_cast<double>(bounded) / static_cast<double>(total);
    line = fmt::format("{} {} {}/{} {:.0f}%", label, bar(part), bounded, total, std::floor(100 * part));
    if (bounded > 0 && bounded < total && seconds > 0)
      line += fmt::format(", {}, {} left", rate(static_cast<double>(bounded) / seconds),
                          clock_time(seconds * (1 / part - 1)));
  } else {
    line = fmt::format("{} {}, {}", label, done, clock_time(seconds));
  }
  if (!note.empty()) line += fmt::format(", {}", note);
  // The last column stays free: some terminals start a new line when it is written.
  return fit(line, width - 1);
}

Progress::Progress(std::int64_t total, std::string_view label) noexcept
    : total_(total), active_(is_terminal(Stream::err)) {
  try {
    label_ = label;
  } catch (...) {
    active_ = false;
  }
}

Progress::~Progress() { finish(); }

void Progress::update(std::int64_t done, std::string_view note) noexcept {
  if (!active_) return;
  const auto now = Clock::now();
  if (drawn_ && now - last_draw_ < kInterval) return;
  try {
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const auto line = progress_line(label_, done, total_, seconds, note, terminal_width(Stream::err));
    std::fputs(("\r" + line + "\x1b[K").c_str(), stderr);
    std::fflush(stderr);
    last_draw_ = now;
    drawn_ = true;
  } catch (...) {
    active_ = false;  // without memory for one line there is no use in trying the next
  }
}

void Progress::finish() noexcept {
  if (active_ && drawn_) {
    std::fputs("\r\x1b[K", stderr);
    std::fflush(stderr);
  }
  active_ = false;
}

}  // namespace saccade
