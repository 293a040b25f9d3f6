#include "saccade/report/fragment.h"

#include <fmt/format.h>

#include <algorithm>

#include "saccade/base/error.h"

namespace saccade {
namespace {

// "12.5 %", "-3e-7", "1.2 MiB", "0.98x", "-": what reads best with its digits below each other. Longer texts
// that begin with a number are sentences.
bool looks_like_number(std::string_view cell) {
  for (const std::string_view sign : {"+", "-", "−"})
    if (cell.starts_with(sign)) cell.remove_prefix(sign.size());
  return !cell.empty() && cell.front() >= '0' && cell.front() <= '9' && cell.size() <= 16 &&
         cell.find(',') == std::string_view::npos;
}
bool is_blank(std::string_view cell) { return cell.empty() || cell == "-" || cell == "–"; }

bool is_number_column(const std::vector<PageRow>& rows, size_t column) {
  bool any = false;
  for (const PageRow& row : rows) {
    if (column >= row.cells.size() || is_blank(row.cells[column])) continue;
    if (!looks_like_number(row.cells[column])) return false;
    any = true;
  }
  return any;
}

}  // namespace

std::string_view class_of(Tone tone) {
  return tone == Tone::good ? "good" : tone == Tone::bad ? "bad" : "plain";
}

std::string_view mark_of(Tone tone) {
  return tone == Tone::good  ? "<span class=\"mark\" role=\"img\" aria-label=\"passed\">✓</span> "
         : tone == Tone::bad ? "<span class=\"mark\" role=\"img\" aria-label=\"failed\">✗</span> "
                             : "";
}

std::string html_escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      case '\0':
        result += "\xef\xbf\xbd";  // which HTML cannot hold
        break;
      default:
        result += c;
    }
  }
  return result;
}

void Fragment::banner(Tone tone, std::string_view text, std::string_view detail) {
  body_ +=
      fmt::format("<div class=\"banner {}\">{}<b>{}</b>", class_of(tone), mark_of(tone), html_escaped(text));
  if (!detail.empty()) body_ += fmt::format("<p>{}</p>", html_escaped(detail));
  body_ += "</div>\n";
}

void Fragment::heading(std::string_view text) { body_ += fmt::format("<h2>{}</h2>\n", html_escaped(text)); }

void Fragment::subheading(std::string_view text) {
  body_ += fmt::format("<h3>{}</h3>\n", html_escaped(text));
}

void Fragment::paragraph(std::string_view text) { body_ += fmt::format("<p>{}</p>\n", html_escaped(text)); }

void Fragment::note(std::string_view text) {
  body_ += fmt::format("<p class=\"note\">{}</p>\n", html_escaped(text));
}

void Fragment::table(const std::vector<std::string>& header, const std::vector<PageRow>& rows) {
  std::vector<std::string_view> classes{""};
  for (size_t column = 1; column < header.size(); ++column)
    classes.push_back(is_number_column(rows, column) ? " class=\"number\"" : "");
  body_ +=
      "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Table\"><table "
      "class=\"sortable\">\n<thead><tr>";
  for (size_t column = 0; column < header.size(); ++column)
    body_ += fmt::format("<th scope=\"col\"{}>{}</th>", classes[column], html_escaped(header[column]));
  body_ += "</tr></thead>\n<tbody>\n";
  for (const PageRow& row : rows) {
    require(row.cells.size() == header.size(), "page: a row of {} cells in a table of {} columns",
            row.cells.size(), header.size());
    body_ += fmt::format("<tr class=\"row\"><td class=\"{}\">{}{}</td>", class_of(row.tone),
                         mark_of(row.tone), html_escaped(row.cells.empty() ? "" : row.cells.front()));
    for (size_t column = 1; column < row.cells.size(); ++column)
      body_ += fmt::format("<td{}>{}</td>", classes[column], html_escaped(row.cells[column]));
    body_ += "</tr>\n";
    if (!row.note.empty())
      body_ += fmt::format("<tr class=\"note\"><td colspan=\"{}\">{}</td></tr>\n", header.size(),
                           html_escaped(row.note));
  }
  body_ += "</tbody>\n</table></div>\n";
}

void Fragment::code(std::string_view text) { body_ += fmt::format("<pre>{}</pre>\n", html_escaped(text)); }

void Fragment::chart(std::string_view svg) { body_ += fmt::format("<figure>{}</figure>\n", svg); }

}  // namespace saccade
