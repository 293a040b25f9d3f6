// Ways to spoil the text of a formula: what a slip of the hand does, what a broken editor does, and what
// someone does who wants the parser to fall over.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "saccade/base/random.h"
#include "saccade/formula/lexer.h"

namespace saccade {

class TextMutator {
 public:
  explicit TextMutator(RandomStream& random) : random_(random) {}

  // Spoils `text` once; `other` is a second text to take pieces from.
  void mutate(std::string& text, std::string_view other) {
    switch (random_.below(16)) {
      case 0:
        return flip_bits(text);
      case 1:
        return replace_byte(text);
      case 2:
        return erase_range(text);
      case 3:
        return duplicate_range(text);
      case 4:
      case 5:
      case 6:
        return swap_tokens(text);
      case 7:
      case 8:
      case 9:
        return replace_token(text);
      case 10:
      case 11:
        return insert(text, dictionary_word());
      case 12:
        return splice(text, other);
      case 13:
        return nest(text);
      case 14:
        return duplicate_line(text);
      default:
        return random_.below(8) ? insert(text, strange_number()) : lengthen(text);
    }
  }

 private:
  size_t place(const std::string& text) { return random_.below(text.size() + 1); }

  // A short stretch of the text, or now and then a long one.
  std::pair<size_t, size_t> range(std::string_view text) {
    const size_t begin = random_.below(text.size() + 1);
    const size_t longest = random_.below(8) ? 16 : text.size();
    return {begin, std::min(text.size() - begin, random_.below(longest + 1))};
  }

  void flip_bits(std::string& text) {
    if (!text.empty()) text[random_.below(text.size())] ^= static_cast<char>(1 << random_.below(8));
  }

  void replace_byte(std::string& text) {
    static constexpr std::array<unsigned char, 12> kBytes = {0x00, 0x01, 0x09, 0x0D, 0x1B, 0x7F,
                                                             0x80, 0xC0, 0xC3, 0xE2, 0xF8, 0xFF};
    if (text.empty()) return;
    const auto byte = random_.below(2) ? kBytes[random_.below(kBytes.size())] : random_.below(256);
    text[random_.below(text.size())] = static_cast<char>(byte);
  }

  void erase_range(std::string& text) {
    const auto [begin, length] = range(text);
    text.erase(begin, length);
  }

  void duplicate_range(std::string& text) {
    const auto [begin, length] = range(text);
    text.insert(place(text), text.substr(begin, length));
  }

  void duplicate_line(std::string& text) {
    const size_t at = place(text);
    const size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;  // npos + 1 is 0
    const size_t end = std::min(text.find('\n', at), text.size());
    text.insert(begin, text.substr(begin, end - begin) + "\n");
  }

  std::vector<Token> tokens(const std::string& text) {
    Diagnostics ignored;
    std::vector<Token> result = tokenize(text, ignored);
    std::erase_if(result, [](const Token& token) { return token.text.empty(); });
    return result;
  }

  void swap_tokens(std::string& text) {
    const std::vector<Token> all = tokens(text);
    if (all.size() < 2) return;
    Span a = all[random_.below(all.size())].span, b = all[random_.below(all.size())].span;
    if (a.begin > b.begin) std::swap(a, b);
    if (a.end > b.begin) return;
    const std::string first = text.substr(a.begin, a.end - a.begin);
    const std::string second = text.substr(b.begin, b.end - b.begin);
    text.replace(b.begin, second.size(), first);  // the later one first: the earlier keeps its place
    text.replace(a.begin, first.size(), second);
  }

  void replace_token(std::string& text) {
    const std::vector<Token> all = tokens(text);
    if (all.empty()) return;
    const Span span = all[random_.below(all.size())].span;
    const std::string other = random_.below(2) ? dictionary_word() : [&] {
      const Span from = all[random_.below(all.size())].span;
      return text.substr(from.begin, from.end - from.begin);
    }();
    text.replace(span.begin, span.end - span.begin, other);
  }

  void insert(std::string& text, const std::string& word) {
    const std::vector<Token> all = tokens(text);
    const bool between = !all.empty() && random_.below(4);
    text.insert(between ? all[random_.below(all.size())].span.begin : place(text), " " + word + " ");
  }

  void splice(std::string& text, std::string_view other) {
    const auto [begin, length] = range(other);
    const auto [cut, cut_length] = range(text);
    text.replace(cut, cut_length, other.substr(begin, length));
  }

  void nest(std::string& text) {
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kAround = {
        {{"(", ")"},
         {"-", ""},
         {"not ", ""},
         {"2 ^ ", ""},
         {"abs(", ")"},
         {"b[", "]"},
         {"where(causal, 1, ", ")"},
         {"where(0 < ", " < 9, 1, 0)"},
         {"min(d, ", ")"},
         {"softmax(", ")"}}};
    const auto& [open, close] = kAround[random_.below(kAround.size())];
    const uint64_t deep = random_.below(16) ? random_.below(6) : random_.below(400);
    std::string before, after;
    for (uint64_t level = 0; level < deep; ++level) {
      before += open;
      after += close;
    }
    const std::vector<Token> all = tokens(text);
    if (all.empty()) return;
    const Span span = all[random_.below(all.size())].span;
    text.insert(span.end, after);
    text.insert(span.begin, before);
  }

  // Repeats a piece until the text is long.
  void lengthen(std::string& text) {
    const auto [begin, length] = range(text);
    if (length == 0) return;
    const std::string piece = text.substr(begin, length);
    const size_t wanted = random_.below(8) ? 2'000 : 70'000;
    std::string repeated;
    while (repeated.size() < wanted) repeated += piece;
    text.insert(begin, repeated);
  }

  std::string dictionary_word() {
    static constexpr std::array<std::string_view, 92> kWords = {
        "const",    "param",   "input",   "vector", "token",  "stream",     "mask",
        "score",    "weights", "scale",   "s",      "i",      "j",          "d",
        "h",        "H",       "n",       "causal", "full",   "inf",        "x",
        "q",        "k",       "pos",     "abs",    "sign",   "min",        "max",
        "clamp",    "floor",   "sqrt",    "exp",    "log",    "log1p",      "tanh",
        "sigmoid",  "relu",    "sin",     "cos",    "where",  "softmax",    "l1",
        "softpick", "sink",    "project", "linear", "norm",   "logsigmoid", "cumsum",
        "batch",    "head",    "layer",   "query",  "key",    "rel",        "int",
        "bool",     "real",    "in",      "and",    "or",     "not",        "<",
        "<=",       ">",       ">=",      "==",     "!=",     "=",          "+",
        "-",        "*",       "/",       "//",     "%",      "^",          "(",
        ")",        "[",       "]",       ",",      ":",      ".",          ";",
        "\n",       "#",       "0",       "1",      "0 // 0", "1 / 0",      "input pos[token]: int\n",
        "\r\n"};
    return std::string(kWords[random_.below(kWords.size())]);
  }

  std::string strange_number() {
    static constexpr std::array<std::string_view, 12> kNumbers = {
        "1e30",       "1e31", "1e999",    "1e-400", "0.0000000000000000000001",
        "4294967296", ".5",   "16777217", "1e-320", "99999999999999999999",
        "00001",      "3."};
    if (random_.below(4)) return std::string(kNumbers[random_.below(kNumbers.size())]);
    return std::string(random_.below(200), static_cast<char>('0' + random_.below(10)));
  }

  RandomStream& random_;
};

}  // namespace saccade
