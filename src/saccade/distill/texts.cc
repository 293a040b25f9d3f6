// A long text is cut into stretches and each of them into three parts, so that no purpose sees one article
// alone; windows are dealt to the stretches in turn and spread evenly over their parts.
#include "saccade/distill/texts.h"

#include "saccade/base/error.h"

namespace saccade {
namespace {

constexpr double kLearnShare = 0.5, kSenseShare = 0.18;  // the rest is held out
constexpr int64_t kMostStretches = 6;

struct Part {
  int64_t begin = 0, end = 0;
};

// What falls to a stretch when so many windows are dealt, beginning with the first.
int64_t share_of(int64_t wanted, int64_t stretch, int64_t stretches) {
  return wanted / stretches + (stretch < wanted % stretches ? 1 : 0);
}

void add_windows(const TokenIds& text, const std::vector<Part>& parts, int64_t tokens, int64_t wanted,
                 std::vector<TokenIds>& windows) {
  const int64_t stretches = std::ssize(parts);
  for (int64_t stretch = 0; stretch < stretches; ++stretch) {
    const auto [begin, end] = parts[static_cast<size_t>(stretch)];
    const int64_t count = std::min(share_of(wanted, stretch, stretches), (end - begin) / tokens);
    for (int64_t index = 0; index < count; ++index) {
      const int64_t first = begin + (count == 1 ? 0 : index * (end - begin - tokens) / (count - 1));
      windows.emplace_back(text.begin() + first, text.begin() + first + tokens);
    }
  }
}

}  // namespace

TextWindows cut_windows(const TokenIds& text, std::span<const WindowCount> counts) {
  const int64_t size = std::ssize(text), shortest = counts.front().tokens;
  require(size >= 3 * shortest, "distill: a text of {} tokens; expected at least {}, for three windows of {}",
          size, 3 * shortest, shortest);
  // As many stretches as have room for all windows that fall to them; one, where even that lacks room.
  const auto has_room = [&](int64_t stretches) {
    const auto each = static_cast<double>(size / stretches);
    const double held_out = 1 - kLearnShare - kSenseShare;
    return std::ranges::all_of(counts, [&](const WindowCount& count) {
      const auto fits = [&](int64_t wanted, double part) {
        const auto tokens = share_of(wanted, 0, stretches) * count.tokens;
        return static_cast<double>(tokens) <= part * each;
      };
      return fits(count.learn, kLearnShare) && fits(count.sense, kSenseShare) &&
             fits(count.hold_out, held_out);
    });
  };
  int64_t stretches = kMostStretches;
  while (stretches > 1 && !has_room(stretches)) --stretches;
  std::vector<Part> learn, sense, hold_out;
  for (int64_t stretch = 0; stretch < stretches; ++stretch) {
    const int64_t begin = stretch * size / stretches, end = (stretch + 1) * size / stretches;
    const auto share = [&](double part) {
      return begin + static_cast<int64_t>(part * static_cast<double>(end - begin));
    };
    // A short text is divided so that each part has room for one window at least.
    const int64_t learn_end = std::min(share(kLearnShare), end - 2 * shortest),
                  sense_end = std::min(std::max(learn_end + shortest, share(kLearnShare + kSenseShare)),
                                       end - shortest);
    learn.push_back({begin, learn_end});
    sense.push_back({learn_end, sense_end});
    hold_out.push_back({sense_end, end});
  }
  TextWindows result;
  for (const WindowCount& count : counts) {
    add_windows(text, learn, count.tokens, count.learn, result.learn);
    add_windows(text, sense, count.tokens, count.sense, result.sense);
    add_windows(text, hold_out, count.tokens, count.hold_out, result.held_out);
  }
  return result;
}

}  // namespace saccade
