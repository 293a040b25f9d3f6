// Windows that do not overlap, each wrapped as the tokenizer wraps a text; hidden places are drawn one by
// one.
#include "saccade/evaluate/masked.h"

#include <algorithm>

#include "saccade/base/error.h"
#include "saccade/base/meter.h"
#include "saccade/base/random.h"

namespace saccade {
namespace {

// What the tokenizer puts before and after a text.
struct Wrapping {
  std::vector<int32_t> before, after;
};

Wrapping wrapping_of(const Tokenizer& tokenizer) {
  const std::vector<int32_t> ids = tokenizer.encode("a");
  const auto special = [&](int32_t id) { return tokenizer.is_special(id); };
  const auto first = std::find_if_not(ids.begin(), ids.end(), special);
  const auto last = std::find_if_not(ids.rbegin(), ids.rend(), special).base();
  return first < last ? Wrapping{{ids.begin(), first}, {last, ids.end()}} : Wrapping{};
}

Sequence hide(std::span<const int32_t> ids, const Wrapping& wrapping, int32_t mask, double rate,
              RandomStream& random) {
  Sequence sequence{.ids = wrapping.before};
  sequence.ids.insert(sequence.ids.end(), ids.begin(), ids.end());
  sequence.ids.insert(sequence.ids.end(), wrapping.after.begin(), wrapping.after.end());
  const auto ask = [&](size_t place) {
    int32_t& id = sequence.ids[wrapping.before.size() + place];
    sequence.questions.push_back({static_cast<int64_t>(wrapping.before.size() + place), id});
    id = mask;
  };
  for (size_t place = 0; place < ids.size(); ++place)
    if (random.uniform() < rate) ask(place);
  // A window in which nothing is hidden would be read in vain.
  if (sequence.questions.empty()) ask(random.below(ids.size()));
  return sequence;
}

}  // namespace

std::string Masked::convention() const {
  return fmt::format(
      "windows of {} tokens that do not overlap; {:g} % of the tokens, drawn with seed {}, are replaced by "
      "the "
      "mask token, all at once, and only these are predicted",
      options.context, 100 * options.rate, options.seed);
}

std::vector<Sequence> masked_windows(const Tokenizer& tokenizer, std::span<const EncodedText> texts,
                                     const MaskedOptions& options) {
  const std::optional<int32_t> mask = tokenizer.special_ids().mask;
  require(mask.has_value(), "masked accuracy: the tokenizer has no mask token");
  require(options.rate > 0 && options.rate <= 1,
          "masked accuracy: a rate of {}; expected more than 0, at most 1", options.rate);
  require(options.batch_size >= 1, "masked accuracy: batches of {}; expected at least 1", options.batch_size);
  const Wrapping wrapping = wrapping_of(tokenizer);
  const int64_t inside =
      options.context - static_cast<int64_t>(wrapping.before.size() + wrapping.after.size());
  require(inside >= 1, "masked accuracy: a context of {}; expected more than the special tokens take",
          options.context);
  RandomStream random(options.seed, "masked tokens");
  std::vector<Sequence> windows;
  for (const EncodedText& text : texts) {
    std::vector<int32_t> ids = text.ids;
    std::erase_if(ids, [&](int32_t id) { return tokenizer.is_special(id); });
    for (std::span<const int32_t> rest = ids; !rest.empty();) {
      const size_t size = std::min(rest.size(), static_cast<size_t>(inside));
      windows.push_back(hide(rest.first(size), wrapping, *mask, options.rate, random));
      rest = rest.subspan(size);
    }
  }
  require(!windows.empty(), "masked accuracy: the text has no tokens but special ones");
  return windows;
}

Masked measure_masked(const Reader& reader, const Tokenizer& tokenizer, std::span<const EncodedText> texts,
                      const MaskedOptions& options) {
  const std::vector<Sequence> windows = masked_windows(tokenizer, texts, options);
  Masked result{.options = options, .windows = static_cast<int64_t>(windows.size())};
  const Meter meter;
  for (std::span<const Sequence> rest = windows; !rest.empty();) {
    const std::span<const Sequence> batch =
        rest.first(std::min(rest.size(), static_cast<size_t>(options.batch_size)));
    for (const Sequence& sequence : batch) result.read += static_cast<int64_t>(sequence.ids.size());
    for (const std::vector<Answer>& answers : reader(batch)) result.scored.add(answers);
    rest = rest.subspan(batch.size());
    if (options.on_progress)
      options.on_progress(result.windows - static_cast<int64_t>(rest.size()), result.windows);
  }
  result.seconds = meter.seconds();
  result.peak_bytes = meter.peak_bytes();
  return result;
}

}  // namespace saccade
