// A comparison: which mechanism learned best, how sure that is, and how the trainings went.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "saccade/base/text.h"
#include "saccade/report/curves.h"
#include "saccade/report/plots.h"
#include "saccade/report/run_curves.h"
#include "saccade/report/sections.h"

namespace saccade {

namespace fs = std::filesystem;

namespace {

std::vector<double> of_runs(const Field& variant, std::string_view member) {
  std::vector<double> values;
  for (const Field& run : variant.at("runs").items()) values.push_back(run.number_or(member, NAN));
  return values;
}

// A list that each run has, such as losses at several lengths: the values at one place in it.
std::vector<double> of_runs(const Field& variant, std::string_view member, size_t place) {
  std::vector<double> values;
  for (const Field& run : variant.at("runs").items()) {
    const std::optional<Field> list = run.find(member);
    const std::vector<double> numbers = list ? list->numbers() : std::vector<double>{};
    values.push_back(place < numbers.size() ? numbers[place] : NAN);
  }
  return values;
}

double mean_of(const std::vector<double>& values) { return mean_and_deviation(values).mean; }

std::string name_of(const Field& variant) {
  return variant.at("name").text() + (variant.flag_or("control", false) ? " (control)" : "");
}

void add_table(Fragment& body, const Field& file, const std::vector<Field>& variants) {
  const std::vector<double> lengths = file.at("lengths").numbers();
  const std::vector<Field> corruptions = file.at("corruptions").items();
  const auto any = [&](const char* member) {
    return std::ranges::any_of(
        variants, [&](const Field& each) { return std::isfinite(mean_of(of_runs(each, member))); });
  };
  const bool answers = any("answers"), bleu = any("bleu");
  std::vector<std::string> header{"attention", "parameters", "loss", "±", "difference", "p"};
  if (bleu) header.emplace_back("BLEU");
  if (answers) header.emplace_back("answers");
  for (size_t index = 1; index < lengths.size(); ++index)
    header.push_back(fmt::format("loss at {}×", lengths[index]));
  for (const Field& corruption : corruptions) header.push_back("+ " + corruption.text());
  header.insert(header.end(), {"tokens/s", "peak memory"});
  std::vector<PageRow> rows;
  const double base = variants.front().at("loss").at("mean").number();
  for (const Field& variant : variants) {
    const bool first = rows.empty();
    const double loss = variant.at("loss").at("mean").number();
    PageRow row{.cells = {name_of(variant), short_number(of_runs(variant, "parameters").front(), 10),
                          fixed(loss, 4),
                          of_runs(variant, "loss").size() < 2
                              ? "-"
                              : fixed(variant.at("loss").number_or("deviation", NAN), 4),
                          first || !std::isfinite(loss - base) ? "-" : fmt::format("{:+.4f}", loss - base),
                          first ? "-" : fixed(variant.number_or("p_value", NAN), 3)}};
    if (bleu) row.cells.push_back(fixed(mean_of(of_runs(variant, "bleu")), 2));
    if (answers) row.cells.push_back(percent(mean_of(of_runs(variant, "answers"))));
    for (size_t index = 1; index < lengths.size(); ++index)
      row.cells.push_back(fixed(mean_of(of_runs(variant, "length_losses", index)), 4));
    for (size_t index = 0; index < corruptions.size(); ++index)
      row.cells.push_back(fixed(mean_of(of_runs(variant, "damage", index)), 4));
    row.cells.push_back(fixed(mean_of(of_runs(variant, "tokens_per_second")), 0));
    row.cells.push_back(bytes_cell(mean_of(of_runs(variant, "peak_bytes"))));
    rows.push_back(std::move(row));
  }
  body.table(header, rows);
  body.note(
      "Loss is the mean of minus the natural logarithm of each held-out token's probability; ± is its "
      "standard "
      "deviation over the seeds, and p Student's paired test against the first row.");
}

void add_results(Fragment& body, const std::vector<Field>& variants) {
  BarChart chart{.title = "Validation loss",
                 .subtitle = "mean over the seeds, and one standard deviation",
                 .value_label = "loss per token (nats)"};
  BarSeries bars;
  for (const Field& variant : variants) {
    const double mean = variant.at("loss").at("mean").number(),
                 deviation = variant.at("loss").number_or("deviation", 0);
    chart.categories.push_back(name_of(variant));
    bars.values.push_back(mean);
    bars.low.push_back(mean - deviation);
    bars.high.push_back(mean + deviation);
  }
  chart.series.push_back(std::move(bars));
  body.add(plot_html(chart));
}

void add_lengths(Fragment& body, const Field& file, const std::vector<Field>& variants) {
  const std::vector<double> lengths = file.at("lengths").numbers();
  if (lengths.size() < 2) return;
  LineChart chart{.title = "Loss at other lengths",
                  .subtitle = "models were trained at 1×",
                  .x_label = "length, as a multiple of the training's",
                  .y_label = "validation loss",
                  .log_x = true,
                  .x_ticks = lengths};
  for (const Field& variant : variants) {
    Series series{.name = name_of(variant), .x = lengths, .markers = true};
    for (size_t index = 0; index < lengths.size(); ++index)
      series.y.push_back(mean_of(of_runs(variant, "length_losses", index)));
    chart.series.push_back(std::move(series));
  }
  if (has_values(chart)) body.add(plot_html(chart));
}

// The folder of a run within that of its comparison, as `compare` names it.
std::string run_folder(const std::string& variant, std::int64_t seed) {
  std::string name;
  for (const char c : variant)
    name += std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' ? c : '-';
  return fmt::format("{}-{}", name, seed);
}

std::vector<RunGroup> groups_of(const std::vector<Field>& variants, const fs::path& directory) {
  std::vector<RunGroup> groups;
  for (const Field& variant : variants) {
    RunGroup group{.name = name_of(variant)};
    for (const Field& run : variant.at("runs").items()) {
      const fs::path folder = directory / run_folder(variant.at("name").text(), run.at("seed").whole());
      std::error_code none;
      if (fs::exists(folder / "recipe.toml", none)) group.runs.push_back(read_run(folder));
    }
    if (!group.runs.empty()) groups.push_back(std::move(group));
  }
  return groups;
}

Highlight highlight_of(const std::vector<Field>& variants) {
  const auto loss = [](const Field& each) { return each.at("loss").at("mean").number(); };
  const Field* best = nullptr;
  for (const Field& variant : variants)
    if (std::isfinite(loss(variant)) && (best == nullptr || loss(variant) < loss(*best))) best = &variant;
  if (best == nullptr)
    return {.label = "lowest loss", .value = "-", .detail = "no training ended", .tone = Tone::bad};
  const double p = best->number_or("p_value", NAN), against = loss(*best) - loss(variants.front());
  std::string detail = best == &variants.front()
                           ? "none of the others is better"
                           : fmt::format("{:+.4f} against {}", against, name_of(variants.front()));
  if (std::isfinite(p)) detail += fmt::format(", p = {:.2g}{}", p, p > 0.05 ? ": may be chance" : "");
  return {.label = "lowest loss: " + name_of(*best), .value = fixed(loss(*best), 4), .detail = detail};
}

Section comparison_section(const Result& result) {
  const Field file = field_of(result);
  const std::vector<Field> variants = file.at("variants").items();
  Section section;
  section.title = fmt::format("Comparison: {}", file.text_or("recipe", "attention mechanisms"));
  section.from = result.given;
  if (variants.empty()) {
    section.notes.push_back("it compares nothing.");
    return section;
  }
  section.highlights.push_back(highlight_of(variants));
  add_results(section.body, variants);
  add_table(section.body, file, variants);
  const std::vector<RunGroup> groups = groups_of(variants, result.path.parent_path());
  for (const RunGroup& group : groups)
    for (const RunFiles& run : group.runs)
      section.notes.insert(section.notes.end(), run.notes.begin(), run.notes.end());
  add_run_curves(section.body, groups);
  add_lengths(section.body, file, variants);
  add_run_diagnoses(section.body, groups);
  return section;
}

}  // namespace

bool is_comparison(const Json& json) { return has_members(json, {"variants", "lengths", "corruptions"}); }

std::vector<Section> comparison_sections(std::span<const Result> results) {
  std::vector<Section> sections;
  for (const Result& result : results) sections.push_back(comparison_section(result));
  return sections;
}

}  // namespace saccade
