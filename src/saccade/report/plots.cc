#include "saccade/report/plots.h"

#include <algorithm>
#include <cmath>

#include "saccade/base/error.h"
#include "saccade/report/fragment.h"
#include "saccade/report/lines.h"
#include "saccade/report/web.h"

namespace saccade {
namespace {

std::string_view name_of(Unit unit) {
  switch (unit) {
    case Unit::number:
      return "number";
    case Unit::bytes:
      return "bytes";
    case Unit::seconds:
      return "seconds";
    case Unit::share:
      return "share";
  }
  return "";
}

void add_if(Json& json, const char* name, const std::optional<double>& value) {
  if (value) json[name] = *value;
}

std::string figure(std::string_view kind, const std::string& title, const std::string& subtitle,
                   const Json& numbers, const std::string& choice = {}) {
  std::string html = fmt::format("<figure class=\"plot\" data-plot=\"{}\"", kind);
  if (!choice.empty()) html += fmt::format(" data-choice=\"{}\"", html_escaped(choice));
  html += ">";
  if (!title.empty() || !subtitle.empty()) {
    html += fmt::format("<figcaption><b>{}</b>", html_escaped(title));
    if (!subtitle.empty()) html += fmt::format("<span>{}</span>", html_escaped(subtitle));
    html += "</figcaption>";
  }
  return html +
         fmt::format("<script type=\"application/json\">{}</script></figure>\n", json_for_script(numbers));
}

template <class Chart>
std::string choice_html(std::string_view kind, const std::string& what, const Choices<Chart>& charts) {
  require(!charts.empty(), "plot: no chart to choose");
  if (charts.size() == 1) return plot_html(charts.front().second);
  Json list = Json::array();
  for (const auto& [name, chart] : charts) list.push_back({{"name", name}, {"spec", plot_json(chart)}});
  return figure(kind, charts.front().second.title, charts.front().second.subtitle, {{"choices", list}}, what);
}

}  // namespace

Json plot_json(const LineChart& chart) {
  check_series(chart);
  Json json{{"title", chart.title},
            {"x_label", chart.x_label},
            {"y_label", chart.y_label},
            {"log_x", chart.log_x},
            {"log_y", chart.log_y},
            {"x_unit", name_of(chart.x_unit)},
            {"y_unit", name_of(chart.y_unit)},
            {"ordered", chart.ordered},
            {"series", Json::array()}};
  if (!chart.x_ticks.empty()) json["x_ticks"] = chart.x_ticks;
  if (!chart.x_names.empty()) json["x_names"] = chart.x_names;
  add_if(json, "x_low", chart.x_low);
  add_if(json, "x_high", chart.x_high);
  add_if(json, "y_low", chart.y_low);
  add_if(json, "y_high", chart.y_high);
  for (const Series& series : chart.series) {
    Json line{{"name", series.name}, {"x", series.x}, {"y", series.y}};
    if (!series.low.empty()) line["low"] = series.low;
    if (!series.high.empty()) line["high"] = series.high;
    if (series.muted) line["muted"] = true;
    if (series.markers) line["markers"] = true;
    json["series"].push_back(std::move(line));
  }
  return json;
}

Json plot_json(const BarChart& chart) {
  Json json{{"title", chart.title},         {"value_label", chart.value_label}, {"unit", name_of(chart.unit)},
            {"log_value", chart.log_value}, {"categories", chart.categories},   {"series", Json::array()}};
  for (const BarSeries& series : chart.series) {
    require(series.values.size() == chart.categories.size(), "plot: {} values for {} categories",
            series.values.size(), chart.categories.size());
    Json line{{"name", series.name}, {"values", series.values}};
    if (!series.low.empty()) line["low"] = series.low;
    if (!series.high.empty()) line["high"] = series.high;
    json["series"].push_back(std::move(line));
  }
  return json;
}

Json plot_json(const HeatMap& chart) {
  require(chart.rows * chart.columns == std::ssize(chart.values), "plot: {} values for a map of {} x {}",
          chart.values.size(), chart.rows, chart.columns);
  Json json{{"title", chart.title},        {"x_label", chart.x_label},
            {"y_label", chart.y_label},    {"value_label", chart.value_label},
            {"unit", name_of(chart.unit)}, {"signed", chart.diverging},
            {"rows", chart.rows},          {"columns", chart.columns},
            {"values", chart.values}};
  if (!chart.row_names.empty()) json["row_names"] = chart.row_names;
  if (!chart.column_names.empty()) json["column_names"] = chart.column_names;
  add_if(json, "low", chart.low);
  add_if(json, "high", chart.high);
  return json;
}

std::string plot_html(const LineChart& chart) {
  return figure("lines", chart.title, chart.subtitle, plot_json(chart));
}

std::string plot_html(const BarChart& chart) {
  return figure("dots", chart.title, chart.subtitle, plot_json(chart));
}

std::string plot_html(const HeatMap& chart) {
  return figure("heat", chart.title, chart.subtitle, plot_json(chart));
}

std::string plot_html(const AttentionCapture& capture, const std::string& title,
                      const std::string& subtitle) {
  require(!capture.maps.empty(), "plot: an attention capture without a map");
  return figure("attention", title, subtitle, to_json(capture));
}

std::string plot_html(const std::string& what, const Choices<LineChart>& charts) {
  return choice_html("lines", what, charts);
}

std::string plot_html(const std::string& what, const Choices<HeatMap>& charts) {
  return choice_html("heat", what, charts);
}

bool has_values(const LineChart& chart) {
  return std::ranges::any_of(chart.series, [](const Series& series) {
    return std::ranges::any_of(series.y, [](double value) { return std::isfinite(value); });
  });
}

}  // namespace saccade
