// Ends a text at the first stop string, however the text is cut into pieces. What might still become a stop
// string is held back, so that nothing is shown that would have to be taken back.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace saccade {

class StopFilter {
 public:
  // Throws Error for an empty stop string, which would be found everywhere.
  explicit StopFilter(std::vector<std::string> stops);

  // The text that is certain now. Nothing comes after a stop string.
  std::string push(std::string_view text);
  // What was held back, when no more text comes.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace saccade
