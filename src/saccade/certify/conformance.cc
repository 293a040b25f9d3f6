// Runs checks over cases and shrinks failures.
#include "saccade/certify/conformance.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "saccade/base/error.h"
#include "saccade/base/text.h"
#include "saccade/certify/problem.h"

namespace saccade {
namespace {

// A check that throws has failed, with the exception's words: an implementation may not refuse a problem that
// fits the formula.
std::string run_guarded(const Check& check, const Subject& subject, const Case& c) {
  try {
    return check.run(subject, c);
  } catch (const std::exception& error) {
    std::string what = error.what();
    return "it throws: " + what.substr(0, what.find('\n'));
  }
}

// Smaller values to try for a field, best first: leaps, or the one step that is left when no leap works.
std::vector<int64_t> smaller(int64_t value, bool leaps) {
  std::vector<int64_t> result;
  const std::vector<int64_t> candidates =
      leaps ? std::vector<int64_t>{0, 1, 2, value / 2, value - value / 8} : std::vector<int64_t>{value - 1};
  for (int64_t candidate : candidates)
    if (candidate >= 0 && candidate < value && std::ranges::find(result, candidate) == result.end())
      result.push_back(candidate);
  return result;
}

bool valid(const Case& c) {
  return c.batch > 0 && c.heads > 0 && c.kv_heads > 0 && c.heads % c.kv_heads == 0 && c.queries > 0 &&
         c.keys > 0 && c.head_dim > 0 && c.value_dim > 0 && c.seed > 0 && (!c.rotary || c.head_dim % 2 == 0);
}

// Every case that differs from `c` by one change towards something simpler, great changes first. Lengths also
// shrink together, because most checks want them to fit each other.
std::vector<Case> simpler_cases(const Case& c) {
  std::vector<Case> result;
  const auto propose = [&](const Case& candidate) {
    if (valid(candidate) && candidate != c) result.push_back(candidate);
  };
  for (const bool leaps : {true, false}) {
    for (int64_t length : smaller(c.queries, leaps)) {
      Case candidate = c;
      candidate.keys -= c.queries - length;
      candidate.queries = length;
      propose(candidate);
    }
    for (int64_t heads : smaller(c.heads, leaps)) {
      Case candidate = c;
      candidate.heads = heads;
      candidate.kv_heads = std::min(c.kv_heads, heads);
      propose(candidate);
    }
    Case copy = c;
    Case::visit(copy, [&](std::string_view, int64_t& value) {
      const int64_t original = value;
      for (int64_t candidate : smaller(original, leaps)) {
        value = candidate;
        propose(copy);
      }
      value = original;
    });
  }
  return result;
}

// Goes on with the first simpler case that still fails, until none does.
Case shrink(const Check& check, const Subject& subject, Case failing, std::string& detail) {
  for (int budget = 200; budget > 0;) {
    bool progress = false;
    for (const Case& candidate : simpler_cases(failing)) {
      if (!check.fits(candidate)) continue;
      if (--budget <= 0) break;
      const std::string found = run_guarded(check, subject, candidate);
      if (found.empty()) continue;
      failing = candidate;
      detail = found;
      progress = true;
      break;
    }
    if (!progress) break;
  }
  return failing;
}

// Problems are tiny: more threads would spend their time waiting for each other. What depends on threads is a
// check of its own.
class OneThread {
 public:
  OneThread() : before_(at::get_num_threads()) { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(before_); }

 private:
  int before_;
};

CheckResult run_check(const Check& check, const Subject& subject, const ConformanceOptions& options) {
  CheckResult result{.name = std::string(check.name), .promise = std::string(check.promise)};
  result.detail = check.not_applicable(subject.formula);
  if (!result.detail.empty()) {
    result.outcome = Outcome::not_applicable;
    return result;
  }
  std::vector<Case> cases(check.cases().begin(), check.cases().end());
  if (options.only_case) cases = {*options.only_case};
  for (const Case& c : cases) {
    if (!check.fits(c)) continue;
    ++result.cases;
    result.detail = run_guarded(check, subject, c);
    if (result.detail.empty()) continue;
    result.outcome = Outcome::failed;
    result.failing = options.only_case ? c : shrink(check, subject, c, result.detail);
    return result;
  }
  if (result.cases == 0) {
    result.outcome = Outcome::not_applicable;
    result.detail = "the case does not fit this check";
  }
  return result;
}

}  // namespace

Maker standard_maker(Path path) {
  return [path](const Formula& formula, AttentionOptions options) {
    options.path = path;
    return std::make_shared<AttentionImpl>(formula, options);
  };
}

std::shared_ptr<AttentionImpl> Subject::module(const Case& c, at::ScalarType dtype) const {
  auto module = make(formula, options_of(c));
  module->to(dtype == at::kDouble ? torch::kDouble : torch::kFloat);
  randomise_parameters(*module, c.seed);
  return module;
}

std::shared_ptr<AttentionImpl> Subject::honest(const AttentionImpl& like, at::ScalarType dtype) const {
  AttentionOptions options = like.options();
  options.path = Path::reference;
  auto module = std::make_shared<AttentionImpl>(like.formula(), options);
  module->to(dtype);
  torch::NoGradGuard no_gradient;
  const auto source = like.named_parameters();
  for (auto& entry : module->named_parameters()) entry.value().copy_(source[entry.key()]);
  return module;
}

void require_known_checks(const std::vector<std::string>& wanted) {
  std::vector<std::string_view> names;
  for (const Check& check : checks()) names.push_back(check.name);
  for (const std::string& name : wanted)
    require(std::ranges::find(names, name) != names.end(), "check: there is no check '{}'; {}", name,
            nearest(name, names) ? fmt::format("did you mean '{}'?", *nearest(name, names))
                                 : "they are " + join(names, ", "));
}

std::vector<CheckResult> run_conformance(const Subject& subject, const ConformanceOptions& options) {
  require_known_checks(options.only);
  const OneThread one_thread;
  std::vector<CheckResult> results;
  for (const Check& check : checks()) {
    if (!options.only.empty() && std::ranges::find(options.only, check.name) == options.only.end()) continue;
    results.push_back(run_check(check, subject, options));
    if (options.on_result) options.on_result(results.back());
  }
  return results;
}

bool passed(const std::vector<CheckResult>& results) {
  return std::ranges::none_of(results,
                              [](const CheckResult& result) { return result.outcome == Outcome::failed; });
}

}  // namespace saccade
