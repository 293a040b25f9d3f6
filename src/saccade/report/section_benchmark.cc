// Benchmarks: time and memory against the length beside the rivals, which are grey; and the table of targets.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "saccade/base/text.h"
#include "saccade/report/axis.h"
#include "saccade/report/plots.h"
#include "saccade/report/sections.h"

namespace saccade {
namespace {

constexpr std::string_view kOurs = "saccade";

// What is comparable: one formula doing one kind of work.
struct Scene {
  std::string formula, work;
  std::vector<Field> rows;

  std::string name() const { return formula + ", " + work; }
};

std::vector<Scene> scenes_of(const Field& file) {
  std::vector<Scene> scenes;
  for (const Field& row : file.at("rows").items()) {
    const std::string formula = row.at("formula").text(), work = row.at("work").text();
    auto scene = std::ranges::find_if(
        scenes, [&](const Scene& each) { return each.formula == formula && each.work == work; });
    if (scene == scenes.end()) scene = scenes.insert(scenes.end(), {formula, work, {}});
    scene->rows.push_back(row);
  }
  return scenes;
}

bool failed(const Field& row) { return row.find("failure").has_value(); }

LineChart chart_of(const Scene& scene, const char* member, Unit unit, const char* title, const char* label) {
  LineChart chart{
      .title = title,
      .subtitle = "lower is better; both axes are logarithmic, so a straight line is a power of n",
      .x_label = "tokens n",
      .y_label = label,
      .log_x = true,
      .log_y = true,
      .y_unit = unit};
  for (const Field& row : scene.rows) {
    if (failed(row)) continue;
    const std::string by = row.at("by").text();
    auto series = std::ranges::find(chart.series, by, &Series::name);
    if (series == chart.series.end())
      series = chart.series.insert(chart.series.end(), {.name = by, .markers = true, .muted = by != kOurs});
    const double n = row.at("n").number();
    series->x.push_back(n);
    series->y.push_back(row.number_or(member, NAN));
    if (std::string_view(member) == "seconds") {
      series->low.push_back(row.number_or("seconds_low", NAN));
      series->high.push_back(row.number_or("seconds_high", NAN));
    }
    if (std::ranges::find(chart.x_ticks, n) == chart.x_ticks.end()) chart.x_ticks.push_back(n);
  }
  std::ranges::sort(chart.x_ticks);
  return chart;
}

void add_charts(Fragment& body, const std::vector<Scene>& scenes) {
  Choices<LineChart> times, memories;
  for (const Scene& scene : scenes) {
    LineChart time = chart_of(scene, "seconds", Unit::seconds, "Time against length", "median time"),
              memory = chart_of(scene, "bytes", Unit::bytes, "Peak memory against length",
                                "beyond what was there before");
    if (has_values(time)) times.emplace_back(scene.name(), std::move(time));
    if (has_values(memory)) memories.emplace_back(scene.name(), std::move(memory));
  }
  if (!times.empty()) body.add(plot_html("what", times));
  if (!memories.empty()) body.add(plot_html("what", memories));
}

void add_rows(Fragment& body, const std::vector<Scene>& scenes) {
  std::vector<PageRow> rows;
  for (const Scene& scene : scenes)
    for (const Field& row : scene.rows) {
      const std::string by = row.at("by").text(), path = row.text_or("path", "");
      const std::string who = path.empty() ? by : fmt::format("{} ({})", by, path);
      if (failed(row)) {
        rows.push_back({.cells = {scene.formula, scene.work, short_number(row.at("n").number(), 9), who, "-",
                                  "-", "-", "-"},
                        .note = "not measured: " + row.at("failure").text()});
        continue;
      }
      rows.push_back({.cells = {scene.formula, scene.work, short_number(row.at("n").number(), 9), who,
                                number_text(row.at("seconds").number(), Unit::seconds),
                                fmt::format("{:.2f}x", row.number_or("ratio", NAN)),
                                bytes_cell(row.at("bytes").number()),
                                row.find("error") ? fmt::format("{:.0e}", row.at("error").number()) : "-"}});
    }
  body.table({"formula", "work", "n", "by", "time", "time / ours", "memory", "error"}, rows);
}

// Tiles that the mask or a negligible weight let ours leave out.
void add_skipped(Fragment& body, const std::vector<Scene>& scenes) {
  std::vector<PageRow> rows;
  for (const Scene& scene : scenes)
    for (const Field& row : scene.rows) {
      const std::optional<Field> skipped = row.find("skipped");
      if (!skipped) continue;
      const double tiles = skipped->at("tiles").number(), empty = skipped->at("empty").number(),
                   negligible = skipped->at("negligible").number();
      if (empty + negligible == 0) continue;
      rows.push_back({.cells = {scene.name(), short_number(row.at("n").number(), 9), short_number(tiles, 9),
                                percent((tiles - empty - negligible) / tiles), percent(empty / tiles),
                                percent(negligible / tiles),
                                fmt::format("{:.1e}", skipped->number_or("weight_lost_at_most", 0))}});
    }
  if (rows.empty()) return;
  body.subheading("Tiles kept and left out");
  body.table({"what", "n", "tiles", "computed", "emptied by the mask", "negligible", "weight lost, at most"},
             rows);
}

void add_growth(Fragment& body, const Field& file) {
  const std::optional<Field> growth = file.find("growth");
  if (!growth || growth->items().empty()) return;
  std::vector<PageRow> rows;
  for (const Field& row : growth->items())
    rows.push_back({.cells = {row.at("formula").text(), row.at("work").text(), row.at("by").text(),
                              fmt::format("n^{:.2f}", row.number_or("time", NAN)),
                              fmt::format("n^{:.2f}", row.number_or("memory", NAN))}});
  body.subheading("Growth with the length");
  body.table({"formula", "work", "by", "time", "memory"}, rows);
}

// How the longest length compares with the fastest rival that computes the same.
void add_highlights(Section& section, const std::vector<Scene>& scenes, bool disturbed) {
  for (const Scene& scene : scenes) {
    const Field* rival = nullptr;
    for (const Field& row : scene.rows) {
      if (failed(row) || row.at("by").text() == kOurs || row.at("by").text() == "plain sdpa") continue;
      const double n = row.at("n").number(), ratio = row.number_or("ratio", NAN);
      if (rival == nullptr || n > rival->at("n").number() ||
          (n == rival->at("n").number() && ratio < rival->number_or("ratio", NAN)))
        rival = &row;
    }
    if (rival == nullptr || !std::isfinite(rival->number_or("ratio", NAN))) continue;
    const double ratio = rival->at("ratio").number();
    section.highlights.push_back({.label = scene.name(),
                                  .value = ratio >= 1 ? fmt::format("{:.2f}× faster", ratio)
                                                      : fmt::format("{:.2f}× slower", 1 / ratio),
                                  .detail = fmt::format("than {} at n = {}{}", rival->at("by").text(),
                                                        short_number(rival->at("n").number(), 9),
                                                        disturbed ? ", on a busy machine" : ""),
                                  .tone = ratio >= 1 ? Tone::plain : Tone::bad});
  }
}

Section benchmark_section(const Result& result) {
  const Field file = field_of(result);
  const std::vector<Scene> scenes = scenes_of(file);
  std::vector<std::string> formulas;
  for (const Scene& scene : scenes)
    if (std::ranges::find(formulas, scene.formula) == formulas.end()) formulas.push_back(scene.formula);
  Section section;
  section.title = "Speed and memory: " + join(formulas, ", ");
  section.from = result.given;
  const double threads = file.number_or("threads", 0), busy = file.number_or("busy_cores", NAN);
  section.body.paragraph(
      fmt::format("Batch {}, {} heads on {} key heads, width {}, {}, {}, torch {}. A product of 2048 "
                  "× 2048 float matrices "
                  "runs here at {:.0f} GF/s.",
                  short_number(file.number_or("batch", NAN)), short_number(file.number_or("heads", NAN)),
                  short_number(file.number_or("kv_heads", NAN)), short_number(file.number_or("width", NAN)),
                  file.text_or("dtype", "?"), plural(std::lround(threads), "thread"),
                  file.text_or("torch", "?"), file.number_or("sgemm_gigaflops", NAN)));
  const bool disturbed = busy < 0.9 * threads;
  if (disturbed)
    section.body.banner(Tone::bad, "Do not trust these times",
                        fmt::format("{} had {:.1f} cores: something else kept the machine busy.",
                                    plural(std::lround(threads), "thread"), busy));
  add_highlights(section, scenes, disturbed);
  add_charts(section.body, scenes);
  add_rows(section.body, scenes);
  add_skipped(section.body, scenes);
  add_growth(section.body, file);
  return section;
}

Section targets_section(const Result& result) {
  const Field file = field_of(result);
  Section section;
  section.title = "Targets";
  section.from = result.given;
  std::vector<PageRow> rows;
  std::int64_t met = 0;
  for (const Field& target : file.at("targets").items()) {
    const bool reached = target.at("met").flag();
    met += reached ? 1 : 0;
    rows.push_back({.cells = {target.at("name").text(), target.at("row").text(), target.at("demand").text(),
                              short_number(target.number_or("value", NAN), 3),
                              fmt::format("{}–{}", short_number(target.number_or("low", NAN), 3),
                                          short_number(target.number_or("high", NAN), 3))},
                    .tone = reached ? Tone::good : Tone::bad,
                    .note = target.text_or("failure", "")});
  }
  section.highlights.push_back({.label = "targets met",
                                .value = fmt::format("{} of {}", met, rows.size()),
                                .detail = "of speed and memory",
                                .tone = met == std::ssize(rows) ? Tone::good : Tone::bad});
  section.body.table({"target", "aim", "demanded", "measured", "spread"}, rows);
  return section;
}

}  // namespace

bool is_benchmark(const Json& json) { return has_members(json, {"rows", "sgemm_gigaflops"}); }
bool is_targets(const Json& json) { return has_members(json, {"targets"}) && json["targets"].is_array(); }

std::vector<Section> benchmark_sections(std::span<const Result> results) {
  std::vector<Section> sections;
  for (const Result& result : results) sections.push_back(benchmark_section(result));
  return sections;
}

std::vector<Section> targets_sections(std::span<const Result> results) {
  std::vector<Section> sections;
  for (const Result& result : results) sections.push_back(targets_section(result));
  return sections;
}

}  // namespace saccade
