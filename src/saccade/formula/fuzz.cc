// Feeds the formula parser texts that nobody would write: random formulas, shipped mechanisms, and both of
// them spoilt. A text must either be refused with an Error or work all the way: print and parse back,
// compile, run, count tiles. Anything else (another exception, a crash, more than a few seconds) ends the
// program with the text on the screen.
#include <fmt/format.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "saccade/formula/bounds.h"
#include "saccade/formula/mechanisms.h"
#include "saccade/formula/mutate_text.h"
#include "saccade/formula/naive_evaluation.h"
#include "saccade/formula/parser.h"
#include "saccade/formula/random_formula.h"

// Names that the sanitizers chose. NOLINTBEGIN(bugprone-reserved-identifier)

// Called when a sanitizer is about to end the program; absent without one.
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

// The address sanitizer keeps every stack that ever allocated, and a recursive parser has no end of them: a
// long run needs short ones.
extern "C" const char* __asan_default_options() { return "malloc_context_size=6:quarantine_size_mb=64"; }

// NOLINTEND(bugprone-reserved-identifier)

namespace saccade {
namespace {

struct Options {
  uint64_t iterations = 100'000;
  uint64_t seed = 1;
  uint64_t first = 0;    // number of the first text: repeats one that failed
  uint64_t seconds = 2;  // of processor time that one text may take
};

// What is being examined, for those who print it when everything else has gone wrong.
struct {
  std::string text;
  uint64_t number = 0, seed = 0;
} current;

// Only write() may be called from a signal handler.
void write_text(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

void write_number(uint64_t number) {
  char digits[24];
  write_text({digits, std::to_chars(digits, digits + sizeof digits, number).ptr});
}

void show_current(std::string_view problem) {
  write_text("\nformula_fuzz: ");
  write_text(problem);
  write_text("; repeat with --seed ");
  write_number(current.seed);
  write_text(" --first ");
  write_number(current.number);
  write_text(" --iterations 1; the text is\n-----\n");
  write_text(current.text);
  write_text("\n-----\n");
}

void on_signal(int signal) {
  show_current(signal == SIGVTALRM ? "one text takes too long" : strsignal(signal));
  _exit(1);
}

void install_handlers() {
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
void start_watchdog(uint64_t seconds) {
  const itimerval limit{.it_interval = {},
                        .it_value = {.tv_sec = static_cast<time_t>(seconds), .tv_usec = 0}};
  setitimer(ITIMER_VIRTUAL, &limit, nullptr);
}

struct Failure {
  std::string what;
};

std::vector<std::string> shipped_texts() {
  std::vector<std::string> result;
  for (const EmbeddedMechanism& mechanism : embedded_mechanisms()) result.emplace_back(mechanism.text);
  return result;
}

std::string fresh_text(RandomStream& random) {
  static const std::vector<std::string> shipped = shipped_texts();
  if (!shipped.empty() && random.below(3) == 0) return shipped[random.below(shipped.size())];
  const RandomFormula::Options options{.depth = 1 + static_cast<int>(random.below(4)),
                                       .positions_input = random.below(6) == 0};
  return print(RandomFormula(random, options).formula());
}

std::string random_text(RandomStream& random) {
  std::string text = fresh_text(random);
  if (random.below(4) == 0) return text;
  const std::string other = fresh_text(random);
  TextMutator mutator(random);
  const uint64_t times = 1 + (random.below(2) ? 0 : random.below(8));
  for (uint64_t count = 0; count < times; ++count) mutator.mutate(text, other);
  return text;
}

Overrides random_overrides(RandomStream& random) {
  Overrides result;
  if (random.below(8) == 0) result["n"] = static_cast<double>(1 + random.below(300));
  if (random.below(8) == 0) result["w"] = static_cast<double>(random.below(20)) / 2;
  return result;
}

std::vector<NodeId> all_roots(const Plan& plan) {
  std::vector<NodeId> roots{plan.mask};
  if (plan.scale != kNoNode) roots.push_back(plan.scale);
  for (const NormInfo& norm : plan.norms) {
    roots.push_back(norm.argument);
    if (norm.sink != kNoNode) roots.push_back(norm.sink);
  }
  for (const TermInfo& term : plan.terms) roots.push_back(term.coefficient);
  for (const DerivativeInfo& derivative : plan.derivatives) roots.push_back(derivative.value);
  return roots;
}

template <class Real>
void run_program(const Plan& plan, const Program& program, RandomStream& random) {
  const MapShape shape{.queries = 1 + static_cast<int64_t>(random.below(3)),
                       .keys = static_cast<int64_t>(random.below(6)),
                       .offset = static_cast<int64_t>(random.below(3)),
                       .first_key = static_cast<int64_t>(random.below(2))};
  const RandomTables<Real> tables(plan, shape, random);
  Evaluator<Real> evaluator(program);
  evaluator.prepare(shape, 1, 2, tables.views());
  const auto width = static_cast<size_t>(shape.keys);
  const std::vector<Real> dots(width, Real(0.5));
  const std::vector<const Real*> streams(plan.streams.size(), dots.data());
  std::vector<std::vector<Real>> results(program.outputs.size(), std::vector<Real>(width));
  std::vector<Real*> outputs;
  for (auto& result : results) outputs.push_back(result.data());
  for (int64_t row = 0; row < shape.queries; ++row) {
    evaluator.run(row, 0, shape.keys, streams, outputs);
    for (Real allowed : results[0])
      if (allowed != 0 && allowed != 1) throw Failure{"the mask is neither 0 nor 1"};
  }
}

// Returns whether the text is a formula.
bool examine(const std::string& text, RandomStream& random) {
  const ParseOptions options{.name = "fuzz", .set = random_overrides(random)};
  try {
    const Formula formula = Formula::parse(text, options);
    const std::string printed = formula.print();
    if (printed.size() <= Limits::text_bytes) {
      try {
        const Formula again = Formula::parse(printed, options);
        if (!(again == formula) || again.print() != printed)
          throw Failure{"its canonical text is another formula:\n" + printed};
      } catch (const Error& error) {
        throw Failure{fmt::format("its canonical text is wrong: {}", error.what())};
      }
    }
    const Plan& plan = formula.plan();
    const Program program = compile(plan, all_roots(plan));
    if (list(program, plan).find('\0') != std::string::npos) throw Failure{"its listing has a NUL"};
    run_program<float>(plan, program, random);
    run_program<double>(plan, program, random);
    if (count_tiles(plan, 256, 64).total() != 16) throw Failure{"its tiles are not 16"};
    return true;
  } catch (const FormulaError& error) {
    if (error.diagnostics().empty() || std::string_view(error.what()).empty())
      throw Failure{"it is refused without a reason"};
    return false;
  } catch (const Failure&) {
    throw;
  } catch (const std::exception& error) {
    throw Failure{fmt::format("an exception that is no FormulaError leaves the parser: {}", error.what())};
  }
}

int fuzz(const Options& options) {
  install_handlers();
  current.seed = options.seed;
  const auto begin = std::chrono::steady_clock::now();
  uint64_t formulas = 0;
  for (uint64_t number = options.first; number < options.first + options.iterations; ++number) {
    RandomStream random = RandomStream(options.seed, "fuzz").split(std::to_string(number));
    current.number = number;
    current.text = random_text(random);
    start_watchdog(options.seconds);
    try {
      formulas += examine(current.text, random);
    } catch (const Failure& failure) {
      show_current(failure.what);
      return 1;
    }
  }
  start_watchdog(0);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  fmt::print("formula_fuzz: {} texts with seed {}, of which {} are formulas, in {:.1f} s: no problem found\n",
             options.iterations, options.seed, formulas, taken.count());
  return 0;
}

int usage() {
  fmt::print(stderr, "usage: formula_fuzz [--iterations N] [--seed S] [--first K] [--seconds T]\n");
  return 2;
}

}  // namespace
}  // namespace saccade

int main(int count, char** arguments) {
  saccade::Options options;
  for (int index = 1; index < count; index += 2) {
    const std::string_view flag = arguments[index];
    uint64_t* value = flag == "--iterations" ? &options.iterations
                      : flag == "--seed"     ? &options.seed
                      : flag == "--first"    ? &options.first
                      : flag == "--seconds"  ? &options.seconds
                                             : nullptr;
    if (!value || index + 1 == count) return saccade::usage();
    const std::string_view text = arguments[index + 1];
    const auto result = std::from_chars(text.data(), text.data() + text.size(), *value);
    if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return saccade::usage();
  }
  return saccade::fuzz(options);
}
