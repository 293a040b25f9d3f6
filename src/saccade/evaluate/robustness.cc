// A window keeps its clean half token by token; its damaged half may become shorter or longer, and is cut at
// its beginning when the window would outgrow the context.
#include "saccade/evaluate/robustness.h"

#include <algorithm>

#include "saccade/base/error.h"
#include "saccade/evaluate/corruption.h"

namespace saccade {
namespace {

// Whole windows of the texts; of a text that is shorter than one, all of it.
std::vector<std::span<const int32_t>> windows_of(std::span<const EncodedText> texts, int64_t context) {
  std::vector<std::span<const int32_t>> windows;
  for (const EncodedText& text : texts) {
    const std::span<const int32_t> ids = text.ids;
    const auto size = static_cast<size_t>(context);
    if (ids.size() < size && ids.size() >= 4) windows.push_back(ids);
    for (size_t begin = 0; begin + size <= ids.size(); begin += size)
      windows.push_back(ids.subspan(begin, size));
  }
  return windows;
}

std::vector<int32_t> damage(const Tokenizer& tokenizer, std::span<const int32_t> ids, Corruption corruption,
                            double rate, const RandomStream& random) {
  switch (corruption) {
    case Corruption::none:
      break;
    case Corruption::token_drop:
      return drop_tokens(ids, rate, random);
    case Corruption::token_swap:
      return swap_tokens(ids, rate, random);
    case Corruption::typos:
      return tokenizer.encode(add_typos(tokenizer.decode(ids), rate, random), false);
  }
  return {ids.begin(), ids.end()};
}

Sequence damaged_window(const Tokenizer& tokenizer, std::span<const int32_t> window, int64_t context,
                        Corruption corruption, double rate, const RandomStream& random) {
  const size_t half = window.size() / 2;
  size_t kept = 0;  // what the tokenizer puts before a text stays
  while (kept < half && tokenizer.is_special(window[kept])) ++kept;
  std::vector<int32_t> read = damage(tokenizer, window.subspan(kept, half - kept), corruption, rate, random);
  const size_t most = static_cast<size_t>(context) - (window.size() - half) - kept;
  if (read.size() > most) read.erase(read.begin(), read.end() - static_cast<ptrdiff_t>(most));
  // The first clean token is predicted by the last damaged one, so one has to be left.
  if (read.empty() && kept == 0) read.push_back(window[half - 1]);
  Sequence sequence{.ids = {window.begin(), window.begin() + static_cast<ptrdiff_t>(kept)}};
  sequence.ids.insert(sequence.ids.end(), read.begin(), read.end());
  const auto first = static_cast<int64_t>(sequence.ids.size());
  sequence.ids.insert(sequence.ids.end(), window.begin() + static_cast<ptrdiff_t>(half), window.end());
  sequence.ask_next(first, static_cast<int64_t>(sequence.ids.size()));
  return sequence;
}

}  // namespace

std::string_view name_of(Corruption corruption) {
  switch (corruption) {
    case Corruption::none:
      return "none";
    case Corruption::token_drop:
      return "token drop";
    case Corruption::token_swap:
      return "token swap";
    case Corruption::typos:
      return "typos";
  }
  return "";
}

std::string Robustness::convention() const {
  return fmt::format(
      "{} windows of at most {} tokens; the first half of each is damaged at the rate (tokens left out, "
      "tokens "
      "swapped with the next, characters mistyped; seed {}), the second half is clean and all its tokens "
      "count",
      windows, options.context, options.seed);
}

Robustness measure_robustness(const Reader& reader, const Tokenizer& tokenizer,
                              std::span<const EncodedText> texts, const RobustnessOptions& options) {
  require(options.context >= 4, "robustness: a context of {}; expected at least 4 tokens", options.context);
  require(options.windows >= 1, "robustness: {} windows; expected at least 1", options.windows);
  require(options.batch_size >= 1, "robustness: batches of {}; expected at least 1", options.batch_size);
  for (const double rate : options.rates)
    require(rate >= 0 && rate <= 1, "robustness: a rate of {}; expected 0 to 1", rate);
  const std::vector<std::span<const int32_t>> all = windows_of(texts, options.context);
  require(!all.empty(), "robustness: no text has 4 tokens");
  const auto count = std::min(all.size(), static_cast<size_t>(options.windows));

  Robustness result{.options = options, .windows = static_cast<int64_t>(count)};
  result.points.push_back({Corruption::none, 0, {}});
  for (const Corruption corruption : {Corruption::token_drop, Corruption::token_swap, Corruption::typos})
    for (const double rate : options.rates) result.points.push_back({corruption, rate, {}});
  int64_t done = 0;
  const auto total = static_cast<int64_t>(result.points.size() * count);
  for (RobustnessPoint& point : result.points) {
    const RandomStream random(options.seed, name_of(point.corruption));
    for (size_t first = 0; first < count; first += static_cast<size_t>(options.batch_size)) {
      std::vector<Sequence> batch;
      for (size_t index = first; index < std::min(first + static_cast<size_t>(options.batch_size), count);
           ++index)
        batch.push_back(damaged_window(tokenizer, all[index * all.size() / count], options.context,
                                       point.corruption, point.rate, random.split(std::to_string(index))));
      for (const std::vector<Answer>& answers : reader(batch)) point.scored.add(answers);
      done += static_cast<int64_t>(batch.size());
      if (options.on_progress) options.on_progress(done, total);
    }
  }
  return result;
}

}  // namespace saccade
