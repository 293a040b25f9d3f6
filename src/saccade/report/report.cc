// The frame of the page. Sections are made by kind; here they get their places, their names in the list of
// contents and the cards at the top.
#include "saccade/report/report.h"

#include <algorithm>
#include <set>

#include "saccade/base/error.h"
#include "saccade/base/text.h"
#include "saccade/report/sections.h"
#include "saccade/report/web.h"
#include "saccade/version.h"

namespace saccade {

namespace fs = std::filesystem;

namespace {

struct Placed {
  const ResultKind* kind;
  std::string id;
  Section section;
};

std::vector<Result> all_results(std::span<const fs::path> inputs) {
  require(!inputs.empty(), "report: no input; name runs, folders or files");
  std::vector<Result> results;
  std::set<fs::path> seen;
  for (const fs::path& input : inputs)
    for (Result& result : find_results(input))
      if (seen.insert(fs::weakly_canonical(result.path)).second) results.push_back(std::move(result));
  return results;
}

std::vector<Placed> all_sections(const std::vector<Result>& results) {
  std::vector<Placed> placed;
  for (const ResultKind& kind : result_kinds()) {
    std::vector<Result> mine;
    std::ranges::copy_if(results, std::back_inserter(mine),
                         [&](const Result& result) { return result.kind == &kind; });
    if (mine.empty()) continue;
    for (Section& section : kind.make(mine))
      placed.push_back({&kind, fmt::format("part-{}", placed.size() + 1), std::move(section)});
  }
  return placed;
}

std::string cards(const std::vector<Placed>& placed) {
  std::string html;
  for (const Placed& each : placed)
    for (const Highlight& found : each.section.highlights)
      html += fmt::format(
          "<li><a class=\"card {}\" href=\"#{}\"><span class=\"label\">{}</span><b>{}</b><span "
          "class=\"detail\">{}"
          "</span></a></li>\n",
          class_of(found.tone), each.id, html_escaped(found.label), html_escaped(found.value),
          html_escaped(found.detail));
  return html.empty() ? "" : "<ul class=\"cards\" aria-label=\"What was found\">\n" + html + "</ul>\n";
}

std::string contents(const std::vector<Placed>& placed) {
  std::string html =
      "<nav class=\"contents\" aria-label=\"Contents\"><details open><summary>Contents</summary><ol>\n";
  std::string_view group;
  for (const Placed& each : placed) {
    html += "<li>";
    if (each.kind->group != group) html += fmt::format("<span class=\"kind\">{}</span>", each.kind->group);
    group = each.kind->group;
    std::string_view title = each.section.title;
    if (title.starts_with(fmt::format("{}: ", group))) title.remove_prefix(group.size() + 2);
    html += fmt::format("<a href=\"#{}\">{}</a></li>\n", each.id, html_escaped(title));
  }
  return html + "</ol></details></nav>\n";
}

std::string section_html(const Placed& each) {
  std::string html = fmt::format("<section id=\"{}\" aria-labelledby=\"{}-title\">\n<h2 id=\"{}-title\">{}",
                                 each.id, each.id, each.id, html_escaped(each.section.title));
  if (!each.section.from.empty())
    html += fmt::format("<span class=\"from\">{}</span>", html_escaped(each.section.from));
  html += "</h2>\n";
  Fragment notes;
  for (const std::string& note : each.section.notes) notes.note("Note: " + note);
  return html + notes.html() + each.section.body.html() + "</section>\n";
}

std::string usual_title(const std::vector<Placed>& placed) {
  return placed.size() == 1 ? placed.front().section.title
                            : fmt::format("Saccade report: {} sections", placed.size());
}

std::string head(const std::string& title, const std::string& style, const std::string& script) {
  // Hashes allow this script and this style sheet; whatever else the page may come to hold is dead.
  const std::string policy =
      fmt::format("default-src 'none'; script-src {}; style-src {}; base-uri 'none'; form-action 'none'",
                  allowed_by_content(script), allowed_by_content(style));
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<meta name=\"generator\" content=\"saccade {}\">\n"
      "<title>{}</title>\n<style>{}</style>\n</head>\n",
      policy, SACCADE_VERSION, html_escaped(title), style);
}

}  // namespace

Report make_report(std::span<const fs::path> inputs, const std::string& title) {
  const std::vector<Result> results = all_results(inputs);
  const std::vector<Placed> placed = all_sections(results);
  Report report{.title = title.empty() ? usual_title(placed) : title};
  std::set<std::string_view> groups;
  for (const Placed& each : placed) {
    report.parts.push_back(
        {std::string(each.kind->name), each.section.title, each.section.from, each.section.notes});
    groups.insert(each.kind->group);
  }

  const std::string style = plot_styles() + std::string(web_file("report.css"));
  const std::string script = plot_scripts() + std::string(web_file("report.js"));
  std::string& html = report.html;
  html = head(report.title, style, script);
  html += fmt::format(
      "<body class=\"report\">\n<a class=\"skip\" href=\"#main\">Skip to the results</a>\n<header "
      "class=\"top\"><div>"
      "<h1>{}</h1>\n<p>{} in {} · Saccade {}</p></div><div data-theme-switch></div></header>\n",
      html_escaped(report.title), plural(std::ssize(results), "result"),
      plural(std::ssize(placed), "section"), SACCADE_VERSION);
  html +=
      "<noscript><p class=\"banner\">The plots need JavaScript; the tables and texts do "
      "not.</p></noscript>\n";
  html +=
      "<div class=\"layout\">\n" + contents(placed) + "<main id=\"main\" tabindex=\"-1\">\n" + cards(placed);
  for (const Placed& each : placed) html += section_html(each);
  html += "</main>\n</div>\n<script>" + script + "</script>\n</body>\n</html>\n";
  return report;
}

}  // namespace saccade
