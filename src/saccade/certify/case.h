// A case: the shape of one attention problem and the seed of its numbers, as plain data. The same table of
// cases drives the conformance command, the tests and the benchmark; a case can be written on a command line
// and read back.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace saccade {

struct Case {
  int64_t batch = 1;
  int64_t heads = 1;
  int64_t kv_heads = 1;
  int64_t queries = 1;
  int64_t keys = 1;
  int64_t offset = 0;  // position of the first query
  int64_t head_dim = 4;
  int64_t value_dim = 4;
  int64_t rotary = 0;  // 1: rotary embedding on
  int64_t seed = 1;
  bool operator==(const Case&) const = default;

  // Calls f(letter, field) for every field: the one list of them.
  template <class Self, class F>
  static void visit(Self& self, F&& f) {
    f("b", self.batch);
    f("h", self.heads);
    f("g", self.kv_heads);
    f("q", self.queries);
    f("k", self.keys);
    f("o", self.offset);
    f("d", self.head_dim);
    f("v", self.value_dim);
    f("r", self.rotary);
    f("s", self.seed);
  }
};

// "b1.h2.g1.q3.k3.o0.d4.v4.r0.s1"
std::string to_string(const Case& c);
// In words, for people.
std::string describe(const Case& c);
// Throws Error for text that to_string would not write.
Case parse_case(std::string_view text);

// From small to large: self-attention of several lengths, unequal lengths, offsets, grouped heads, odd
// widths.
std::span<const Case> conformance_cases();
// The same, and some of several hundred tokens: enough to reach every way in which a kernel divides its work.
std::span<const Case> cases_with_tiles();
// One head each, of every number of queries and of keys up to 70 and of some primes beyond, with widths that
// fit no vector.
std::span<const Case> size_cases();

}  // namespace saccade
