// One loop for both conventions: a window that moves by its own length does not overlap the next.
#include "saccade/evaluate/perplexity.h"

#include <algorithm>
#include <bit>
#include <numbers>

#include "saccade/base/error.h"
#include "saccade/base/meter.h"

namespace saccade {
namespace {

int64_t count_words(std::string_view text) {
  int64_t words = 0;
  bool inside = false;
  for (const char c : text) {
    const bool space = c == ' ' || (c >= '\t' && c <= '\r');
    words += !space && !inside ? 1 : 0;
    inside = !space;
  }
  return words;
}

// 1 to 16 tokens seen are the first bucket; each further one ends at twice the last.
size_t bucket_of(int64_t seen) { return std::bit_width(static_cast<uint64_t>(seen - 1) / 16); }

struct Window {
  const EncodedText* text;
  int64_t begin, end;  // its tokens
  int64_t counted;     // the first that counts
};

std::vector<Window> windows_of(std::span<const EncodedText> texts, int64_t context, int64_t stride) {
  std::vector<Window> windows;
  for (const EncodedText& text : texts) {
    const auto size = static_cast<int64_t>(text.ids.size());
    for (int64_t begin = 0, counted = 0; begin < size; begin += stride) {
      const int64_t end = std::min(begin + context, size);
      // A window of one token predicts nothing.
      if (end - begin > 1) windows.push_back({&text, begin, end, counted});
      counted = end;
      if (end == size) break;
    }
  }
  return windows;
}

Sequence sequence_of(const Window& window) {
  Sequence sequence;
  sequence.ids.assign(window.text->ids.begin() + window.begin, window.text->ids.begin() + window.end);
  sequence.ask_next(window.counted - window.begin, window.end - window.begin);
  return sequence;
}

}  // namespace

EncodedText encode_text(const Tokenizer& tokenizer, std::string_view text, std::string_view where,
                        int64_t max_tokens) {
  require(!text.empty(), "{}: it is empty; expected a text", where);
  EncodedText result{.ids = tokenizer.encode(text),
                     .special = static_cast<int64_t>(tokenizer.encode("").size()),
                     .words = count_words(text),
                     .bytes = static_cast<int64_t>(text.size())};
  require(static_cast<int64_t>(result.ids.size()) > result.special, "{}: there are no tokens in it", where);
  if (max_tokens > 0 && max_tokens < static_cast<int64_t>(result.ids.size())) {
    result.ids.resize(static_cast<size_t>(max_tokens));
    const std::string kept = tokenizer.decode(result.ids);
    result.words = count_words(kept);
    result.bytes = static_cast<int64_t>(kept.size());
    // Those at the end are gone with the rest.
    result.special = std::ranges::count_if(
        std::span(result.ids).first(std::min<size_t>(result.ids.size(), static_cast<size_t>(result.special))),
        [&](int32_t id) { return tokenizer.is_special(id); });
  }
  return result;
}

std::vector<Sequence> next_token_windows(std::span<const EncodedText> texts, int64_t context) {
  std::vector<Sequence> sequences;
  for (const Window& window : windows_of(texts, context, context)) sequences.push_back(sequence_of(window));
  return sequences;
}

double Perplexity::nll_per_word() const {
  return scored.mean_nll() * static_cast<double>(tokens) / static_cast<double>(words);
}

double Perplexity::bits_per_byte() const {
  return scored.mean_nll() / std::numbers::ln2 * static_cast<double>(tokens) / static_cast<double>(bytes);
}

std::string Perplexity::convention() const {
  std::string text =
      options.stride == options.context
          ? fmt::format(
                "strided: windows of {} tokens that do not overlap; in each, all tokens but the first "
                "are predicted from those before them",
                options.context)
          : fmt::format(
                "sliding: a window of {} tokens moves by {}; the first predicts all its tokens but "
                "one, each later one those that are new in it",
                options.context, options.stride);
  if (special > 0)
    text += fmt::format("; the tokenizer's special tokens ({} in {}) are read and predicted with the rest",
                        special, texts == 1 ? "the text" : fmt::format("{} texts", texts));
  return text +
         "; per word and per byte: the mean per token times the tokens of the text over its "
         "white-space words or bytes";
}

Perplexity measure_perplexity(const Reader& reader, std::span<const EncodedText> texts,
                              const PerplexityOptions& options) {
  Perplexity result{.options = options};
  int64_t& stride = result.options.stride;
  if (stride == 0) stride = options.context;
  require(options.context >= 2, "perplexity: a context of {}; expected at least 2 tokens", options.context);
  require(stride >= 1 && stride <= options.context,
          "perplexity: a stride of {}; expected 1 to the context of {}", stride, options.context);
  require(options.batch_size >= 1, "perplexity: batches of {}; expected at least 1", options.batch_size);
  for (const EncodedText& text : texts) {
    ++result.texts;
    result.tokens += static_cast<int64_t>(text.ids.size()) - text.special;
    result.words += text.words;
    result.bytes += text.bytes;
    result.special += text.special;
  }
  const std::vector<Window> windows = windows_of(texts, options.context, stride);
  require(!windows.empty(), "perplexity: {} tokens; expected at least 2", result.tokens + result.special);
  result.windows = static_cast<int64_t>(windows.size());

  const Meter meter;
  for (int64_t first = 0; first < result.windows; first += options.batch_size) {
    std::vector<Sequence> batch;
    for (int64_t index = first; index < std::min(first + options.batch_size, result.windows); ++index)
      batch.push_back(sequence_of(windows[static_cast<size_t>(index)]));
    const Answers answers = reader(batch);
    for (size_t index = 0; index < batch.size(); ++index) {
      result.read += static_cast<int64_t>(batch[index].ids.size());
      for (size_t question = 0; question < answers[index].size(); ++question) {
        const Answer& answer = answers[index][question];
        result.scored.add(answer);
        const size_t bucket = bucket_of(batch[index].questions[question].row + 1);
        while (result.length_curve.size() <= bucket) {
          const int64_t last = int64_t{16} << result.length_curve.size();
          result.length_curve.push_back({last == 16 ? 1 : last / 2 + 1, last, {}});
        }
        result.length_curve[bucket].scored.add(answer);
      }
    }
    if (options.on_progress) options.on_progress(first + static_cast<int64_t>(batch.size()), result.windows);
  }
  result.seconds = meter.seconds();
  result.peak_bytes = meter.peak_bytes();
  std::erase_if(result.length_curve, [](const LengthBucket& bucket) { return bucket.scored.tokens == 0; });
  if (!result.length_curve.empty()) {
    int64_t& last = result.length_curve.back().last;
    last = std::min(last, options.context - 1);
  }
  return result;
}

}  // namespace saccade
