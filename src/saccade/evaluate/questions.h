// What every measurement on tokens is made of: a sequence with questions about some of its tokens, and how
// well they were answered. Whoever asks knows nothing of tensors, and whoever answers nothing of perplexity.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace saccade {

// What should be said at the token `row`, after reading what it may see.
struct Question {
  int64_t row;
  int32_t answer;
};

struct Sequence {
  std::vector<int32_t> ids;
  std::vector<Question> questions;

  // Asks for the tokens at [first, end), each by the token before it; there is none before the very first.
  void ask_next(int64_t first, int64_t end) {
    for (int64_t place = first > 1 ? first : 1; place < end; ++place)
      questions.push_back({place - 1, ids[static_cast<size_t>(place)]});
  }
};

struct Answer {
  double nll = 0;        // minus the natural logarithm of the answer's probability
  bool correct = false;  // the answer was the most likely token
};

// The answers to each sequence's questions, in their order.
using Answers = std::vector<std::vector<Answer>>;
using Reader = std::function<Answers(std::span<const Sequence>)>;
using OnProgress = std::function<void(int64_t done, int64_t total)>;

// Answers, counted.
struct Tally {
  int64_t tokens = 0, correct = 0;
  double nll = 0;

  void add(const Answer& answer) {
    ++tokens;
    correct += answer.correct ? 1 : 0;
    nll += answer.nll;
  }
  void add(std::span<const Answer> answers) {
    for (const Answer& answer : answers) add(answer);
  }
  double mean_nll() const { return nll / static_cast<double>(tokens); }
  double perplexity() const { return std::exp(mean_nll()); }
  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(tokens); }
};

}  // namespace saccade
