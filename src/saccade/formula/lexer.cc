// The lexer: one loop over the text, one branch per kind of token.
#include "saccade/formula/lexer.h"

#include <charconv>
#include <cmath>

namespace saccade {
namespace {

constexpr size_t kLongestName = 64;
constexpr size_t kLongestNumber = 64;
// Far from what overflows in single precision, so that a product of two literals seldom does.
constexpr double kLargestNumber = 1e30;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  Lexer(std::string_view text, Diagnostics& diagnostics) : text_(text), diagnostics_(diagnostics) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) step();
    push(Token::Kind::newline, text_.size(), text_.size());
    push(Token::Kind::end, text_.size(), text_.size());
    return std::move(tokens_);
  }

 private:
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void push(Token::Kind kind, size_t begin, size_t end) {
    tokens_.push_back({kind, text_.substr(begin, end - begin), {begin, end}});
  }

  void step() {
    const char c = peek();
    if (c == '#') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (c == '\n') {
      if (depth_ > 0 && starts_statement(at_ + 1)) depth_ = 0;
      if (depth_ == 0) push(Token::Kind::newline, at_, at_ + 1);
      ++at_;
    } else if (c == ';') {
      // A semicolon always ends the statement: an unclosed bracket then costs one statement, not the rest of
      // the file.
      depth_ = 0;
      push(Token::Kind::newline, at_, at_ + 1);
      ++at_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
    } else if (is_letter(c)) {
      name();
    } else if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
      number();
    } else {
      symbol();
    }
  }

  // Whether a line reads `name = ...` or `param name`: then a bracket still open above it was forgotten, and
  // its error should not swallow the rest of the file.
  bool starts_statement(size_t from) const {
    const auto skip_blanks = [&] {
      while (from < text_.size() && (text_[from] == ' ' || text_[from] == '\t')) ++from;
    };
    const auto word = [&] {
      const size_t begin = from;
      while (from < text_.size() && (is_letter(text_[from]) || (from > begin && is_digit(text_[from]))))
        ++from;
      return text_.substr(begin, from - begin);
    };
    skip_blanks();
    const std::string_view first = word();
    if (first.empty() || first == "sink") return false;
    skip_blanks();
    for (std::string_view keyword : {"const", "param", "input", "vector", "token", "stream"})
      if (first == keyword && from < text_.size() && is_letter(text_[from])) return true;
    return from < text_.size() && text_[from] == '=' && text_.substr(from, 2) != "==";
  }

  void name() {
    const size_t begin = at_;
    while (is_letter(peek()) || is_digit(peek())) ++at_;
    if (at_ - begin > kLongestName)
      diagnostics_.report({begin, at_}, "a name may have at most {} characters; this one has {}",
                          kLongestName, at_ - begin);
    push(Token::Kind::name, begin, at_);
  }

  void number() {
    const size_t begin = at_;
    bool integer = true;
    while (is_digit(peek())) ++at_;
    if (peek() == '.' && is_digit(peek(1))) {
      integer = false;
      ++at_;
      while (is_digit(peek())) ++at_;
    } else if (peek() == '.' && !is_letter(peek(1))) {
      integer = false;
      ++at_;
    }
    const bool sign = peek(1) == '+' || peek(1) == '-';
    if ((peek() == 'e' || peek() == 'E') && is_digit(peek(sign ? 2 : 1))) {
      integer = false;
      at_ += sign ? 2 : 1;
      while (is_digit(peek())) ++at_;
    }
    push(Token::Kind::number, begin, at_);
    Token& token = tokens_.back();
    token.integer = integer;
    const auto result = std::from_chars(text_.data() + begin, text_.data() + at_, token.number);
    const bool too_long = at_ - begin > kLongestNumber;
    if (too_long || result.ec != std::errc() || !(token.number <= kLargestNumber)) {
      diagnostics_.report(
          token.span, "the number {} is out of range; the largest is 1e30, in at most {} characters",
          too_long ? std::string(text_.substr(begin, 20)) + "…" : std::string(token.text), kLongestNumber);
      token.number = 0;
    }
    if (is_letter(peek())) {
      const size_t tail = at_;
      while (is_letter(peek()) || is_digit(peek())) ++at_;
      diagnostics_.report({begin, at_}, "'{}' is neither a number nor a name; write a * between {} and {}",
                          text_.substr(begin, at_ - begin), text_.substr(begin, tail - begin),
                          text_.substr(tail, at_ - tail));
    }
  }

  void symbol() {
    static constexpr std::string_view kPairs[] = {"<=", ">=", "==", "!=", "//", "**", "&&", "||"};
    static constexpr std::string_view kSingles = "()[]=,:.+-*/%^<>!&|";
    const size_t begin = at_;
    for (std::string_view pair : kPairs) {
      if (text_.substr(at_, 2) != pair) continue;
      at_ += 2;
      push(Token::Kind::symbol, begin, at_);
      return;
    }
    const char c = peek();
    if (c == '(' || c == '[') ++depth_;
    if ((c == ')' || c == ']') && depth_ > 0) --depth_;
    ++at_;
    if (kSingles.find(c) != std::string_view::npos) {
      push(Token::Kind::symbol, begin, at_);
      return;
    }
    while (at_ < text_.size() && (static_cast<unsigned char>(text_[at_]) & 0xC0) == 0x80) ++at_;
    const bool visible = static_cast<unsigned char>(c) >= 0x20 && static_cast<unsigned char>(c) < 0x7F;
    if (visible)
      diagnostics_.report({begin, at_}, "'{}' has no meaning in a formula", c);
    else
      diagnostics_.report({begin, at_}, "the byte 0x{:02X} has no meaning in a formula",
                          static_cast<unsigned char>(c));
  }

  std::string_view text_;
  Diagnostics& diagnostics_;
  size_t at_ = 0;
  int depth_ = 0;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view text, Diagnostics& diagnostics) {
  return Lexer(text, diagnostics).run();
}

}  // namespace saccade
