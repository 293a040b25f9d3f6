// Numbers too small to be normal are taken for 0 while one of these lives, on this thread. Weights far from
// the largest are such numbers, they change no result, and a processor takes a hundred cycles for each.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace saccade::kernels {

class FlushDenormals {
 public:
#if defined(__x86_64__)
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }  // flush results, and operands
  ~FlushDenormals() { _mm_setcsr(before_); }

 private:
  unsigned before_;
#else
  FlushDenormals() {}
  ~FlushDenormals() {}
#endif

 public:
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;
};

}  // namespace saccade::kernels
