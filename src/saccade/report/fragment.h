// A part of a page: banners, text, tables and pictures one after another, as HTML. Whatever is given as text
// is shown as text.
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

class Fragment {
 public:
  /// A line that is seen first: what the page comes to.
  void banner(Tone tone, std::string_view text, std::string_view detail = {});
  void heading(std::string_view text);
  void subheading(std::string_view text);
  void paragraph(std::string_view text);
  /// What is good to know but not what the page is about.
  void note(std::string_view text);
  /// Columns of numbers are aligned to the right. Throws Error for a row with another number of cells than
  /// the header.
  void table(const std::vector<std::string>& header, const std::vector<PageRow>& rows);
  /// Text in columns of equal width, such as a command or a hash; long lines are broken.
  void code(std::string_view text);
  /// What to_svg made.
  void chart(std::string_view svg);
  /// HTML that was made elsewhere, such as by plot_html.
  void add(std::string_view html) { body_ += html; }

  const std::string& html() const { return body_; }

 private:
  std::string body_;
};

/// Text with what means something in HTML written out, also between quotes.
std::string html_escaped(std::string_view text);

/// "good" or "bad" for a class, and a sign that is read aloud as well as seen.
std::string_view class_of(Tone tone);
std::string_view mark_of(Tone tone);

}  // namespace saccade
