// xoshiro256** (Blackman and Vigna) seeded by splitmix64. Only operations that IEEE 754 defines exactly are
// used on floating-point numbers, so that normal() too gives the same bits everywhere.
#include "saccade/base/random.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "saccade/base/error.h"

namespace saccade {
namespace {

__extension__ using Wide = unsigned __int128;

std::uint64_t splitmix64(std::uint64_t& state) {
  state += 0x9E3779B97F4A7C15;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

// Mixes a name into an identity. The length is mixed in last, so that split("a").split("b") is not
// split("ab").
std::uint64_t mix(std::uint64_t identity, std::string_view name) {
  std::uint64_t state = splitmix64(identity);
  for (const char c : name) {
    state ^= static_cast<unsigned char>(c);
    state = splitmix64(state);
  }
  state ^= static_cast<std::uint64_t>(name.size()) << 32;
  return splitmix64(state);
}

// The natural logarithm by its series in (m-1)/(m+1). The system's own differs in the last bit between
// machines.
double portable_log(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);  // in [1/2, 1)
  if (mantissa < std::numbers::sqrt2 / 2) {
    mantissa *= 2;
    exponent -= 1;
  }
  const double s = (mantissa - 1) / (mantissa + 1);  // at most 0.172: eleven terms reach full precision
  double series = 0;
  for (int odd = 21; odd >= 1; odd -= 2) series = series * (s * s) + 1.0 / odd;
  return exponent * std::numbers::ln2 + 2 * s * series;
}

}  // namespace

RandomStream::RandomStream(std::uint64_t seed, std::string_view name) : identity_(mix(seed, name)) {
  std::uint64_t state = identity_;
  for (auto& word : state_) word = splitmix64(state);
}

RandomStream RandomStream::split(std::string_view name) const { return RandomStream(identity_, name); }

std::uint64_t RandomStream::next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

double RandomStream::uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

// Marsaglia's polar method: a point in the unit disc gives two normal numbers.
double RandomStream::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_normal_;
  }
  double x = 0, y = 0, squared = 0;
  do {
    x = 2 * uniform() - 1;
    y = 2 * uniform() - 1;
    squared = x * x + y * y;
  } while (squared >= 1 || squared == 0);
  const double factor = std::sqrt(-2 * portable_log(squared) / squared);
  spare_normal_ = y * factor;
  has_spare_ = true;
  return x * factor;
}

// Lemire's method: the high half of a product is uniform once the few low halves that favour some are
// rejected.
std::uint64_t RandomStream::below(std::uint64_t n) {
  invariant(n > 0, "random: below(n) needs a positive n");
  const std::uint64_t favoured = -n % n;
  while (true) {
    const Wide product = static_cast<Wide>(next()) * n;
    if (static_cast<std::uint64_t>(product) >= favoured) return static_cast<std::uint64_t>(product >> 64);
  }
}

}  // namespace saccade
