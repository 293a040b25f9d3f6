// Text that a model wrote, for a person to read: without what could steer a terminal, wrapped, in two
// columns.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace saccade {

/// Text as a terminal may get it: control characters but tabs and ends of lines become U+FFFD.
std::string harmless(std::string_view text);

/// Lines of at most `width` columns, broken between words where that is possible.
std::vector<std::string> wrap(std::string_view text, int width);

struct TitledText {
  std::string title, text;
};

/// Two texts beside each other, within `width` columns; each line ended, without trailing spaces.
std::string side_by_side(const TitledText& left, const TitledText& right, int width);

/// The same one below the other, for files, pipes and narrow terminals.
std::string one_by_one(const TitledText& first, const TitledText& second);

}  // namespace saccade
