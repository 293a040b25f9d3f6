// Texts become windows once, and every measurement takes its own from these.
#include "saccade/certify/fidelity.h"

#include <algorithm>
#include <numeric>

#include "saccade/base/error.h"
#include "saccade/base/text.h"
#include "saccade/evaluate/masked.h"
#include "saccade/evaluate/perplexity.h"
#include "saccade/evaluate/reader.h"

namespace saccade {
namespace {

std::string_view purpose(HeadKind head) {
  switch (head) {
    case HeadKind::none:
      return "has no head";
    case HeadKind::language_model:
      return "predicts the next token";
    case HeadKind::masked_model:
      return "predicts masked tokens";
    case HeadKind::classifier:
      return "gives labels";
  }
  return "";
}

void require_comparable(const TextModel& baseline, const TextModel& candidate,
                        std::span<const DataText> texts) {
  const Architecture& a = baseline.model->architecture();
  const Architecture& b = candidate.model->architecture();
  require(a.head == b.head, "certify: {} {} and {} {}; expected heads of one kind", baseline.name,
          purpose(a.head), candidate.name, purpose(b.head));
  require(a.vocabulary == b.vocabulary,
          "certify: {} has {} tokens and {} has {}; expected the same vocabulary", baseline.name,
          a.vocabulary, candidate.name, b.vocabulary);
  // Two vocabularies of one size may still differ in what the ids mean.
  for (const DataText& text : texts) {
    const std::string_view start = std::string_view(text.content).substr(0, 1 << 16);
    const std::vector<int32_t> ours = baseline.tokenizer.encode(start),
                               theirs = candidate.tokenizer.encode(start);
    const auto [mine, other] = std::ranges::mismatch(ours, theirs);
    require(mine == ours.end() && other == theirs.end(),
            "certify: {} and {} read {} differently, from token {} on; expected the same vocabulary",
            baseline.name, candidate.name, text.name, mine - ours.begin());
  }
}

std::vector<EncodedText> encode(const Tokenizer& tokenizer, std::span<const DataText> texts,
                                int64_t max_tokens) {
  std::vector<EncodedText> result;
  for (const DataText& text : texts)
    result.push_back(encode_text(tokenizer, text.content, text.name, max_tokens));
  return result;
}

// Every line that is not empty is a text of its own. One that is too long loses its end, but not the token
// that the tokenizer puts there.
std::vector<std::vector<int32_t>> encode_lines(const Tokenizer& tokenizer, std::span<const DataText> texts,
                                               const FidelityOptions& options) {
  std::vector<std::vector<int32_t>> lines;
  for (const DataText& text : texts) {
    int64_t tokens = 0;
    for (const std::string_view line : split_lines(text.content)) {
      if (options.max_tokens > 0 && tokens >= options.max_tokens) break;
      if (trim(line).empty()) continue;
      std::vector<int32_t> ids = tokenizer.encode(trim(line));
      if (static_cast<int64_t>(ids.size()) > options.context) {
        ids[static_cast<size_t>(options.context) - 1] = ids.back();
        ids.resize(static_cast<size_t>(options.context));
      }
      tokens += static_cast<int64_t>(ids.size());
      if (!ids.empty()) lines.push_back(std::move(ids));
    }
  }
  return lines;
}

// Windows from all over the text, cut to their beginning.
std::vector<Sequence> some_of(std::span<const Sequence> windows, int64_t count, int64_t tokens) {
  std::vector<Sequence> chosen;
  const auto size = static_cast<int64_t>(windows.size());
  count = std::min(count, size);
  for (int64_t index = 0; index < count; ++index) {
    Sequence window = windows[static_cast<size_t>(index * size / count)];
    if (static_cast<int64_t>(window.ids.size()) > tokens) window.ids.resize(static_cast<size_t>(tokens));
    // A question's row and, where the next token is asked for, the one behind it must still be there.
    std::erase_if(window.questions, [&](const Question& each) { return each.row + 1 >= tokens; });
    if (!window.questions.empty()) chosen.push_back(std::move(window));
  }
  return chosen;
}

std::vector<std::vector<int32_t>> longest_of(std::vector<std::vector<int32_t>> texts, int64_t count,
                                             int64_t tokens) {
  std::ranges::stable_sort(texts, [](const auto& a, const auto& b) { return a.size() > b.size(); });
  texts.resize(std::min(texts.size(), static_cast<size_t>(count)));
  for (auto& text : texts) text.resize(std::min(text.size(), static_cast<size_t>(tokens)));
  return texts;
}

std::vector<std::vector<int32_t>> ids_of(std::span<const Sequence> windows) {
  std::vector<std::vector<int32_t>> result;
  for (const Sequence& window : windows) result.push_back(window.ids);
  return result;
}

class Measuring {
 public:
  Measuring(TextModel& baseline, TextModel& candidate, const FidelityOptions& options)
      : baseline_(baseline), candidate_(candidate), options_(options) {}

  Fidelity run(std::span<const DataText> texts) {
    const HeadKind head = baseline_.model->architecture().head;
    result_.predicts_next = head == HeadKind::language_model;
    if (result_.predicts_next || head == HeadKind::masked_model)
      compare_predictions(texts);
    else
      compare_vectors(texts);
    if (options_.passkey || options_.recall) compare_tasks();
    return std::move(result_);
  }

 private:
  OnProgress progress(const std::string& what) const {
    return options_.progress ? options_.progress(what) : OnProgress();
  }

  void compare_predictions(std::span<const DataText> texts) {
    const std::vector<EncodedText> encoded = encode(baseline_.tokenizer, texts, options_.max_tokens);
    const std::vector<Sequence> windows =
        result_.predicts_next ? next_token_windows(encoded, options_.context)
                              : masked_windows(baseline_.tokenizer, encoded,
                                               {.context = options_.context, .seed = options_.seed});
    int64_t there = 0;
    for (const EncodedText& text : encoded) there += static_cast<int64_t>(text.ids.size());
    require(!windows.empty(), "certify: {} in the text; expected at least 2", plural(there, "token"));
    for (const Sequence& window : windows) result_.text_tokens += static_cast<int64_t>(window.ids.size());
    result_.tokens = compare_tokens(baseline_.model, candidate_.model, windows,
                                    {.batch_size = options_.batch_size,
                                     .all_places = !result_.predicts_next,
                                     .on_progress = progress("tokens")});
    const std::vector<Sequence> looked = some_of(windows, options_.look_windows, options_.look_tokens);
    look_inside(ids_of(looked), looked);
    measure_cost(windows.front().ids, ids_of(windows));
  }

  void compare_vectors(std::span<const DataText> texts) {
    const std::vector<std::vector<int32_t>> lines = encode_lines(baseline_.tokenizer, texts, options_);
    require(lines.size() >= 2, "certify: {} in the text; expected at least 2, each a text to embed",
            plural(static_cast<int64_t>(lines.size()), "line"));
    result_.embeddings = compare_embeddings(baseline_.model, candidate_.model, lines, options_.batch_size,
                                            progress("embeddings"));
    result_.text_tokens = result_.embeddings->tokens;
    const auto looked = longest_of(lines, options_.look_windows, options_.look_tokens);
    look_inside(looked, {});
    measure_cost(looked.front(), lines);
  }

  // Weights, and gradients of the loss where questions ask for tokens.
  void look_inside(std::span<const std::vector<int32_t>> windows, std::span<const Sequence> questions) {
    const Architecture& a = baseline_.model->architecture();
    const Architecture& b = candidate_.model->architecture();
    const auto differ = [](const char* what, int64_t ours, int64_t theirs) {
      return ours == theirs ? ""
                            : fmt::format("the baseline has {} {} and the candidate {}", ours, what, theirs);
    };
    result_.no_maps = differ("layers", a.layers, b.layers);
    if (result_.no_maps.empty()) result_.no_maps = differ("heads", a.heads, b.heads);
    if (result_.no_maps.empty() && windows.empty()) result_.no_maps = "no window was long enough";
    if (result_.no_maps.empty())
      result_.maps = compare_maps(baseline_.model, candidate_.model, windows, progress("attention weights"));
    result_.no_gradients = result_.no_maps;
    for (const std::string& reason :
         {differ("key heads", a.kv_heads, b.kv_heads), differ("numbers in a hidden state", a.width, b.width),
          differ("numbers in a head", a.head_dim, b.head_dim)})
      if (result_.no_gradients.empty()) result_.no_gradients = reason;
    if (result_.no_gradients.empty() && a.embedded_qkv != b.embedded_qkv)
      result_.no_gradients = "only one of the models looks queries, keys and values up by the token";
    if (result_.no_gradients.empty() && questions.empty())
      result_.no_gradients = "a model without a head for tokens has no loss";
    if (result_.no_gradients.empty())
      result_.gradients =
          compare_gradients(baseline_.model, candidate_.model, questions, progress("gradients"));
  }

  void measure_cost(std::span<const int32_t> window, const std::vector<std::vector<int32_t>>& all) {
    result_.speed = compare_speed(baseline_.model, candidate_.model, window, options_.speed_rounds);
    if (options_.memory_lengths.empty()) return;
    const int64_t longest = std::ranges::max(options_.memory_lengths);
    std::vector<int32_t> ids;
    for (const std::vector<int32_t>& each : all)
      if (static_cast<int64_t>(ids.size()) < longest) ids.insert(ids.end(), each.begin(), each.end());
    result_.memory =
        compare_memory(baseline_.model, candidate_.model, ids, options_.memory_lengths, progress("memory"));
  }

  void compare_tasks() {
    require(result_.predicts_next, "certify: {} does not predict the next token, which a task asks for",
            baseline_.name);
    RetrievalOptions options{.context = options_.context, .seed = options_.seed};
    if (!options_.passkey) options.depths.clear();
    if (!options_.recall) options.pairs.clear();
    options.on_progress = progress("task, baseline");
    result_.baseline_task = measure_retrieval(reader_of(baseline_.model), baseline_.tokenizer, options);
    options.on_progress = progress("task, candidate");
    result_.candidate_task = measure_retrieval(reader_of(candidate_.model), baseline_.tokenizer, options);
  }

  TextModel& baseline_;
  TextModel& candidate_;
  const FidelityOptions& options_;
  Fidelity result_;
};

}  // namespace

double task_accuracy(const Retrieval& retrieval) {
  int64_t asked = 0, found = 0;
  for (const auto* cells : {&retrieval.passkey, &retrieval.recall})
    for (const RetrievalCell& cell : *cells) {
      asked += cell.asked;
      found += cell.found;
    }
  return static_cast<double>(found) / static_cast<double>(asked);
}

Fidelity measure_fidelity(TextModel& baseline, TextModel& candidate, std::span<const DataText> texts,
                          const FidelityOptions& options) {
  require(!texts.empty(), "certify: no text to read");
  for (const DataText& text : texts)
    require(!trim(text.content).empty(), "{}: it is empty; expected a text", text.name);
  require_comparable(baseline, candidate, texts);
  return Measuring(baseline, candidate, options).run(texts);
}

}  // namespace saccade
