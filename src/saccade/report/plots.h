// Plots that a reader can touch: the same charts that to_svg draws, as numbers for the scripts of web/. They
// need a page with plot_scripts and report.js.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "saccade/report/attention_map.h"
#include "saccade/report/chart.h"

namespace saccade {

/// What saccade.lineChart, saccade.dotChart and saccade.heatMap take.
Json plot_json(const LineChart& chart);
Json plot_json(const BarChart& chart);
Json plot_json(const HeatMap& chart);

/// A <figure> with its caption and its numbers. Throws Error for numbers that do not fit together.
std::string plot_html(const LineChart& chart);
/// As dots with whiskers, one line for each category.
std::string plot_html(const BarChart& chart);
std::string plot_html(const HeatMap& chart);
std::string plot_html(const AttentionCapture& capture, const std::string& title, const std::string& subtitle);

/// One figure in which the reader chooses, such as a layer: `what` names what is chosen. A single chart is
/// shown without a choice. Charts that could show nothing should not be given.
template <class Chart>
using Choices = std::vector<std::pair<std::string, Chart>>;
std::string plot_html(const std::string& what, const Choices<LineChart>& charts);
std::string plot_html(const std::string& what, const Choices<HeatMap>& charts);

/// Whether a line has anything to show.
bool has_values(const LineChart& chart);

}  // namespace saccade
