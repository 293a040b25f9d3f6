#include "saccade/text/utf8.h"

#include <gtest/gtest.h>

#include "saccade/base/random.h"

namespace saccade {
namespace {

TEST(Utf8, EveryCharacterComesBack) {
  for (char32_t value = 0; value <= 0x10FFFF; ++value) {
    if (value >= 0xD800 && value < 0xE000) continue;
    const std::string text = to_utf8(value);
    const Character character = first_character(text);
    ASSERT_EQ(character.value, value);
    ASSERT_EQ(character.length, text.size());
    ASSERT_EQ(last_character("a" + text).value, value);
  }
}

TEST(Utf8, RefusesWhatIsNoCharacter) {
  for (const char* text :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x80\x80\x80",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xE2\x82", "\xC3"})
    EXPECT_FALSE(first_character(text).valid()) << text;
}

TEST(Utf8, ReplacesEachLongestBeginningOnce) {
  EXPECT_EQ(replace_invalid("a\xE2\x82z"), "a\uFFFDz");
  EXPECT_EQ(replace_invalid("\xF0\x9F\x98"), "\uFFFD");
  EXPECT_EQ(replace_invalid("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(replace_invalid("plain \u20AC"), "plain \u20AC");
}

TEST(Utf8, KnowsHowMuchOfACharacterIsMissing) {
  const std::string smile = "\U0001F600";
  for (size_t length = 1; length < 4; ++length)
    EXPECT_EQ(incomplete_suffix("ab" + smile.substr(0, length)), length);
  EXPECT_EQ(incomplete_suffix(smile), 0u);
  EXPECT_EQ(incomplete_suffix(""), 0u);
  EXPECT_EQ(incomplete_suffix("\x80\x80\x80\x80"), 0u);
  EXPECT_EQ(incomplete_suffix("\xE2\x28"), 0u);
}

TEST(Utf8, ValidPrefixAgreesWithOneCharacterAtATime) {
  RandomStream random(3, "utf8");
  for (int count = 0; count < 2000; ++count) {
    std::string text;
    for (uint64_t length = random.below(30); text.size() < length;)
      text += random.below(8) ? to_utf8(static_cast<char32_t>(random.below(0x800)))
                              : std::string(1, static_cast<char>(random.below(256)));
    size_t at = 0;
    while (at < text.size() && first_character(std::string_view(text).substr(at)).valid())
      at += first_character(std::string_view(text).substr(at)).length;
    ASSERT_EQ(valid_prefix(text), at) << "text " << count << " of seed 3";
  }
}

}  // namespace
}  // namespace saccade
