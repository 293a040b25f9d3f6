#include "saccade/report/web.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "saccade/base/base64.h"
#include "saccade/base/error.h"
#include "saccade/base/sha256.h"

namespace saccade {

std::string_view web_file(std::string_view name) {
  const std::span<const WebFile> files = web_files();
  const auto found = std::ranges::find(files, name, &WebFile::name);
  invariant(found != files.end(), fmt::format("{} is a file of report/web", name));
  return found->text;
}

std::string web_files_joined(std::initializer_list<std::string_view> names) {
  std::string text;
  for (const std::string_view name : names) {
    // A browser takes line ends of other systems for newlines, and would find another hash.
    std::ranges::copy_if(web_file(name), std::back_inserter(text), [](char c) { return c != '\r'; });
    if (!text.ends_with('\n')) text += '\n';
  }
  return text;
}

std::string plot_scripts() {
  return "/*! uPlot\n" + web_files_joined({"LICENSE"}) + "*/\n" +
         web_files_joined({"uPlot.iife.min.js", "dom.js", "format.js", "theme.js", "tables.js", "charts.js",
                           "dots.js", "heatmap.js", "attention.js"});
}

std::string plot_styles() { return web_files_joined({"uPlot.min.css", "theme.css", "plots.css"}); }

std::string allowed_by_content(std::string_view text) {
  const std::string digits = sha256(text);
  std::vector<std::byte> bytes;
  for (size_t at = 0; at < digits.size(); at += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(digits.substr(at, 2), nullptr, 16)));
  return fmt::format("'sha256-{}'", to_base64(bytes));
}

std::string json_for_script(const Json& value) {
  const std::string text = dump(value);
  std::string result;
  result.reserve(text.size());
  // All of these occur in JSON only within strings, where an escape means the same. U+2028 and U+2029 end a
  // line for scripts of old browsers.
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '<' || c == '>' || c == '&') {
      result += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else if (text.compare(at, 3, "\xe2\x80\xa8") == 0 || text.compare(at, 3, "\xe2\x80\xa9") == 0) {
      result += text[at + 2] == '\xa8' ? "\\u2028" : "\\u2029";
      at += 2;
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace saccade
