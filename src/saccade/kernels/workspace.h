// Scratch memory of the kernels: aligned, reused from call to call, and counted, so that a benchmark can say
// how much a call needed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace saccade::kernels {

class Workspace {
 public:
  explicit Workspace(size_t bytes);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0, needed_ = 0;  // a block that was freed may be larger than what is asked for
};

// Hands out pieces of a workspace, each at the start of a cache line. Without memory it only counts, so that
// the same code that lays out the pieces also tells how much they take.
class Arena {
 public:
  explicit Arena(std::byte* memory = nullptr) : memory_(memory) {}

  template <class T>
  T* take(int64_t count) {
    T* result = memory_ ? reinterpret_cast<T*>(memory_ + used_) : nullptr;
    used_ += (static_cast<size_t>(count) * sizeof(T) + kLine - 1) / kLine * kLine;
    return result;
  }
  size_t used() const { return used_; }

  static constexpr size_t kLine = 64;

 private:
  std::byte* memory_;
  size_t used_ = 0;
};

// The most bytes that were asked for at one time since the last reset.
int64_t workspace_peak_bytes();
void reset_workspace_peak();

}  // namespace saccade::kernels
