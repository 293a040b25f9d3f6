// The messages go through spdlog, which keeps lines of several threads apart. Its header is slow to compile
// and therefore only included here.
#include "saccade/base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <atomic>
#include <cstdlib>

#include "saccade/base/error.h"
#include "saccade/base/terminal.h"
#include "saccade/base/text.h"

namespace saccade::log {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"debug", "info", "warn", "error", "off"};

// A mistake in the environment is worth a warning, but must not keep the program from starting.
Level level_of_environment() {
  const char* name = std::getenv("SACCADE_LOG");
  if (name == nullptr || *name == '\0') return Level::info;
  try {
    return parse_level(name);
  } catch (const Error& error) {
    std::fputs(fmt::format("warning: SACCADE_LOG: {}\n", error.what()).c_str(), stderr);
    return Level::info;
  }
}

std::atomic<Level>& current_level() {
  static std::atomic<Level> level = level_of_environment();
  return level;
}

spdlog::logger& logger() {
  static spdlog::logger instance = [] {
    const auto colour = colour_allowed(Stream::err) ? spdlog::color_mode::always : spdlog::color_mode::never;
    spdlog::logger result("saccade", std::make_shared<spdlog::sinks::stderr_color_sink_mt>(colour));
    // On a terminal the line may hold a progress bar, which the message takes the place of.
    const std::string erase = is_terminal(Stream::err) ? "\r\x1b[K" : "";
    result.set_pattern(erase + "%^%l%$: %v");
    result.set_level(spdlog::level::trace);  // what is shown is decided before a message gets here
    result.flush_on(spdlog::level::trace);
    return result;
  }();
  return instance;
}

spdlog::level::level_enum translate(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warn:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
    case Level::off:
      break;
  }
  return spdlog::level::off;
}

}  // namespace

void set_level(Level level) { current_level() = level; }

Level level() { return current_level(); }

Level parse_level(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<Level>(i);
  }
  fail("'{}' is no level of messages ({}){}", name, join(kNames, ", "), did_you_mean(name, kNames));
}

void write(Level message_level, std::string_view message) {
  if (message_level >= level()) logger().log(translate(message_level), message);
}

}  // namespace saccade::log
