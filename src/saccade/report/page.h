// A page for a browser, made from text, tables and charts: one HTML file that asks for nothing else, follows
// the reader's light or dark theme, and can be printed. It runs no script; a report (report.h) does.
#pragma once

#include "saccade/report/fragment.h"

namespace saccade {

class Page : public Fragment {
 public:
  explicit Page(std::string title) : title_(std::move(title)) {}

  std::string finish() const;

 private:
  std::string title_;
};

}  // namespace saccade
