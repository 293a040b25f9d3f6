#include "saccade/report/page.h"

#include <fmt/format.h>

#include "saccade/report/web.h"

namespace saccade {

std::string Page::finish() const {
  const std::string title = html_escaped(title_);
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<h1>{}</h1>\n{}</body>\n</html>\n",
      title, web_file("theme.css"), title, html());
}

}  // namespace saccade
