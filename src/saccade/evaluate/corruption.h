// Three ways to damage what a model reads, each by a rate and a stream of random numbers. The draws do not
// depend on the rate: what is hit at one is, but for neighbours that move together, hit at every higher one.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/base/random.h"

namespace saccade {

// Each token goes with this probability.
std::vector<int32_t> drop_tokens(std::span<const int32_t> ids, double rate, RandomStream random);

// With this probability a token changes places with the next one. A token moves at most once.
std::vector<int32_t> swap_tokens(std::span<const int32_t> ids, double rate, RandomStream random);

// Each character that is no white space is hit with this probability: it is left out, written twice, replaced
// by another character of the text, or changes places with the next one.
std::string add_typos(std::string_view text, double rate, RandomStream random);

}  // namespace saccade
