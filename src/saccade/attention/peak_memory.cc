// The counting allocator. While it counts it remembers the size of each block it gives out, so that a block
// from before, freed in the middle of the work, is not taken for the work's own.
#include "saccade/attention/peak_memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <mutex>
#include <string>
#include <unordered_map>

#include "saccade/kernels/workspace.h"

namespace saccade {
namespace {

class CountingAllocator final : public c10::Allocator {
 public:
  // Torch keeps the allocator for as long as the process lives.
  static CountingAllocator& instance() {
    static auto* allocator = new CountingAllocator;
    return *allocator;
  }

  c10::DataPtr allocate(size_t bytes) override {
    void* block = c10::alloc_cpu(bytes);
    if (block && counting_) remember(block, static_cast<int64_t>(bytes));
    return {block, block, &give_back, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  void begin() {
    const std::lock_guard lock(mutex_);
    sizes_.clear();
    current_ = peak_ = 0;
    counting_ = true;
  }
  int64_t end() {
    const std::lock_guard lock(mutex_);
    counting_ = false;
    sizes_.clear();
    return peak_;
  }

 private:
  static void give_back(void* block) {
    if (!block) return;
    if (instance().counting_) instance().forget(block);
    c10::free_cpu(block);
  }
  void remember(void* block, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    sizes_[block] = bytes;
    current_ += bytes;
    peak_ = std::max(peak_, current_);
  }
  void forget(void* block) {
    const std::lock_guard lock(mutex_);
    const auto found = sizes_.find(block);
    if (found == sizes_.end()) return;
    current_ -= found->second;
    sizes_.erase(found);
  }

  std::atomic<bool> counting_ = false;
  std::mutex mutex_;
  std::unordered_map<void*, int64_t> sizes_;
  int64_t current_ = 0, peak_ = 0;
};

}  // namespace

int64_t peak_bytes(const std::function<void()>& work) {
  CountingAllocator& allocator = CountingAllocator::instance();
  c10::SetCPUAllocator(&allocator, 1);
  kernels::reset_workspace_peak();
  allocator.begin();
  try {
    work();
  } catch (...) {
    allocator.end();
    throw;
  }
  return allocator.end() + kernels::workspace_peak_bytes();
}

int64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  while (file >> word) {
    int64_t kilobytes = 0;
    if (word == "MemAvailable:" && file >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

}  // namespace saccade
