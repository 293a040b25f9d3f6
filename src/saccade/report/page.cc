// The style sheet is the whole design: a column of text, tables with thin lines, and a colour for what is
// good or bad that is never the only sign of it.
#include "saccade/report/page.h"

#include <fmt/format.h>

#include "saccade/base/error.h"

namespace saccade {
namespace {

// The colours of the page are those of the charts.
constexpr std::string_view kStyle = R"(
:root{color-scheme:light dark;--page:#fff;--text:#1f2328;--soft:#59636e;--line:#d8dee4;--fill:#f6f8fa;
--good:#1a7f37;--good-fill:#e9f7ed;--bad:#c0271f;--bad-fill:#fdecea}
@media (prefers-color-scheme:dark){:root{--page:#0d1117;--text:#e6edf3;--soft:#9198a1;--line:#30363d;
--fill:#161b22;--good:#4cc46a;--good-fill:#12261a;--bad:#ff7b72;--bad-fill:#2d1517}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:62rem;padding:2rem 1.25rem 4rem;background:var(--page);color:var(--text);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
h1{font-size:1.6rem;margin:0 0 1rem;overflow-wrap:anywhere}
h2{font-size:1.1rem;margin:2.2rem 0 .6rem}
p{margin:.5rem 0;overflow-wrap:anywhere}
.banner{border:1px solid var(--line);border-left:.4rem solid var(--line);border-radius:.4rem;
background:var(--fill);padding:.8rem 1.1rem;margin:1rem 0}
.banner b{font-size:1.15rem}
.banner.good{border-color:var(--good);background:var(--good-fill)}
.banner.bad{border-color:var(--bad);background:var(--bad-fill)}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;margin:.4rem 0}
th,td{text-align:left;padding:.42rem .8rem .42rem 0;vertical-align:top;overflow-wrap:anywhere}
th{font-weight:600;color:var(--soft);font-size:.85rem;overflow-wrap:normal}
tbody tr.row td{border-top:1px solid var(--line)}
td.number{font-variant-numeric:tabular-nums;white-space:nowrap}
tr.note td{padding-top:0;color:var(--soft);font-size:.85rem}
.mark{font-weight:700}
.good>.mark{color:var(--good)}
.bad>.mark{color:var(--bad)}
pre{background:var(--fill);border:1px solid var(--line);border-radius:.4rem;padding:.7rem .9rem;
font:13px/1.5 ui-monospace,"DejaVu Sans Mono",monospace;white-space:pre-wrap;overflow-wrap:anywhere}
figure{margin:1rem 0}
figure svg{max-width:100%;height:auto}
@media print{body{padding:0}.banner,tr,figure{break-inside:avoid}}
)";

std::string_view class_of(Tone tone) {
  return tone == Tone::good ? "good" : tone == Tone::bad ? "bad" : "plain";
}

// Read aloud as well as seen.
std::string_view mark_of(Tone tone) {
  return tone == Tone::good  ? "<span class=\"mark\" aria-label=\"passed\">✓</span> "
         : tone == Tone::bad ? "<span class=\"mark\" aria-label=\"failed\">✗</span> "
                             : "";
}

}  // namespace

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
      default:
        result += c;
    }
  }
  return result;
}

Page::Page(std::string title) : title_(std::move(title)) {}

void Page::banner(Tone tone, std::string_view text, std::string_view detail) {
  body_ +=
      fmt::format("<div class=\"banner {}\">{}<b>{}</b>", class_of(tone), mark_of(tone), html_escaped(text));
  if (!detail.empty()) body_ += fmt::format("<p>{}</p>", html_escaped(detail));
  body_ += "</div>\n";
}

void Page::heading(std::string_view text) { body_ += fmt::format("<h2>{}</h2>\n", html_escaped(text)); }

void Page::paragraph(std::string_view text) { body_ += fmt::format("<p>{}</p>\n", html_escaped(text)); }

void Page::table(const std::vector<std::string>& header, const std::vector<PageRow>& rows) {
  body_ += "<div class=\"scroll\"><table>\n<thead><tr>";
  for (const std::string& cell : header)
    body_ += fmt::format("<th scope=\"col\">{}</th>", html_escaped(cell));
  body_ += "</tr></thead>\n<tbody>\n";
  for (const PageRow& row : rows) {
    require(row.cells.size() == header.size(), "page: a row of {} cells in a table of {} columns",
            row.cells.size(), header.size());
    body_ += fmt::format("<tr class=\"row\"><td class=\"{}\">{}{}</td>", class_of(row.tone),
                         mark_of(row.tone), html_escaped(row.cells.empty() ? "" : row.cells.front()));
    for (size_t index = 1; index < row.cells.size(); ++index)
      body_ += fmt::format("<td class=\"number\">{}</td>", html_escaped(row.cells[index]));
    body_ += "</tr>\n";
    if (!row.note.empty())
      body_ += fmt::format("<tr class=\"note\"><td colspan=\"{}\">{}</td></tr>\n", header.size(),
                           html_escaped(row.note));
  }
  body_ += "</tbody>\n</table></div>\n";
}

void Page::code(std::string_view text) { body_ += fmt::format("<pre>{}</pre>\n", html_escaped(text)); }

void Page::chart(std::string_view svg) { body_ += fmt::format("<figure>{}</figure>\n", svg); }

std::string Page::finish() const {
  const std::string title = html_escaped(title_);
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n<h1>{}</h1>\n{}</body>\n</html>\n",
      title, kStyle, title, body_);
}

}  // namespace saccade
