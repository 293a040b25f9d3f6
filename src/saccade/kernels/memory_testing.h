// Arrays in memory without a byte to spare, so that no access out of bounds goes unnoticed.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "saccade/base/error.h"
#include "saccade/kernels/packing.h"
#include "saccade/kernels/storage.h"

namespace saccade::kernels::testing {

// On the heap, where AddressSanitizer watches both ends, or against a page that must not be touched.
enum class Guard { heap, page_after, page_before };

class Memory {
 public:
  Memory(size_t bytes, Guard guard) : bytes_(bytes) {
    if (guard == Guard::heap) {
      heap_.reset(new std::byte[bytes]);
      data_ = heap_.get();
    } else {
      const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
      const size_t pages = (bytes + page - 1) / page * page;
      mapped_ = pages + page;
      map_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      invariant(map_ != MAP_FAILED, "testing: no memory");
      auto* begin = static_cast<std::byte*>(map_);
      const bool after = guard == Guard::page_after;
      mprotect(after ? begin + pages : begin, page, PROT_NONE);
      data_ = after ? begin + pages - bytes : begin + page;
    }
    std::memset(data_, 0xff, bytes);  // a NaN in every type
  }
  ~Memory() {
    if (map_) munmap(map_, mapped_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_, mapped_ = 0;
  std::unique_ptr<std::byte[]> heap_;
  void* map_ = nullptr;
  std::byte* data_ = nullptr;
};

enum class Layout {
  packed,
  token_major,    // heads within tokens, and a gap after every row
  spaced,         // every other number
  feature_major,  // tokens are neighbours
  shared          // one sequence and head for all
};

class Tensor {
 public:
  Tensor() = default;
  Tensor(Storage storage, std::array<int64_t, 4> sizes, Layout layout, Guard guard) : sizes_(sizes) {
    const auto [batch, heads, tokens, width] = sizes;
    array_ = {nullptr, storage, heads * tokens * width, tokens * width, width, 1, width};
    if (layout == Layout::token_major) {
      array_.token_stride = heads * (width + 3);
      array_.head_stride = width + 3;
      array_.batch_stride = tokens * array_.token_stride;
    } else if (layout == Layout::spaced) {
      for (int64_t* stride :
           {&array_.batch_stride, &array_.head_stride, &array_.token_stride, &array_.feature_stride})
        *stride *= 2;
    } else if (layout == Layout::feature_major) {
      array_.token_stride = 1;
      array_.feature_stride = tokens;
    } else if (layout == Layout::shared) {
      array_.batch_stride = array_.head_stride = 0;
    }
    int64_t elements =
        batch * heads * tokens * width == 0 ? 0 : 1 + index(batch - 1, heads - 1, tokens - 1, width - 1);
    memory_ = std::make_shared<Memory>(static_cast<size_t>(elements * element_size(storage)), guard);
    array_.data = memory_->data();
  }

  const Array& array() const { return array_; }
  const std::array<int64_t, 4>& sizes() const { return sizes_; }
  int64_t index(int64_t batch, int64_t head, int64_t token, int64_t feature) const {
    return batch * array_.batch_stride + head * array_.head_stride + token * array_.token_stride +
           feature * array_.feature_stride;
  }
  double at(int64_t batch, int64_t head, int64_t token, int64_t feature) const {
    return load_number<double>(array_.data, array_.storage, index(batch, head, token, feature));
  }
  // All numbers, in the order of the sizes.
  std::vector<double> numbers() const {
    std::vector<double> result;
    walk([&](int64_t place) { result.push_back(load_number<double>(array_.data, array_.storage, place)); });
    return result;
  }
  template <class F>
  void fill(F next) {
    walk([&](int64_t place) { store_number<double>(next(), array_.data, array_.storage, place); });
  }
  // Whether what lies between the numbers still is what it was in the beginning.
  bool gaps_untouched() const {
    const auto size = static_cast<size_t>(element_size(array_.storage));
    std::vector<bool> used(memory_->bytes(), false);
    walk([&](int64_t place) { std::fill_n(used.begin() + place * static_cast<int64_t>(size), size, true); });
    for (size_t byte = 0; byte < used.size(); ++byte)
      if (!used[byte] && memory_->data()[byte] != std::byte{0xff}) return false;
    return true;
  }

 private:
  template <class F>
  void walk(F f) const {
    for (int64_t b = 0; b < sizes_[0]; ++b)
      for (int64_t h = 0; h < sizes_[1]; ++h)
        for (int64_t t = 0; t < sizes_[2]; ++t)
          for (int64_t k = 0; k < sizes_[3]; ++k) f(index(b, h, t, k));
  }

  std::array<int64_t, 4> sizes_{};
  Array array_;
  std::shared_ptr<Memory> memory_;
};

}  // namespace saccade::kernels::testing
