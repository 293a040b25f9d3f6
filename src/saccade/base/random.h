// Random numbers that are the same on every machine: named streams of one seed, with no help from the
// standard library's distributions, whose results differ between implementations.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace saccade {

/// A stream of random numbers, given by a seed and a name. Streams of different names are independent, so
/// that drawing more numbers for one purpose ("dropout") does not change those for another
/// ("initialisation").
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::string_view name);

  /// 64 random bits.
  std::uint64_t next();

  /// Uniform in [0, 1), a multiple of 2^-53.
  double uniform();

  /// Normal with mean 0 and variance 1.
  double normal();

  /// Uniform in {0, ..., n-1}, without bias. n must be positive.
  std::uint64_t below(std::uint64_t n);

  /// The stream of this name below this one. It depends on the names alone, not on how many numbers were
  /// drawn.
  RandomStream split(std::string_view name) const;

 private:
  std::uint64_t identity_;              // stands for the seed and all names
  std::array<std::uint64_t, 4> state_;  // of xoshiro256**
  double spare_normal_ = 0;             // normal numbers are made in pairs
  bool has_spare_ = false;
};

}  // namespace saccade
