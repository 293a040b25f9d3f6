// Three parts of the text one after the other; windows are spread evenly over their part.
#include "saccade/distill/texts.h"

#include "saccade/base/error.h"

namespace saccade {
namespace {

constexpr double kLearnShare = 0.7, kSenseShare = 0.12;

void add_windows(const TokenIds& text, int64_t begin, int64_t end, int64_t tokens, int64_t wanted,
                 std::vector<TokenIds>& windows) {
  const int64_t count = std::min(wanted, (end - begin) / tokens);
  for (int64_t index = 0; index < count; ++index) {
    const int64_t first = begin + (count == 1 ? 0 : index * (end - begin - tokens) / (count - 1));
    windows.emplace_back(text.begin() + first, text.begin() + first + tokens);
  }
}

}  // namespace

TextWindows cut_windows(const TokenIds& text, std::span<const WindowCount> counts) {
  const int64_t size = std::ssize(text), shortest = counts.front().tokens;
  // A short text is divided so that each part has room for one window at least.
  const auto learn_end =
      std::min(static_cast<int64_t>(kLearnShare * static_cast<double>(size)), size - 2 * shortest);
  const auto sense_end =
      std::min(std::max(learn_end + shortest,
                        static_cast<int64_t>((kLearnShare + kSenseShare) * static_cast<double>(size))),
               size - shortest);
  require(learn_end >= shortest,
          "distill: a text of {} tokens; expected at least {}, for three windows of {}", size, 3 * shortest,
          shortest);
  TextWindows result;
  for (const WindowCount& count : counts) {
    add_windows(text, 0, learn_end, count.tokens, count.learn, result.learn);
    add_windows(text, learn_end, sense_end, count.tokens, count.sense, result.sense);
    add_windows(text, sense_end, size, count.tokens, count.hold_out, result.held_out);
  }
  return result;
}

}  // namespace saccade
