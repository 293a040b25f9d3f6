// Sets each scene once and lets all contestants run on it.
#include "saccade/bench/comparison.h"

#include <ATen/ops/mm.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include "saccade/attention/skip_count.h"
#include "saccade/base/error.h"
#include "saccade/bench/rivals.h"
#include "saccade/kernels/arithmetic_peak.h"

namespace saccade::bench {
namespace {

// The names in the order in which they run; ours is the first.
std::vector<std::string> contestants_for(const ComparisonOptions& options, const Scene& scene) {
  std::vector<std::string> names{"saccade"};
  if (!options.rivals.empty()) {
    for (const std::string& name : options.rivals)
      if (name != "saccade") names.push_back(name);
    return names;
  }
  const Form form = form_of(scene.formula.plan());
  for (const Rival& rival : rivals())
    if (rival.fits(scene, form) && !(rival.name == "sdpa-mask" && form.causal))
      names.emplace_back(rival.name);
  if (std::ranges::find(names, "sdpa") == names.end()) names.emplace_back("plain sdpa");
  return names;
}

std::vector<ComparisonRow> measure_scene(const ComparisonOptions& options, const Setup& setup) {
  const std::shared_ptr<Scene> scene = make_scene(setup);
  const std::vector<std::string> names = contestants_for(options, *scene);
  std::vector<ComparisonRow> rows;
  std::vector<Contestant> contestants;
  for (const std::string& name : names) {
    ComparisonRow row{.formula = setup.formula.name,
                      .task = setup.task,
                      .length = setup.shape.keys,
                      .contestant = name,
                      .error = -1};
    if (name == "saccade") row.path = name_of(scene->attention->path().path);
    try {
      Contestant contestant = name == "plain sdpa" ? yardstick(scene) : make_contestant(name, scene);
      if (!contestants.empty() && name != "plain sdpa") contestant.equal_to = 0;
      contestants.push_back(std::move(contestant));
    } catch (const Error& error) {
      if (name == "saccade") throw;
      row.failure = error.what();
    }
    rows.push_back(std::move(row));
  }
  const double operations = useful_operations(*scene);
  if (!rows.empty() && rows[0].contestant == "saccade") {
    const SkipCount count;
    contestants[0].run();
    rows[0].skipped = count.report();
  }
  const std::vector<Measurement> measurements = measure(contestants, options.rounds);
  size_t next = 0;
  for (ComparisonRow& row : rows) {
    if (!row.failure.empty()) continue;
    const Measurement& measurement = measurements[next++];
    row.failure = measurement.failure;
    if (!row.failure.empty()) continue;
    row.seconds = summarise(measurement.seconds);
    row.ratio = summarise(ratios(measurement, measurements[0]));
    row.useful_gigaflops = operations / row.seconds.median * 1e-9;
    row.bytes = measurement.bytes;
    row.error = measurement.error;
  }
  return rows;
}

}  // namespace

std::vector<ComparisonRow> compare(const ComparisonOptions& options,
                                   const std::function<void(int64_t, int64_t)>& progress) {
  for (const std::string& name : options.rivals)
    if (name != "saccade" && name != "plain sdpa") find_rival(name);
  std::vector<ComparisonRow> rows;
  const auto total =
      static_cast<int64_t>(options.formulas.size() * options.lengths.size() * options.tasks.size());
  int64_t done = 0;
  for (const FormulaSource& formula : options.formulas) {
    const bool decodes = load(formula).plan().decoding.possible;
    for (const int64_t length : options.lengths)
      for (const Task task : options.tasks) {
        Case shape = self_attention(length, options.heads, options.width, options.kv_heads);
        shape.batch = options.batch;
        const Setup setup{.formula = formula,
                          .task = task,
                          .shape = shape,
                          .dtype = options.dtype,
                          .path = options.path,
                          .epsilon = options.epsilon};
        require(task != Task::decoding || decodes, "bench: the formula '{}' cannot decode", formula.name);
        for (ComparisonRow& row : measure_scene(options, setup)) rows.push_back(std::move(row));
        if (progress) progress(++done, total);
      }
  }
  return rows;
}

std::vector<GrowthRow> growth(const std::vector<ComparisonRow>& rows) {
  std::vector<GrowthRow> result;
  for (const ComparisonRow& first : rows) {
    const auto same = [&](const auto& row) {
      return row.formula == first.formula && row.task == first.task && row.contestant == first.contestant;
    };
    if (std::ranges::any_of(result, same)) continue;
    std::vector<double> lengths, seconds, bytes;
    for (const ComparisonRow& row : rows)
      if (same(row) && row.failure.empty()) {
        lengths.push_back(static_cast<double>(row.length));
        seconds.push_back(row.seconds.median);
        bytes.push_back(static_cast<double>(row.bytes));
      }
    if (lengths.size() < 2) continue;
    result.push_back({first.formula, first.task, first.contestant, growth_exponent(lengths, seconds),
                      growth_exponent(lengths, bytes)});
  }
  return result;
}

Peak measure_peak() {
  constexpr int64_t kSide = 2048;
  torch::NoGradGuard no_gradient;
  const at::Tensor a = torch::randn({kSide, kSide}), b = torch::randn({kSide, kSide});
  at::Tensor product = torch::empty_like(a);
  const Contestant contestant{.name = "sgemm", .run = [&]() -> Results {
                                at::mm_out(product, a, b);
                                return {};
                              }};
  const std::clock_t cpu = std::clock();  // of all threads
  const auto begin = std::chrono::steady_clock::now();
  const auto measured = measure({contestant}, {.repeats = 5, .count_memory = false, .compare_values = false});
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  const double busy = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
  return {2.0 * kSide * kSide * kSide / median(measured[0].seconds) * 1e-9, busy / wall.count(),
          kernels::arithmetic_peak() * 1e-9};
}

}  // namespace saccade::bench
