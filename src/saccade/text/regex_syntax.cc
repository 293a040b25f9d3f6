// From Oniguruma's syntax to PCRE2's: one pass over the pattern that copies what means the same in both,
// rewrites the classes (PCRE2's know an older Unicode, and its \s has one character more), and refuses the
// rest.
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "saccade/base/error.h"
#include "saccade/text/regex.h"
#include "saccade/text/unicode_tables.h"
#include "saccade/text/utf8.h"

namespace saccade {
namespace {

constexpr std::string_view kSpaces =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

// Names of general categories in the order of utf8proc's numbers, which start with "not assigned".
constexpr std::array<std::string_view, 30> kCategories = {
    "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps",
    "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"};

// The inside of a bracket expression for the characters of a category such as "L" or "Lu".
std::string category_members(std::string_view name) {
  std::string result = fmt::format("\\p{{{}}}", name);
  for (const CategoryRange& range : kUnicode16)
    if (kCategories[static_cast<size_t>(range.category)].starts_with(name))
      result += fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", static_cast<uint32_t>(range.first),
                            static_cast<uint32_t>(range.last));
  return result;
}

// Inside brackets, Oniguruma leaves out the numbers of Latin-1 that it takes for word characters outside.
std::string word_members(bool in_bracket) {
  std::string result = in_bracket ? "" : R"(\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";
  for (std::string_view name : {"L", "M", "Nd", "Nl", "Pc"}) result += category_members(name);
  // The circled and squared letters.
  return result + R"(\x{24b6}-\x{24e9}\x{1f130}-\x{1f149})"
                  R"(\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  std::string run() {
    while (at_ < pattern_.size()) step();
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what, std::string_view reason) const {
    fail("the regular expression '{}' has '{}' at byte {}, which is not supported: {}", pattern_, what, at_,
         reason);
  }

  bool next_is(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }

  void copy(size_t count) {
    out_ += pattern_.substr(at_, count);
    at_ += count;
  }

  void step() {
    switch (pattern_[at_]) {
      case '\\':
        out_ += escape(false);
        return;
      case '[':
        return bracket();
      case '(':
        return group();
      case '{':
      case '*':
      case '+':
      case '?':
        return quantifier();
      case '#':
        out_ += "\\#";
        ++at_;
        return;
      default:
        return copy(1);
    }
  }

  void group() {
    if (!next_is("(?")) return copy(1);
    for (std::string_view start : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?i)", "(?-i:"})
      if (next_is(start)) return copy(start.size());
    refuse(pattern_.substr(at_, 4),
           "of the groups that begin with (? only (?: (?= (?! (?<= (?<! (?> (?i: are");
  }

  // After an interval such as {1,3}, Oniguruma reads + as "once more repeated" and ? as "or not at all",
  // where PCRE2 would take both for a change of the interval's greed.
  void quantifier() {
    if (pattern_[at_] != '{') {
      copy(1);
      if (at_ < pattern_.size() && (pattern_[at_] == '?' || pattern_[at_] == '+')) copy(1);
      return;
    }
    size_t end = at_ + 1;
    const auto digits = [&] {
      const size_t begin = end;
      while (end < pattern_.size() && pattern_[end] >= '0' && pattern_[end] <= '9') ++end;
      return end > begin;
    };
    const bool lowest = digits();
    if (end < pattern_.size() && pattern_[end] == ',') {
      ++end;
      digits();
    }
    if (!lowest || end >= pattern_.size() || pattern_[end] != '}')
      refuse("{", "only {n}, {n,} and {n,m} are; write \\{ for the character");
    ++end;
    if (end < pattern_.size() && (pattern_[end] == '+' || pattern_[end] == '?'))
      refuse(pattern_.substr(at_, end + 1 - at_), "nothing may follow an interval");
    copy(end - at_);
  }

  // One escape, as a part of a bracket expression or alone.
  std::string escape(bool in_bracket) {
    require(at_ + 1 < pattern_.size(), "the regular expression '{}' ends with a backslash", pattern_);
    const char kind = pattern_[at_ + 1];
    const auto set = [&](std::string_view members, bool negative) -> std::string {
      if (!in_bracket) return fmt::format("[{}{}]", negative ? "^" : "", members);
      if (negative) refuse(pattern_.substr(at_, 2), "a negative class inside brackets");
      return std::string(members);
    };
    std::string result;
    switch (kind) {
      case 's':
        result = set(kSpaces, false);
        break;
      case 'S':
        // A bracket expression with \S cannot be written out; U+180E is the one character that differs.
        result = in_bracket ? "\\S\\x{180e}" : set(kSpaces, true);
        break;
      case 'd':
      case 'D':
        result = set(category_members("Nd"), kind == 'D');
        break;
      case 'w':
      case 'W':
        result = set(word_members(in_bracket), kind == 'W');
        break;
      case 'h':
      case 'H':
        result = set("0-9a-fA-F", kind == 'H');
        break;
      case 'v':
        result = "\\x{b}";
        break;
      case 'p':
      case 'P':
        return property(in_bracket, kind == 'P');
      case 'x':
      case 'u':
        return code_point();
      case 'n':
      case 'r':
      case 't':
      case 'f':
      case 'a':
      case 'e':
        result = std::string(pattern_.substr(at_, 2));
        break;
      case 'A':
      case 'z':
      case 'Z':
        if (in_bracket) refuse(pattern_.substr(at_, 2), "it means nothing inside brackets");
        result = std::string(pattern_.substr(at_, 2));
        break;
      default:
        if (static_cast<unsigned char>(kind) >= 0x80 || std::isalnum(static_cast<unsigned char>(kind)))
          refuse(pattern_.substr(at_, 2),
                 "of the escapes only \\p \\P \\s \\S \\d \\D \\w \\W \\h \\H \\n \\r "
                 "\\t \\f \\v \\a \\e \\x \\u \\A \\z \\Z and punctuation are");
        result = std::string(pattern_.substr(at_, 2));
    }
    at_ += 2;
    return result;
  }

  std::string property(bool in_bracket, bool negative) {
    const size_t begin = at_;
    const size_t close = pattern_.find('}', at_);
    if (at_ + 2 >= pattern_.size() || pattern_[at_ + 2] != '{' || close == pattern_.npos)
      refuse(pattern_.substr(at_, 3), "a property is written \\p{Name}");
    std::string_view name = pattern_.substr(at_ + 3, close - at_ - 3);
    if (name.starts_with('^')) {
      negative = !negative;
      name.remove_prefix(1);
    }
    const auto is_category = [&](std::string_view category) {
      return category == name || (name.size() == 1 && category.starts_with(name));
    };
    std::string members;
    if (name == "Han" || name == "Hiragana" || name == "Katakana" || name == "Hangul") {
      // Without "sc:" PCRE2 adds the characters that the script shares with others.
      members = fmt::format("\\p{{sc:{}}}", name);
      if (name == "Han") members += R"(\x{2b739}\x{2ebf0}-\x{2ee5d}\x{31350}-\x{323af})";
      if (name == "Hiragana") members += R"(\x{1b132})";
      if (name == "Katakana") members += R"(\x{1b155})";
    } else if (name != "C" && name != "Cn" && name != "Cs" &&
               std::any_of(kCategories.begin(), kCategories.end(), is_category)) {
      members = category_members(name);
    } else {
      refuse(
          pattern_.substr(begin, close + 1 - begin),
          "the properties are general categories such as L, Lu, N, P, and Han, Hiragana, Katakana, Hangul");
    }
    if (in_bracket && negative)
      refuse(pattern_.substr(begin, close + 1 - begin), "a negative property inside brackets");
    at_ = close + 1;
    return in_bracket ? members : fmt::format("[{}{}]", negative ? "^" : "", members);
  }

  std::string code_point() {
    const bool braces = pattern_.substr(at_).starts_with("\\x{");
    const size_t begin = at_ + (braces ? 3 : 2);
    const size_t longest = braces ? 8 : pattern_[at_ + 1] == 'x' ? 2 : 4;
    size_t end = begin;
    while (end < pattern_.size() && end - begin < longest &&
           std::isxdigit(static_cast<unsigned char>(pattern_[end])))
      ++end;
    const bool closed = !braces || (end < pattern_.size() && pattern_[end] == '}');
    const bool complete = braces ? end > begin : end - begin == longest;
    if (!closed || !complete) refuse(pattern_.substr(at_, 2), "write \\xHH, \\uHHHH or \\x{H...}");
    const auto value = std::stoul(std::string(pattern_.substr(begin, end - begin)), nullptr, 16);
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000) || (!braces && longest == 2 && value >= 0x80))
      refuse(pattern_.substr(at_, end - at_), "it is no character");
    at_ = end + (braces ? 1 : 0);
    return fmt::format("\\x{{{:x}}}", value);
  }

  void bracket() {
    const size_t begin = at_;
    copy(1);
    if (at_ < pattern_.size() && pattern_[at_] == '^') copy(1);
    bool first = true;
    while (true) {
      require(at_ < pattern_.size(), "the regular expression '{}' has a '[' at byte {} that is never closed",
              pattern_, begin);
      if (pattern_[at_] == ']') {
        if (first) refuse("[]", "write \\] for the character");
        return copy(1);
      }
      first = false;
      if (next_is("&&")) refuse("&&", "sets cannot be intersected");
      if (pattern_[at_] == '[') refuse("[", "sets cannot be nested; write \\[ for the character");
      if (pattern_[at_] == '\\') {
        out_ += escape(true);
      } else {
        copy(1);
      }
    }
  }

  std::string_view pattern_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string to_pcre2(std::string_view pattern) {
  require(is_utf8(pattern), "a regular expression is not UTF-8");
  return Translator(pattern).run();
}

}  // namespace saccade
