// Prompts are sorted by length into batches, so that little is padding. A text that has ended leaves its
// batch.
#include "saccade/generate/generation.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <span>
#include <utility>

#include "saccade/base/error.h"
#include "saccade/base/log.h"
#include "saccade/generate/beam.h"
#include "saccade/generate/stop_filter.h"
#include "saccade/text/stream_decoder.h"

namespace saccade {
namespace {

using at::Tensor;

class Stopwatch {
 public:
  double lap() {  // seconds since the last call
    const auto before = std::exchange(last_, std::chrono::steady_clock::now());
    return std::chrono::duration<double>(last_ - before).count();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// The text of one continuation while its ids come.
class Writer {
 public:
  Writer(const Tokenizer& tokenizer, const std::vector<int32_t>& prompt, const std::vector<std::string>& stop)
      : decoder_(tokenizer), filter_(stop) {
    // What a token looks like may depend on the one before it: a space that is not the text's first.
    for (const int32_t id : prompt) decoder_.push(id);
  }

  std::string push(int32_t id) { return filter_.push(decoder_.push(id)); }
  std::string finish() {
    std::string rest = filter_.push(decoder_.finish());
    return filter_.stopped() ? rest : rest + filter_.finish();
  }
  bool stopped() const { return filter_.stopped(); }

 private:
  StreamDecoder decoder_;
  StopFilter filter_;
};

bool is_among(const std::vector<int64_t>& ids, int64_t id) { return std::ranges::find(ids, id) != ids.end(); }

// One text that is being sampled.
struct Sampled {
  Generated& result;
  Writer writer;
  RandomStream random;
  std::vector<int64_t> history;
};

class Run {
 public:
  Run(const Transformer& model, const Tokenizer& tokenizer, const GenerationOptions& options,
      const OnText& on_text)
      : model_(model), tokenizer_(tokenizer), options_(options), on_text_(on_text) {}

  // Continues prompts that are computed together.
  void sample(std::span<Generated* const> batch);
  void search(std::span<Generated* const> batch, std::vector<Generated>& results);

  Speed speed;

 private:
  Decoder decoder_for(std::span<Generated* const> batch);
  bool accept(Sampled& text, int64_t token) const;
  void show(Generated& result, const std::string& text) const {
    result.text += text;
    if (on_text_ && !text.empty()) on_text_(result.prompt, text);
  }

  const Transformer& model_;
  const Tokenizer& tokenizer_;
  const GenerationOptions& options_;
  const OnText& on_text_;
};

Decoder Run::decoder_for(std::span<Generated* const> batch) {
  std::vector<std::vector<int64_t>> prompts;
  for (const Generated* each : batch) {
    prompts.emplace_back(each->prompt_ids.begin(), each->prompt_ids.end());
    speed.prompt_tokens += static_cast<int64_t>(each->prompt_ids.size());
  }
  return Decoder(model_, std::move(prompts), options_.overflow);
}

// Adds a token to a text; false when that ends it.
bool Run::accept(Sampled& text, int64_t token) const {
  Generated& result = text.result;
  result.ids.push_back(static_cast<int32_t>(token));
  text.history.push_back(token);
  if (is_among(options_.end_ids, token)) {
    result.finish = Finish::end;
  } else {
    show(result, text.writer.push(static_cast<int32_t>(token)));
    if (text.writer.stopped())
      result.finish = Finish::stop;
    else if (static_cast<int64_t>(result.ids.size()) < options_.max_new_tokens)
      return true;
  }
  show(result, text.writer.finish());
  if (text.writer.stopped()) result.finish = Finish::stop;
  return false;
}

void Run::sample(std::span<Generated* const> batch) {
  std::vector<Sampled> texts;
  const RandomStream random(options_.seed, "generate");
  for (Generated* each : batch)
    texts.push_back({.result = *each,
                     .writer = Writer(tokenizer_, each->prompt_ids, options_.stop),
                     .random = random.split(std::to_string(each->prompt)),
                     .history = {each->prompt_ids.begin(), each->prompt_ids.end()}});
  Decoder decoder = decoder_for(batch);
  Stopwatch watch;
  Tensor logits = decoder.start();
  speed.prefill_seconds += watch.lap();
  std::vector<size_t> live(texts.size());  // row by row, which text it is
  std::iota(live.begin(), live.end(), size_t{0});
  for (int64_t length = 1;; ++length) {
    logits = logits.to(torch::kFloat).contiguous();
    const int64_t vocabulary = logits.size(1);
    std::vector<size_t> still;
    std::vector<int64_t> ids, rows;
    for (size_t row = 0; row < live.size(); ++row) {
      Sampled& text = texts[live[row]];
      const std::span<const float> of_row(logits.data_ptr<float>() + static_cast<int64_t>(row) * vocabulary,
                                          static_cast<size_t>(vocabulary));
      const int64_t token = choose_token(of_row, options_.sampling, text.random, text.history);
      if (!accept(text, token)) continue;
      still.push_back(live[row]);
      ids.push_back(token);
      rows.push_back(static_cast<int64_t>(row));
    }
    speed.new_tokens += static_cast<int64_t>(live.size());
    if (length > 1) speed.decoded_tokens += static_cast<int64_t>(live.size());
    live = std::move(still);
    if (live.empty()) break;
    logits = decoder.step(torch::tensor(ids, torch::kLong), torch::tensor(rows, torch::kLong));
  }
  speed.decode_seconds += watch.lap();
}

void Run::search(std::span<Generated* const> batch, std::vector<Generated>& results) {
  Decoder decoder = decoder_for(batch);
  Stopwatch watch;
  const Tensor logits = decoder.start();
  speed.prefill_seconds += watch.lap();
  const auto step = [&](const Tensor& ids, const Tensor& rows) { return decoder.step(ids, rows); };
  const std::vector<std::vector<Hypothesis>> found = beam_search(logits, step,
                                                                 {.beams = options_.beams,
                                                                  .n_best = options_.n_best,
                                                                  .max_new_tokens = options_.max_new_tokens,
                                                                  .length_penalty = options_.length_penalty,
                                                                  .early_stopping = options_.early_stopping,
                                                                  .end_ids = options_.end_ids});
  speed.decode_seconds += watch.lap();
  for (size_t index = 0; index < batch.size(); ++index) {
    for (const Hypothesis& hypothesis : found[index]) {
      Generated result = *batch[index];
      result.score = hypothesis.score;
      result.finish = hypothesis.ended ? Finish::end : Finish::length;
      Writer writer(tokenizer_, result.prompt_ids, options_.stop);
      for (const int64_t id : hypothesis.ids) {
        result.ids.push_back(static_cast<int32_t>(id));
        if (!is_among(options_.end_ids, id)) result.text += writer.push(static_cast<int32_t>(id));
      }
      result.text += writer.finish();
      if (writer.stopped()) result.finish = Finish::stop;
      const auto length = static_cast<int64_t>(hypothesis.ids.size());
      if (&hypothesis == &found[index].front()) {
        speed.new_tokens += length;
        speed.decoded_tokens += length - 1;
        if (on_text_) on_text_(result.prompt, result.text);
      }
      results.push_back(std::move(result));
    }
  }
}

void check(const Transformer& model, const GenerationOptions& options) {
  require(!model->encoder(),
          "generate: the model translates, and writes no text of its own; use `saccade translate`");
  require(model->architecture().head == HeadKind::language_model && model->architecture().causal,
          "generate: the model '{}' does not continue texts; expected a language model",
          model->architecture().family);
  options.sampling.check();
  StopFilter{options.stop};
  require(options.max_new_tokens >= 1, "generate: {} new tokens; expected at least 1",
          options.max_new_tokens);
  require(options.batch_size >= 1, "generate: a batch of {} prompts; expected at least 1",
          options.batch_size);
  require(options.beams >= 1, "generate: {} beams; expected at least 1", options.beams);
  require(options.n_best >= 1 && options.n_best <= options.beams,
          "generate: the {} best of {} beams; expected 1 to {}", options.n_best, options.beams,
          options.beams);
  require(options.beams == 1 || options.sampling.repetition_penalty == 1,
          "generate: a repetition penalty of {} with {} beams; expected one or the other",
          options.sampling.repetition_penalty, options.beams);
}

std::vector<int32_t> encode(const Transformer& model, const Tokenizer& tokenizer, const std::string& prompt) {
  std::vector<int32_t> ids = tokenizer.encode(prompt);
  if (!ids.empty()) return ids;
  // Some tokenizers put nothing before a text; a text that begins with nothing still begins.
  if (model->architecture().bos) return {static_cast<int32_t>(*model->architecture().bos)};
  if (tokenizer.special_ids().bos) return {*tokenizer.special_ids().bos};
  if (!model->architecture().eos.empty()) return {static_cast<int32_t>(model->architecture().eos.front())};
  fail("generate: the prompt is empty, and the model has no token that begins a text");
}

}  // namespace

std::string_view name_of(Finish finish) {
  return finish == Finish::length ? "length" : finish == Finish::end ? "end" : "stop";
}

Generation generate(const Transformer& model, const Tokenizer& tokenizer,
                    const std::vector<std::string>& prompts, const GenerationOptions& options,
                    const OnText& on_text) {
  torch::NoGradGuard no_gradient;
  check(model, options);
  std::vector<Generated> texts(prompts.size());
  std::vector<Generated*> order;
  for (size_t index = 0; index < prompts.size(); ++index) {
    texts[index].prompt = index;
    texts[index].prompt_ids = encode(model, tokenizer, prompts[index]);
    check_length(model->architecture(), static_cast<int64_t>(texts[index].prompt_ids.size()),
                 options.max_new_tokens, options.overflow);
    order.push_back(&texts[index]);
  }
  if (const std::string obstacle = cache_obstacle(model); !obstacle.empty())
    log::info("generate: {}; every step computes the whole text again", obstacle);
  std::ranges::stable_sort(order, {}, [](const Generated* each) { return each->prompt_ids.size(); });

  Run run(model, tokenizer, options, on_text);
  std::vector<Generated> found;
  const bool one_length = padding_matters(model);
  for (auto begin = order.begin(); begin != order.end();) {
    auto end = begin;
    while (end != order.end() && end - begin < options.batch_size &&
           (!one_length || (*end)->prompt_ids.size() == (*begin)->prompt_ids.size()))
      ++end;
    if (options.beams == 1)
      run.sample({begin, end});
    else
      run.search({begin, end}, found);
    begin = end;
  }
  if (options.beams == 1) return {std::move(texts), run.speed};
  std::ranges::stable_sort(found, {}, &Generated::prompt);
  return {std::move(found), run.speed};
}

}  // namespace saccade
