#include "saccade/report/run_curves.h"

#include <algorithm>
#include <map>

#include "saccade/base/error.h"
#include "saccade/base/file.h"
#include "saccade/base/text.h"
#include "saccade/report/curves.h"
#include "saccade/report/learned.h"
#include "saccade/report/plots.h"
#include "saccade/report/result_files.h"

namespace saccade {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMostBytesOfRun = size_t{64} << 20;
constexpr size_t kMostPoints = 800;  // of a curve: more than a screen has pixels for

std::vector<Json> lines_of(const fs::path& file, std::vector<std::string>& notes) {
  std::error_code none;
  if (!fs::exists(file, none)) return {};
  JsonLines found = read_json_lines(file);
  if (found.torn)
    notes.push_back(fmt::format(
        "{}: the last line is cut off and left out; the run was killed, or still writes.", file.string()));
  return std::move(found.lines);
}

std::optional<Json> json_if_there(const fs::path& file) {
  std::error_code none;
  if (!fs::exists(file, none)) return std::nullopt;
  return parse_json(read_file(file, kMostBytesOfRun), file.string());
}

std::string recipe_of(const fs::path& folder) { return read_file(folder / "recipe.toml", kMostBytesOfRun); }

// What two runs with different seeds have in common.
std::string without_seed(const std::string& recipe) {
  std::string result;
  for (const std::string_view line : split_lines(recipe))
    if (!line.starts_with("seed")) result += std::string(line) + "\n";
  return result;
}

struct Measure {
  const char *title, *subtitle, *pointer, *y_label;
  bool log_y = false;
};
constexpr Measure kMeasures[] = {
    {"Training loss", "of each batch, before its step", "/loss", "loss per token (nats)"},
    {"Validation loss", "on held-out data", "/validation/loss", "loss per token (nats)"},
    {"Gradient norm", "of all weights, before clipping", "/gradient_norm", "norm", true}};

LineChart chart_of(const Measure& measure, const std::vector<RunGroup>& groups) {
  LineChart chart{.title = measure.title,
                  .subtitle = measure.subtitle,
                  .x_label = "step",
                  .y_label = measure.y_label,
                  .log_y = measure.log_y};
  std::int64_t longest = 1;
  bool seeds = false;
  for (const RunGroup& group : groups) {
    std::vector<Curve> curves;
    for (const RunFiles& run : group.runs) {
      std::int64_t window = 1;
      curves.push_back(thinned(curve_of(run.metrics, measure.pointer), kMostPoints, window));
      longest = std::max(longest, window);
    }
    std::erase_if(curves, [](const Curve& curve) { return curve.empty(); });
    if (curves.empty()) continue;
    seeds |= curves.size() > 1;
    chart.series.push_back(mean_curve(group.name, curves));
  }
  if (seeds) chart.subtitle += "; the mean over seeds, and one standard deviation around it";
  if (longest > 1) chart.subtitle += fmt::format("; each point is the mean of {} steps", longest);
  return chart;
}

// A measure of each place in the model over the steps of a training.
LineChart ranks_over_steps(const RunFiles& run) {
  LineChart chart{.title = "Effective rank over the training",
                  .subtitle = "directions that the tokens take up after each block, centred",
                  .x_label = "step",
                  .y_label = "effective rank",
                  .ordered = true};
  const Json::json_pointer ranks("/ranks");
  if (run.diagnostics.empty() || !run.diagnostics.back().contains(ranks)) return chart;
  const Json& last = run.diagnostics.back().at(ranks);
  for (size_t place = 0; last.is_array() && place < last.size(); ++place) {
    const Curve curve = curve_of(run.diagnostics, fmt::format("/ranks/{}/centred_effective_rank", place));
    if (!curve.empty())
      chart.series.push_back(mean_curve(last[place].value("after", ""), std::span(&curve, 1)));
  }
  return chart;
}

}  // namespace

RunFiles read_run(const fs::path& folder) {
  RunFiles run{.folder = folder, .seed = recipe_value(recipe_of(folder), "seed")};
  run.metrics = lines_of(folder / "metrics.jsonl", run.notes);
  run.diagnostics = lines_of(folder / "diagnostics.jsonl", run.notes);
  run.result = json_if_there(folder / "result.json");
  run.environment = json_if_there(folder / "environment.json");
  if (run.metrics.empty())
    run.notes.push_back(fmt::format("{}: there is no step yet in metrics.jsonl.", folder.string()));
  return run;
}

std::vector<RunGroup> group_runs(const std::vector<fs::path>& folders) {
  std::vector<RunGroup> groups;
  std::vector<std::string> recipes;  // of each group
  for (const fs::path& folder : folders) {
    const std::string recipe = without_seed(recipe_of(folder));
    const auto place = static_cast<size_t>(std::ranges::find(recipes, recipe) - recipes.begin());
    if (place == recipes.size()) {
      recipes.push_back(recipe);
      groups.emplace_back();
    }
    groups[place].runs.push_back(read_run(folder));
  }
  // The shortest name that tells them apart.
  const auto set_names = [&](auto name_of) {
    std::map<std::string, int> used;
    for (size_t index = 0; index < groups.size(); ++index) ++used[groups[index].name = name_of(index)];
    return std::ranges::all_of(used, [](const auto& each) { return each.second == 1; });
  };
  const auto attention = [&](size_t index) { return recipe_value(recipes[index], "attention"); };
  if (set_names(attention)) return groups;
  if (set_names([&](size_t index) { return recipe_value(recipes[index], "name") + ", " + attention(index); }))
    return groups;
  set_names([&](size_t index) { return groups[index].runs.front().folder.lexically_normal().string(); });
  return groups;
}

void add_run_curves(Fragment& body, const std::vector<RunGroup>& groups) {
  for (const Measure& measure : kMeasures) {
    const LineChart chart = chart_of(measure, groups);
    if (has_values(chart)) body.add(plot_html(chart));
  }
}

void add_run_diagnoses(Fragment& body, const std::vector<RunGroup>& groups) {
  std::vector<NamedDiagnosis> last;
  Choices<LineChart> ranks;
  for (const RunGroup& group : groups) {
    const auto run =
        std::ranges::find_if(group.runs, [](const RunFiles& each) { return !each.diagnostics.empty(); });
    if (run == group.runs.end()) continue;
    last.push_back(
        {group.name, Field(run->diagnostics.back(), (run->folder / "diagnostics.jsonl").string())});
    LineChart chart = ranks_over_steps(*run);
    if (chart.series.size() > 1 && chart.series.front().x.size() > 1)
      ranks.emplace_back(group.name, std::move(chart));
  }
  if (last.empty()) return;
  body.subheading("Inside, at the last look");
  add_ranks(body, last);
  if (!ranks.empty()) body.add(plot_html("model", ranks));
  add_gradients(body, last);
  add_heads(body, last);
  add_learned(body, last);
}

}  // namespace saccade
