// A page for a browser, made from text, tables and charts: one HTML file that asks for nothing else, follows
// the reader's light or dark theme, and can be printed. Whatever is given as text is shown as text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace saccade {

enum class Tone { plain, good, bad };

/// A row whose first cell may carry a tone, which is shown by a colour and by a mark.
struct PageRow {
  std::vector<std::string> cells;
  Tone tone = Tone::plain;
  std::string note;  ///< A smaller line below the row; empty: there is none.
};

class Page {
 public:
  explicit Page(std::string title);

  /// A line that is seen first: what the page comes to.
  void banner(Tone tone, std::string_view text, std::string_view detail = {});
  void heading(std::string_view text);
  void paragraph(std::string_view text);
  /// Throws Error for a row with another number of cells than the header.
  void table(const std::vector<std::string>& header, const std::vector<PageRow>& rows);
  /// Text in columns of equal width, such as a command or a hash; long lines are broken.
  void code(std::string_view text);
  /// What to_svg made.
  void chart(std::string_view svg);

  std::string finish() const;

 private:
  std::string title_, body_;
};

/// Text with what means something in HTML written out, also between quotes.
std::string html_escaped(std::string_view text);

}  // namespace saccade
