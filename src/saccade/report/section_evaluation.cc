// How good a model is, and what another attention does to it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "saccade/base/text.h"
#include "saccade/report/plots.h"
#include "saccade/report/sections.h"

namespace saccade {
namespace {

struct Figure {
  const char *member, *title;
  bool share = false;
};
constexpr Figure kFigures[] = {{"tokens_scored", "tokens scored"},
                               {"mean_nll", "mean NLL (nats)"},
                               {"perplexity_per_token", "perplexity per token"},
                               {"perplexity_per_word", "perplexity per word"},
                               {"bits_per_byte", "bits per byte"},
                               {"top1_accuracy", "top-1 accuracy", true},
                               {"accuracy", "accuracy", true},
                               {"macro_f1", "macro F1"},
                               {"tokens_per_second", "tokens per second"}};

void add_figures(Fragment& body, const std::vector<Field>& evaluations, const char* part,
                 const char* heading) {
  std::vector<std::string> header{heading};
  for (const Field& each : evaluations) header.push_back(each.text_or("attention", "model"));
  std::vector<PageRow> rows;
  for (const Figure& figure : kFigures) {
    PageRow row{.cells = {figure.title}};
    bool any = false;
    for (const Field& each : evaluations) {
      const std::optional<Field> found = each.find(part);
      const double value = found ? found->number_or(figure.member, NAN) : NAN;
      any |= std::isfinite(value);
      row.cells.push_back(figure.share ? percent(value, 2) : short_number(value, 6));
    }
    if (any) rows.push_back(std::move(row));
  }
  if (rows.empty()) return;
  body.table(header, rows);
  for (const Field& each : evaluations)
    if (const std::optional<Field> found = each.find(part)) {
      if (const std::string convention = found->text_or("convention", ""); !convention.empty())
        body.note("Convention: " + convention);
      break;
    }
}

void add_length_curve(Fragment& body, const std::vector<Field>& evaluations) {
  LineChart chart{.title = "Loss by how much came before",
                  .subtitle = "tokens of the window in front of the predicted one",
                  .x_label = "tokens seen",
                  .y_label = "mean NLL (nats)",
                  .log_x = true};
  for (const Field& each : evaluations) {
    const std::optional<Field> perplexity = each.find("perplexity");
    const std::optional<Field> curve = perplexity ? perplexity->find("length_curve") : std::nullopt;
    if (!curve) continue;
    Series series{.name = each.text_or("attention", "model"), .markers = true};
    for (const Field& bucket : curve->items()) {
      series.x.push_back(bucket.at("last").number());
      series.y.push_back(bucket.number_or("mean_nll", NAN));
    }
    chart.series.push_back(std::move(series));
  }
  if (has_values(chart)) body.add(plot_html(chart));
}

void add_robustness(Fragment& body, const std::vector<Field>& evaluations) {
  Choices<LineChart> charts;
  for (const Field& each : evaluations) {
    const std::optional<Field> robustness = each.find("robustness");
    if (!robustness || !robustness->find("points")) continue;
    const std::string attention = each.text_or("attention", "model");
    for (const Field& point : robustness->at("points").items()) {
      const std::string damage = point.at("damage").text();
      auto chart = std::ranges::find(charts, damage, &std::pair<std::string, LineChart>::first);
      if (chart == charts.end())
        chart = charts.insert(charts.end(), {damage,
                                             {.title = "Loss under damage",
                                              .subtitle = "share of what was read before that was damaged",
                                              .x_label = "damaged",
                                              .y_label = "mean NLL (nats)",
                                              .x_unit = Unit::share}});
      std::vector<Series>& lines = chart->second.series;
      auto series = std::ranges::find(lines, attention, &Series::name);
      if (series == lines.end()) series = lines.insert(lines.end(), {.name = attention, .markers = true});
      series->x.push_back(point.at("rate").number());
      series->y.push_back(point.number_or("mean_nll", NAN));
    }
  }
  std::erase_if(charts, [](const auto& each) { return !has_values(each.second); });
  if (!charts.empty()) body.add(plot_html("damage", charts));
}

void add_retrieval(Fragment& body, const std::vector<Field>& evaluations) {
  Choices<HeatMap> maps;
  for (const Field& each : evaluations) {
    const std::optional<Field> retrieval = each.find("retrieval");
    if (!retrieval) continue;
    for (const auto& [member, size, title] :
         {std::tuple{"passkey", "tokens", "pass key found"}, {"recall", "pairs", "pairs recalled"}}) {
      const std::optional<Field> cells = retrieval->find(member);
      if (!cells || cells->items().empty()) continue;
      HeatMap map{.title = "Retrieval",
                  .subtitle = "how often what was hidden in the text is found again",
                  .x_label = "depth",
                  .y_label = size,
                  .value_label = title,
                  .unit = Unit::share,
                  .low = 0,
                  .high = 1};
      for (const Field& cell : cells->items()) {
        const std::string row = short_number(cell.at(size).number(), 9),
                          column = percent(cell.at("depth").number(), 0);
        if (map.row_names.empty() || map.row_names.back() != row) map.row_names.push_back(row);
        if (map.row_names.size() == 1) map.column_names.push_back(column);
        map.values.push_back(cell.at("accuracy").number());
      }
      map.rows = std::ssize(map.row_names);
      map.columns = std::ssize(map.column_names);
      if (map.rows * map.columns == std::ssize(map.values))
        maps.emplace_back(each.text_or("attention", "model") + ": " + title, std::move(map));
    }
  }
  if (!maps.empty()) body.add(plot_html("task", maps));
}

Section evaluation_section(const Result& result) {
  const Field file = field_of(result);
  const std::vector<Field> evaluations = file.at("evaluations").items();
  Section section;
  section.title = "Evaluation: " + name_of_model(file.text_or("model", "a model"));
  section.from = result.given;
  add_figures(section.body, evaluations, "perplexity", "");
  add_figures(section.body, evaluations, "masked", "masked tokens");
  add_figures(section.body, evaluations, "classification", "labels");
  add_length_curve(section.body, evaluations);
  add_robustness(section.body, evaluations);
  add_retrieval(section.body, evaluations);
  if (!evaluations.empty())
    if (const std::optional<Field> perplexity = evaluations.front().find("perplexity")) {
      std::string detail = name_of_model(file.text_or("model", ""));
      if (evaluations.size() > 1 && evaluations.back().find("perplexity"))
        detail += fmt::format(
            "; {} with {}",
            short_number(evaluations.back().at("perplexity").number_or("perplexity_per_token", NAN)),
            evaluations.back().text_or("attention", "another attention"));
      section.highlights.push_back({.label = "perplexity per token",
                                    .value = short_number(perplexity->number_or("perplexity_per_token", NAN)),
                                    .detail = detail});
    }
  return section;
}

}  // namespace

bool is_evaluation(const Json& json) { return has_members(json, {"model", "evaluations"}); }

std::vector<Section> evaluation_sections(std::span<const Result> results) {
  std::vector<Section> sections;
  for (const Result& result : results) sections.push_back(evaluation_section(result));
  return sections;
}

}  // namespace saccade
