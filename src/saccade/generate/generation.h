// Text that continues prompts: sampling or beam search over a batch of them, ended by the model, by a stop
// string or by a length. A prompt's result does not depend on which others are in its batch.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/generate/decoder.h"
#include "saccade/generate/sampling.h"
#include "saccade/text/tokenizer.h"

namespace saccade {

struct GenerationOptions {
  int64_t max_new_tokens = 100;
  SamplingOptions sampling;
  std::vector<std::string> stop;  // the text ends before the first of these
  std::vector<int64_t> end_ids;   // tokens that end a text, as TextModel::end_ids gives them
  uint64_t seed = 0;              // prompt p draws from a random stream of its own, of this seed and p
  int64_t beams = 1;   // more than 1: beam search, which leaves nothing to chance and reads no `sampling`
  int64_t n_best = 1;  // of the beams
  double length_penalty = 1;    // of beams: score = sum of log-probabilities / length ^ length_penalty
  bool early_stopping = false;  // of beams: end with the first `beams` finished texts
  Overflow overflow = Overflow::refuse;
  int64_t batch_size = 8;  // prompts that are computed together
};

enum class Finish { length, end, stop };
std::string_view name_of(Finish finish);

struct Generated {
  size_t prompt = 0;                // its place among the prompts
  std::vector<int32_t> prompt_ids;  // as the model saw them
  std::vector<int32_t> ids;         // all that were chosen, with the end and what made a stop string
  std::string text;                 // what comes after the prompt, without the end and the stop string
  Finish finish = Finish::length;
  double score = 0;  // of a beam
};

struct Speed {
  int64_t prompt_tokens = 0, new_tokens = 0;
  int64_t decoded_tokens = 0;  // new ones but the first of each text, which the prefill gives
  double prefill_seconds = 0, decode_seconds = 0;

  double prefill_rate() const {
    return prefill_seconds > 0 ? static_cast<double>(prompt_tokens) / prefill_seconds : 0;
  }
  double decode_rate() const {
    return decode_seconds > 0 ? static_cast<double>(decoded_tokens) / decode_seconds : 0;
  }
};

struct Generation {
  std::vector<Generated> texts;  // in the order of the prompts; of each the n_best
  Speed speed;
};

// Called with each piece of text as soon as it is certain that it stays; with beams, once per prompt with the
// best.
using OnText = std::function<void(size_t prompt, std::string_view text)>;

// Throws Error for options without a meaning, and when a text would not fit into the context. Prompts that
// the attention does not allow to be padded are computed together only when they have the same number of
// tokens.
Generation generate(const Transformer& model, const Tokenizer& tokenizer,
                    const std::vector<std::string>& prompts, const GenerationOptions& options,
                    const OnText& on_text = {});

}  // namespace saccade
