// One HTML file from results of any kinds: curves, maps, tables and texts that work offline, in light and
// dark, on paper, by keyboard and read aloud. It may run its own script and load nothing: what it shows came
// from files that anybody may have written.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "saccade/base/json.h"

namespace saccade {

struct ReportPart {
  std::string kind, title, from;
  std::vector<std::string> notes;  ///< About its files, for the person who makes the report.
};

struct Report {
  std::string title, html;
  std::vector<ReportPart> parts;  ///< In the order of the page.
};

/// The same inputs give the same bytes; without a title the page is named by what is in it. Throws Error for
/// a path that holds no result, and for a file that is broken, naming it and the line.
Report make_report(std::span<const std::filesystem::path> inputs, const std::string& title = {});

}  // namespace saccade
