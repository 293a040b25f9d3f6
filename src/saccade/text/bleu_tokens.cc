// Each rule is a pass over the line that puts spaces around some characters. A pass looks at pairs of
// neighbours that do not overlap, left to right, as the regular expressions do that define the measure: so
// "..." becomes ". .." in one pass, and the next one goes on from there.
#include "saccade/text/bleu_tokens.h"

#include <utf8proc.h>

#include <algorithm>

#include "saccade/base/error.h"
#include "saccade/base/text.h"
#include "saccade/text/unicode.h"

namespace saccade {
namespace {

bool is_digit(char32_t c) { return c >= U'0' && c <= U'9'; }
bool is_stop(char32_t c) { return c == U'.' || c == U','; }

bool is_western_punctuation(char32_t c) {
  return (c >= U'{' && c <= U'~') || (c >= U'[' && c <= U'`') || (c >= U' ' && c <= U'&') ||
         (c >= U'(' && c <= U'+') || (c >= U':' && c <= U'@') || c == U'/';
}

bool in_categories(char32_t c, int first, int last) {
  const int category = category_of(c);
  return category >= first && category <= last;
}
bool is_number(char32_t c) { return in_categories(c, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO); }
bool is_punctuation(char32_t c) { return in_categories(c, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO); }
bool is_symbol(char32_t c) { return in_categories(c, UTF8PROC_CATEGORY_SM, UTF8PROC_CATEGORY_SO); }

template <class Chosen>
std::u32string spaced_around(std::u32string_view line, Chosen chosen) {
  std::u32string result;
  for (const char32_t c : line) {
    if (chosen(c))
      result += {U' ', c, U' '};
    else
      result += c;
  }
  return result;
}

// Where `left` and `right` hold for neighbours: "a b " or " a b", by what is wanted around which of them.
enum class Around { left, right };
template <class Left, class Right>
std::u32string spaced_pairs(std::u32string_view line, Left left, Right right, Around around) {
  std::u32string result;
  for (size_t at = 0; at < line.size(); ++at) {
    if (at + 1 == line.size() || !left(line[at]) || !right(line[at + 1])) {
      result += line[at];
      continue;
    }
    if (around == Around::left)
      result += {U' ', line[at], U' ', line[at + 1]};
    else
      result += {line[at], U' ', line[at + 1], U' '};
    ++at;
  }
  return result;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

std::u32string cut_western(std::string line) {
  replace_all(line, "<skipped>", "");
  replace_all(line, "&quot;", "\"");
  replace_all(line, "&amp;", "&");
  replace_all(line, "&lt;", "<");
  replace_all(line, "&gt;", ">");
  const auto no_digit = [](char32_t c) { return !is_digit(c); };
  std::u32string text = U" " + characters_of(line) + U" ";
  text = spaced_around(text, is_western_punctuation);
  text = spaced_pairs(text, no_digit, is_stop, Around::right);
  text = spaced_pairs(text, is_stop, no_digit, Around::left);
  return spaced_pairs(
      text, is_digit, [](char32_t c) { return c == U'-'; }, Around::right);
}

std::u32string cut_international(std::u32string text) {
  const auto no_number = [](char32_t c) { return !is_number(c); };
  text = spaced_pairs(text, no_number, is_punctuation, Around::right);
  text = spaced_pairs(text, is_punctuation, no_number, Around::left);
  return spaced_around(text, is_symbol);
}

std::u32string without_end(std::u32string text) {
  while (!text.empty() && is_separator(text.back())) text.pop_back();
  return text;
}

std::string to_utf8(std::u32string_view text) {
  std::string result;
  for (const char32_t c : text) append_character(result, c);
  return result;
}

}  // namespace

std::string_view name_of(BleuTokens tokens) { return bleu_token_names()[static_cast<size_t>(tokens)]; }

const std::vector<std::string>& bleu_token_names() {
  static const std::vector<std::string> names{"13a", "intl", "char", "none"};
  return names;
}

BleuTokens bleu_tokens_named(std::string_view name) {
  const std::vector<std::string>& names = bleu_token_names();
  const auto found = std::ranges::find(names, name);
  require(found != names.end(), "BLEU: no tokenizer is called '{}'; there are {}{}", printable(name),
          join(names, ", "), did_you_mean(name, names));
  return static_cast<BleuTokens>(found - names.begin());
}

std::u32string characters_of(std::string_view text) {
  std::u32string result;
  for_each_character(text, [&](char32_t character, size_t, size_t) {
    result += character == kInvalidCharacter ? kReplacementCharacter : character;
  });
  return result;
}

bool is_separator(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

std::vector<std::u32string> split_words(std::u32string_view text) {
  std::vector<std::u32string> words;
  bool inside = false;
  for (const char32_t c : text) {
    const bool separates = is_separator(c);
    if (!separates && !inside) words.emplace_back();
    if (!separates) words.back() += c;
    inside = !separates;
  }
  return words;
}

std::vector<std::string> bleu_words(std::string_view line, BleuTokens tokens) {
  std::u32string text = without_end(characters_of(line));
  if (tokens == BleuTokens::mteval_13a) text = cut_western(to_utf8(text));
  if (tokens == BleuTokens::international) text = cut_international(std::move(text));
  if (tokens == BleuTokens::characters) text = spaced_around(text, [](char32_t) { return true; });
  std::vector<std::string> words;
  for (const std::u32string& word : split_words(text)) words.push_back(to_utf8(word));
  return words;
}

}  // namespace saccade
