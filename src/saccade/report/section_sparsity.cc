// Sparse attention: frontiers of divergence against density, what a distillation reached, and imitations.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "saccade/base/text.h"
#include "saccade/report/axis.h"
#include "saccade/report/plots.h"
#include "saccade/report/sections.h"

namespace saccade {

namespace fs = std::filesystem;

namespace {

// The density at which a curve reaches a divergence, between its points by logarithms.
double density_at(const Series& curve, double divergence) {
  double best = NAN;
  for (size_t at = 1; at < curve.x.size(); ++at) {
    const double x0 = curve.x[at - 1], x1 = curve.x[at], y0 = curve.y[at - 1], y1 = curve.y[at];
    if (!(std::min(y0, y1) <= divergence && divergence <= std::max(y0, y1)) || y0 <= 0 || y1 <= 0) continue;
    const double part = y0 == y1 ? 0 : (std::log(divergence) - std::log(y0)) / (std::log(y1) - std::log(y0));
    best = std::exp(std::lerp(std::log(x0), std::log(x1), part));
  }
  return best;
}

Section frontier_section(const Result& result) {
  const Field file = field_of(result);
  Section section;
  section.title = "Frontier: divergence against density";
  section.from = result.given;
  LineChart chart{
      .title = "KL to the dense model against density",
      .subtitle = fmt::format("windows of {} tokens of held-out text; lower and further left is better",
                              short_number(file.number_or("tokens", NAN), 9)),
      .x_label = "density: share of the pairs that is kept",
      .y_label = "KL per token (nats)",
      .log_x = true,
      .log_y = true};
  constexpr double kGoals[] = {1e-4, 1e-3, 1e-2};
  std::vector<PageRow> rows;
  for (const Field& curve : file.at("curves").items()) {
    const std::string name = curve.at("name").text();
    Series series{.name = name, .markers = true, .muted = !name.starts_with("learned")};
    for (const Field& point : curve.at("points").items()) {
      series.x.push_back(point.at("density").number());
      series.y.push_back(point.at("divergence").number());
    }
    PageRow row{.cells = {name}};
    for (const double goal : kGoals) row.cells.push_back(fixed(density_at(series, goal), 3));
    row.cells.push_back(curve.text_or("meaning", ""));
    rows.push_back(std::move(row));
    chart.series.push_back(std::move(series));
  }
  section.body.add(plot_html(chart));
  section.body.table({"selector", "density at KL 1e-4", "at 1e-3", "at 1e-2", "what it keeps"}, rows);
  if (!chart.series.empty() && std::isfinite(density_at(chart.series.front(), 1e-3)))
    section.highlights.push_back({.label = "density at a KL of 0.001",
                                  .value = percent(density_at(chart.series.front(), 1e-3)),
                                  .detail = chart.series.front().name});
  if (const std::optional<Field> parts = file.find("decomposition")) {
    section.body.subheading("Where the divergence comes from");
    section.body.note(fmt::format("At a density of {}.", fixed(parts->at("density").number(), 3)));
    section.body.table(
        {"part", "nats"},
        {{.cells = {"even if the true weights chose for each query",
                    short_number(parts->number_or("best", NAN))}},
         {.cells = {"by one list for a tile of queries", short_number(parts->number_or("granularity", NAN))}},
         {.cells = {"by mistakes of the learned scores", short_number(parts->number_or("mistakes", NAN))}},
         {.cells = {"by weighing near keys for some queries only",
                    short_number(parts->number_or("approximation", NAN))}}});
  }
  return section;
}

// Tries of the solver and lengths that were timed, from the lines of metrics.jsonl.
void add_tries(Fragment& body, const std::vector<Json>& lines, const std::string& where) {
  LineChart tries{.title = "Tries of the solver",
                  .subtitle = "each sets all heads and measures on held-out text",
                  .x_label = "density",
                  .y_label = "KL per token (nats)",
                  .log_y = true};
  LineChart times{.title = "Time of attention",
                  .subtitle = "choosing included; lower is better",
                  .x_label = "tokens n",
                  .y_label = "seconds",
                  .log_x = true,
                  .log_y = true,
                  .y_unit = Unit::seconds,
                  .series = {{.name = "sparse", .markers = true},
                             {.name = "of that, choosing", .markers = true, .muted = true},
                             {.name = "dense", .markers = true, .muted = true}}};
  for (size_t index = 0; index < lines.size(); ++index) {
    const Field line(lines[index], fmt::format("{}:{}", where, index + 1));
    const std::string stage = line.text_or("stage", "");
    if (line.find("try")) {
      auto series = std::ranges::find(tries.series, stage, &Series::name);
      if (series == tries.series.end())
        series = tries.series.insert(tries.series.end(), {.name = stage, .markers = true});
      series->x.push_back(line.at("density").number());
      series->y.push_back(line.at("divergence").number());
    } else if (stage == "speed") {
      const std::pair<size_t, const char*> members[] = {
          {0, "sparse_seconds"}, {1, "choosing_seconds"}, {2, "dense_seconds"}};
      for (const auto& [place, member] : members) {
        times.series[place].x.push_back(line.at("tokens").number());
        times.series[place].y.push_back(line.number_or(member, NAN));
      }
    }
  }
  times.x_ticks = times.series.front().x;
  if (has_values(tries)) body.add(plot_html(tries));
  if (has_values(times)) body.add(plot_html(times));
}

void add_solution(std::vector<PageRow>& rows, const char* what, const Field& solution) {
  rows.push_back({.cells = {what, "all", percent(solution.at("density").number(), 2),
                            short_number(solution.at("divergence").number()),
                            short_number(solution.number_or("dense_heads", NAN), 9)}});
  const std::optional<Field> ranges = solution.find("ranges");
  if (!ranges || ranges->items().size() < 2) return;
  for (const Field& range : ranges->items())
    rows.push_back({.cells = {what, fmt::format("from {} on", range.at("begin").whole()),
                              percent(range.at("density").number(), 2),
                              short_number(range.at("divergence").number()), "-"}});
}

Section distillation_section(const Result& result) {
  const Field file = field_of(result);
  const std::optional<Field> described = file.find("notes");
  const Field notes = described ? *described : file;  // sparse.json, or what --json printed
  Section section;
  section.title = fmt::format("Sparse attention for {}",
                              name_of_model(file.text_or("base", file.text_or("model", "a model"))));
  section.from = result.given;
  const Field held_out = notes.at("held_out");
  const bool found = held_out.at("found").flag(), saves = held_out.flag_or("saves", found);
  const std::string density = percent(held_out.at("density").number(), 1);
  // Below 0 only by rounding.
  const std::string divergence = short_number(std::max(0.0, held_out.at("divergence").number()), 3);
  section.body.banner(
      found && saves ? Tone::good : Tone::bad,
      !found   ? "The budget does not hold with anything left out"
      : !saves ? "The budget holds, but hardly anything can be left out"
               : fmt::format("{} of the pairs are enough", density),
      fmt::format("KL of {} nats per token to the dense model, on held-out text.", divergence));
  section.highlights.push_back({.label = "pairs kept",
                                .value = density,
                                .detail = fmt::format("at a KL of {} nats", divergence),
                                .tone = found && saves ? Tone::plain : Tone::bad});
  std::vector<PageRow> rows;
  add_solution(rows, "reading", held_out);
  if (const std::optional<Field> decoding = notes.find("decoding")) add_solution(rows, "decoding", *decoding);
  section.body.table({"work", "positions", "pairs kept", "KL", "heads that see all"}, rows);
  section.body.paragraph(
      fmt::format("On text that was learned from the KL is {}. Choosing takes {} of the arithmetic of dense "
                  "attention at the longest "
                  "window. All of it took {:.0f} s.",
                  short_number(notes.number_or("learned_divergence", NAN), 3),
                  percent(notes.number_or("selection_cost", NAN)), notes.number_or("seconds", NAN)));
  const fs::path metrics = result.path.parent_path() / "metrics.jsonl";
  std::error_code none;
  if (described && fs::exists(metrics, none)) {
    const JsonLines lines = read_json_lines(metrics);
    if (lines.torn)
      section.notes.push_back(fmt::format("{}: the last line is cut off and left out.", metrics.string()));
    add_tries(section.body, lines.lines, metrics.string());
  }
  return section;
}

Section imitation_section(const Result& result) {
  const Field file = field_of(result);
  Section section;
  section.title = fmt::format("Imitation: {} with {}", name_of_model(file.text_or("model", "a model")),
                              file.text_or("attention", "another attention"));
  section.from = result.given;
  Series learned{.name = "learned from"}, held_out{.name = "held out"};
  for (const Field& epoch : file.at("epochs").items())
    for (const auto& [series, member] : {std::pair{&learned, "divergence"}, {&held_out, "held_out"}}) {
      series->x.push_back(epoch.at("epoch").number());
      series->y.push_back(epoch.number_or(member, NAN));
    }
  if (!held_out.y.empty())
    section.highlights.push_back(
        {.label = "KL after imitation",
         .value = short_number(held_out.y.back(), 3),
         .detail = fmt::format("from {}, on held-out text", short_number(held_out.y.front(), 3))});
  LineChart chart{
      .title = "KL to the dense model",
      .subtitle = fmt::format("{} texts of {} tokens", short_number(file.number_or("texts", NAN), 9),
                              short_number(file.number_or("tokens", NAN), 9)),
      .x_label = "epoch",
      .y_label = "KL per token (nats)",
      .log_y = true,
      .series = {learned, held_out}};
  section.body.add(plot_html(chart));
  return section;
}

template <class Make>
std::vector<Section> each_of(std::span<const Result> results, Make make) {
  std::vector<Section> sections;
  for (const Result& result : results) sections.push_back(make(result));
  return sections;
}

}  // namespace

bool is_frontier(const Json& json) { return has_members(json, {"tokens", "curves"}); }
bool is_distillation(const Json& json) {
  return has_members(json, {"base", "kind", "notes"}) || has_members(json, {"held_out", "selection_cost"});
}
bool is_imitation(const Json& json) { return has_members(json, {"attention", "texts", "epochs"}); }

std::vector<Section> frontier_sections(std::span<const Result> results) {
  return each_of(results, frontier_section);
}
std::vector<Section> distillation_sections(std::span<const Result> results) {
  return each_of(results, distillation_section);
}
std::vector<Section> imitation_sections(std::span<const Result> results) {
  return each_of(results, imitation_section);
}

}  // namespace saccade
