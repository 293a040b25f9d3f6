// What every fuzzer of the project does: numbered inputs from a seed, a limit on the processor time of each,
// and a report that repeats the one at fault, also when a signal or a sanitizer ends the program. A fuzzer
// itself only makes an input and examines it. To be included by a fuzz.cc alone.
#pragma once

#include <fmt/format.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>

#include "saccade/base/random.h"

// Called when a sanitizer is about to end the program; absent without one. The sanitizers chose the name.
// NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

namespace saccade {

/// Thrown by whoever examines an input and finds a mistake.
struct FuzzFailure {
  std::string what;
};

struct Fuzzer {
  std::string_view program;  // "formula_fuzz"
  std::string_view inputs;   // what they are called: "texts"
  std::string_view valid;    // and the good ones: "formulas"
  uint64_t iterations = 100'000;
  uint64_t seconds = 2;  // of processor time for one input
  /// Makes an input, and shows it by leaving it in `shown` (which may stay empty) before anything can go
  /// wrong; then examines it. Whether it was valid. Throws FuzzFailure; any other exception is a mistake too.
  std::function<bool(RandomStream& random, std::string& shown)> examine;
};

namespace fuzzing {

// What is being examined, for those who print it when everything else has gone wrong.
struct Current {
  std::string_view program;
  std::string shown;
  uint64_t number = 0, seed = 0;
};
inline Current current;

// Only write() may be called from a signal handler.
inline void write_text(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

inline void write_number(uint64_t number) {
  char digits[24];
  write_text({digits, std::to_chars(digits, digits + sizeof digits, number).ptr});
}

inline void show_current(std::string_view problem) {
  write_text("\n");
  write_text(current.program);
  write_text(": ");
  write_text(problem);
  write_text("; repeat with --seed ");
  write_number(current.seed);
  write_text(" --first ");
  write_number(current.number);
  write_text(" --iterations 1\n");
  if (current.shown.empty()) return;
  write_text("-----\n");
  write_text(current.shown);
  write_text("\n-----\n");
}

inline void on_signal(int signal) {
  show_current(signal == SIGVTALRM ? "it takes too long" : strsignal(signal));
  _exit(1);
}

inline void install_handlers() {
  static char stack[64 * 1024];  // a stack overflow leaves no room on its own stack
  stack_t alternative{};
  alternative.ss_sp = stack;
  alternative.ss_size = sizeof stack;
  sigaltstack(&alternative, nullptr);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGVTALRM, &action, nullptr);
  if (__sanitizer_set_death_callback) {
    __sanitizer_set_death_callback([] { show_current("a sanitizer found an error"); });
    return;  // it has handlers of its own, which say more
  }
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigaction(signal, &action, nullptr);
}

// Processor time rather than time on the clock: a busy machine is no hang.
inline void start_watchdog(uint64_t seconds) {
  const itimerval limit{.it_interval = {},
                        .it_value = {.tv_sec = static_cast<time_t>(seconds), .tv_usec = 0}};
  setitimer(ITIMER_VIRTUAL, &limit, nullptr);
}

inline bool read_options(int count, char** arguments, Fuzzer& fuzzer, uint64_t& seed, uint64_t& first) {
  for (int index = 1; index < count; index += 2) {
    const std::string_view flag = arguments[index];
    uint64_t* value = flag == "--iterations" ? &fuzzer.iterations
                      : flag == "--seed"     ? &seed
                      : flag == "--first"    ? &first
                      : flag == "--seconds"  ? &fuzzer.seconds
                                             : nullptr;
    if (!value || index + 1 == count) return false;
    const std::string_view text = arguments[index + 1];
    const auto result = std::from_chars(text.data(), text.data() + text.size(), *value);
    if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return false;
  }
  return true;
}

}  // namespace fuzzing

/// The main program of a fuzzer.
inline int run_fuzzer(int count, char** arguments, Fuzzer fuzzer) {
  using namespace fuzzing;
  uint64_t seed = 1, first = 0, valid = 0;
  if (!read_options(count, arguments, fuzzer, seed, first)) {
    fmt::print(stderr, "usage: {} [--iterations N] [--seed S] [--first K] [--seconds T]\n", fuzzer.program);
    return 2;
  }
  install_handlers();
  current.program = fuzzer.program;
  current.seed = seed;
  const auto begin = std::chrono::steady_clock::now();
  for (uint64_t number = first; number < first + fuzzer.iterations; ++number) {
    RandomStream random = RandomStream(seed, "fuzz").split(std::to_string(number));
    current.number = number;
    current.shown.clear();
    start_watchdog(fuzzer.seconds);
    try {
      valid += fuzzer.examine(random, current.shown) ? 1 : 0;
    } catch (const FuzzFailure& failure) {
      show_current(failure.what);
      return 1;
    } catch (const std::exception& error) {
      show_current(fmt::format("an exception that nobody expects: {}", error.what()));
      return 1;
    }
  }
  start_watchdog(0);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  fmt::print("{}: {} {} with seed {}, of which {} are {}, in {:.1f} s: no problem found\n", fuzzer.program,
             fuzzer.iterations, fuzzer.inputs, seed, valid, fuzzer.valid, taken.count());
  return 0;
}

}  // namespace saccade
