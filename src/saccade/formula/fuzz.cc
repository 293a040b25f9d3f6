// Feeds the formula parser texts that nobody would write: random formulas, shipped mechanisms, and both of
// them spoilt. A text must either be refused with an Error or work all the way: print and parse back,
// compile, run, count tiles. Anything else (another exception, a crash, more than a few seconds) ends the
// program with the text on the screen.
#include <string>
#include <vector>

#include "saccade/base/fuzz_driver.h"
#include "saccade/formula/bounds.h"
#include "saccade/formula/mechanisms.h"
#include "saccade/formula/mutate_text.h"
#include "saccade/formula/naive_evaluation.h"
#include "saccade/formula/parser.h"
#include "saccade/formula/random_formula.h"

// The address sanitizer keeps every stack that ever allocated, and a recursive parser has no end of them: a
// long run needs short ones. NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" const char* __asan_default_options() { return "malloc_context_size=6:quarantine_size_mb=64"; }

namespace saccade {
namespace {

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
      if (allowed != 0 && allowed != 1) throw FuzzFailure{"the mask is neither 0 nor 1"};
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
          throw FuzzFailure{"its canonical text is another formula:\n" + printed};
      } catch (const Error& error) {
        throw FuzzFailure{fmt::format("its canonical text is wrong: {}", error.what())};
      }
    }
    const Plan& plan = formula.plan();
    const Program program = compile(plan, all_roots(plan));
    if (list(program, plan).find('\0') != std::string::npos) throw FuzzFailure{"its listing has a NUL"};
    run_program<float>(plan, program, random);
    run_program<double>(plan, program, random);
    if (count_tiles(plan, 256, 64).total() != 16) throw FuzzFailure{"its tiles are not 16"};
    return true;
  } catch (const FormulaError& error) {
    if (error.diagnostics().empty() || std::string_view(error.what()).empty())
      throw FuzzFailure{"it is refused without a reason"};
    return false;
  } catch (const FuzzFailure&) {
    throw;
  } catch (const std::exception& error) {
    throw FuzzFailure{
        fmt::format("an exception that is no FormulaError leaves the parser: {}", error.what())};
  }
}

}  // namespace
}  // namespace saccade

int main(int count, char** arguments) {
  return saccade::run_fuzzer(count, arguments,
                             {.program = "formula_fuzz",
                              .inputs = "texts",
                              .valid = "formulas",
                              .examine = [](saccade::RandomStream& random, std::string& shown) {
                                shown = saccade::random_text(random);
                                return saccade::examine(shown, random);
                              }});
}
