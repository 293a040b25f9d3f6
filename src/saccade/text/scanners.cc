// The alternatives of each expression in their order, with the greedy loops written out: none of them ever
// has to go back by more than what one comparison tells.
#include "saccade/text/scanners.h"

#include <cstdint>

#include "saccade/text/unicode.h"
#include "saccade/text/utf8.h"

namespace saccade {
namespace {

constexpr uint16_t kAnyKind = kLetter | kNumber | kSpace;

struct Kind {
  uint16_t classes;  // 0 for a character that is no letter, number or space
  uint32_t length;
};

class Text {
 public:
  explicit Text(std::string_view text) : text_(text), table_(class_table()) {}

  size_t size() const { return text_.size(); }
  char operator[](size_t at) const { return text_[at]; }

  // The kind of the character at `at`; past the end it is nothing at all, of length 0.
  Kind kind(size_t at) const {
    if (at >= text_.size()) return {0, 0};
    const auto byte = static_cast<unsigned char>(text_[at]);
    if (byte < 0x80) return {static_cast<uint16_t>(table_[byte] & kMask), 1};
    const Character character = decode_character(text_.substr(at));
    if (!character.valid()) return {0, 1};
    return {static_cast<uint16_t>(classes_of(character.value) & kMask), character.length};
  }

  // The end of the run of characters of one class that begins at `at`.
  size_t run(size_t at, uint16_t wanted) const {
    for (Kind next = kind(at); next.classes & wanted; next = kind(at)) at += next.length;
    return at;
  }

  size_t run_of_others(size_t at) const {
    for (Kind next = kind(at); next.length > 0 && (next.classes & kAnyKind) == 0; next = kind(at))
      at += next.length;
    return at;
  }

  // The end of 's, 't, 're, 've, 'm, 'll or 'd at an apostrophe; 0 if it is none of them. Where capitals
  // count as small letters, so does U+017F, the long s.
  size_t contraction(size_t at, bool any_case) const {
    const auto letter = [&](size_t index) {
      if (index >= text_.size()) return '\0';
      const char c = text_[index];
      return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    };
    switch (letter(at + 1)) {
      case 's':
      case 't':
      case 'm':
      case 'd':
        return at + 2;
      case 'r':
      case 'v':
        return letter(at + 2) == 'e' ? at + 3 : 0;
      case 'l':
        return letter(at + 2) == 'l' ? at + 3 : 0;
      case '\xC5':
        return any_case && letter(at + 2) == '\xBF' ? at + 3 : 0;
      default:
        return 0;
    }
  }

  // White space up to the next other character, but for its last character, which that one may want: the
  // meaning of \s+(?!\S)|\s+.
  size_t spaces(size_t from) const {
    size_t at = from, last = from;
    for (Kind next = kind(at); next.classes & kSpace; next = kind(at)) {
      last = at;
      at += next.length;
    }
    return at == text_.size() || last == from ? at : last;
  }

  // The end of the last line end in the white space at `from`, or `from`.
  size_t line_ends(size_t from) const {
    size_t at = from, end = from;
    for (Kind next = kind(at); next.classes & kSpace; next = kind(at)) {
      at += next.length;
      if (next.classes & kLineEnd) end = at;
    }
    return end;
  }

 private:
  static constexpr uint16_t kMask = kAnyKind | kLineEnd;

  std::string_view text_;
  const uint16_t* table_;
};

size_t scan_gpt2(std::string_view whole, size_t from) {
  const Text text(whole);
  if (text[from] == '\'')
    if (const size_t end = text.contraction(from, false)) return end;
  const size_t start = text[from] == ' ' ? from + 1 : from;  // each kind may have a space before it
  const Kind first = text.kind(start);
  if (first.classes & kLetter) return text.run(start + first.length, kLetter);
  if (first.classes & kNumber) return text.run(start + first.length, kNumber);
  if (first.length > 0 && !(first.classes & kSpace)) return text.run_of_others(start + first.length);
  return text.spaces(from);
}

template <int longest_number>
size_t scan_llama(std::string_view whole, size_t from) {
  const Text text(whole);
  if (text[from] == '\'')
    if (const size_t end = text.contraction(from, true)) return end;
  const Kind first = text.kind(from);
  const size_t second_at = from + first.length;
  if (first.classes & kLetter) return text.run(second_at, kLetter);
  if (first.classes & kNumber) {
    size_t at = second_at;
    for (int count = 1; count < longest_number; ++count) {
      const Kind next = text.kind(at);
      if (!(next.classes & kNumber)) break;
      at += next.length;
    }
    return at;
  }
  const Kind second = text.kind(second_at);
  if (!(first.classes & kLineEnd) && (second.classes & kLetter))
    return text.run(second_at + second.length, kLetter);
  const bool other = (first.classes & kAnyKind) == 0;
  const bool space_and_other = text[from] == ' ' && second.length > 0 && (second.classes & kAnyKind) == 0;
  if (other || space_and_other) return text.run(text.run_of_others(second_at), kLineEnd);
  const size_t line_end = text.line_ends(from);
  return line_end > from ? line_end : text.spaces(from);
}

}  // namespace

Scanner scanner_for(std::string_view pattern) {
  if (pattern == kGpt2Pattern) return scan_gpt2;
  if (pattern == kLlama3Pattern) return scan_llama<3>;
  if (pattern == kQwen2Pattern) return scan_llama<1>;
  return nullptr;
}

}  // namespace saccade
