// The stop string that is complete first wins, and of those that end together the longest: then the result
// does not depend on how the text was cut.
#include "saccade/generate/stop_filter.h"

#include <algorithm>
#include <utility>

#include "saccade/base/error.h"

namespace saccade {

StopFilter::StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_) require(!stop.empty(), "generate: a stop string is empty");
}

std::string StopFilter::push(std::string_view text) {
  if (stopped_) return {};
  held_ += text;
  size_t begin = std::string::npos, end = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t found = held_.find(stop);
    if (found == std::string::npos) continue;
    const size_t found_end = found + stop.size();
    if (found_end < end || (found_end == end && found < begin)) begin = found, end = found_end;
  }
  if (end != std::string::npos) {
    stopped_ = true;
    held_.resize(begin);
    return std::exchange(held_, {});
  }
  size_t open = 0;  // the longest end that begins a stop string
  for (const std::string& stop : stops_) {
    for (size_t length = std::min(stop.size() - 1, held_.size()); length > open; --length) {
      if (held_.ends_with(std::string_view(stop).substr(0, length))) open = length;
    }
  }
  std::string certain = held_.substr(0, held_.size() - open);
  held_.erase(0, certain.size());
  return certain;
}

std::string StopFilter::finish() { return std::exchange(held_, {}); }

}  // namespace saccade
