// The conformance suite: does an implementation of a formula behave as attention must? Each check is one
// property, run over the cases that fit it; a failure is shrunk to a small case and comes with what was
// expected. The suite judges any implementation, also one that is broken on purpose: it learns nothing from
// the formula but its plan.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "saccade/attention/attention.h"
#include "saccade/certify/case.h"

namespace saccade {

/// Makes the implementation under test.
using Maker = std::function<std::shared_ptr<AttentionImpl>(const Formula&, const AttentionOptions&)>;

/// The implementation that users get, or one of its paths.
Maker standard_maker(Path path = Path::automatic);

/// What a check works with: a formula and an implementation that claims to compute it.
struct Subject {
  Formula formula;
  Maker make = standard_maker();

  /// The implementation in double with parameters seeded by the case.
  std::shared_ptr<AttentionImpl> module(const Case& c, at::ScalarType dtype = at::kDouble) const;
  /// The definition, that is the reference path, with the same parameters.
  std::shared_ptr<AttentionImpl> honest(const AttentionImpl& like, at::ScalarType dtype = at::kDouble) const;
};

/// One property of the suite.
struct Check {
  std::string_view name;
  std::string_view promise;  ///< what holds when it passes, in one sentence
  /// Why the check says nothing about this formula; empty if it applies.
  std::string (*not_applicable)(const Formula& formula);
  /// Whether a case fits the check.
  bool (*fits)(const Case& c);
  /// What is wrong, in words; empty if the property holds.
  std::string (*run)(const Subject& subject, const Case& c);
  /// The table to run it over.
  std::span<const Case> (*cases)() = conformance_cases;
};

/// All checks, in the order in which they are shown.
std::span<const Check> checks();

/// How a check ended.
enum class Outcome { passed, failed, not_applicable };

/// What a check found.
struct CheckResult {
  std::string name, promise;
  Outcome outcome = Outcome::passed;
  std::string detail;           ///< what is wrong, or why it does not apply
  std::optional<Case> failing;  ///< the smallest failing case that was found
  int cases = 0;                ///< how many were run
};

/// Which checks to run, on what.
struct ConformanceOptions {
  std::vector<std::string> only;                      ///< names of checks; empty: all
  std::optional<Case> only_case;                      ///< run this case instead of the table
  std::function<void(const CheckResult&)> on_result;  ///< called as results come in
};

/// Throws Error, with a suggestion, for a name that no check has.
void require_known_checks(const std::vector<std::string>& wanted);

/// Runs the suite. Throws Error for an unknown check in `only`.
std::vector<CheckResult> run_conformance(const Subject& subject, const ConformanceOptions& options = {});

/// No check failed.
bool passed(const std::vector<CheckResult>& results);

}  // namespace saccade
