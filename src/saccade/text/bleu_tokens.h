// How a line is cut into words before BLEU counts them. Scores of different cuts cannot be compared, so these
// are the cuts that sacreBLEU knows by the same names, character for character.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace saccade {

enum class BleuTokens {
  mteval_13a,     // "13a": punctuation of Western languages; what WMT reports
  international,  // "intl": punctuation and symbols of all scripts
  characters,     // "char"
  none,           // "none": white space alone
};
std::string_view name_of(BleuTokens tokens);
// Throws Error for an unknown name.
BleuTokens bleu_tokens_named(std::string_view name);
const std::vector<std::string>& bleu_token_names();

std::vector<std::string> bleu_words(std::string_view line, BleuTokens tokens);

// --- for measures on characters ---

// UTF-8 to characters; what is not UTF-8 becomes U+FFFD.
std::u32string characters_of(std::string_view text);
// White space as Python's str.split has it.
bool is_separator(char32_t character);
std::vector<std::u32string> split_words(std::u32string_view text);

}  // namespace saccade
