// What the tests of this rung share: files built byte by byte.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/base/testing.h"
#include "saccade/weights/tensor_view.h"

namespace saccade {

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// The bytes of numbers, one after another.
template <class Number>
std::string raw(std::initializer_list<Number> numbers) {
  return {reinterpret_cast<const char*>(std::data(numbers)), numbers.size() * sizeof(Number)};
}

/// A safetensors file of this header and these bytes.
inline std::string safetensors_file(std::string_view header, std::string_view data) {
  return raw<std::uint64_t>({header.size()}) + std::string(header) + std::string(data);
}

/// GGUF, piece by piece and without any check.
class GgufBytes {
 public:
  GgufBytes(std::uint64_t tensors, std::uint64_t keys, std::uint32_t version = 3) : bytes_("GGUF") {
    number(version).number(tensors).number(keys);
  }

  template <class Number>
  GgufBytes& number(Number value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  GgufBytes& text(std::string_view value) {
    number<std::uint64_t>(value.size());
    bytes_ += value;
    return *this;
  }
  GgufBytes& key(std::string_view name, std::uint32_t type) { return text(name).number(type); }
  GgufBytes& tensor(std::string_view name, std::vector<std::uint64_t> sizes, std::uint32_t type,
                    std::uint64_t offset) {
    text(name).number(static_cast<std::uint32_t>(sizes.size()));
    for (const std::uint64_t size : sizes) number(size);
    return number(type).number(offset);
  }
  GgufBytes& align(std::size_t alignment = 32) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
    return *this;
  }
  GgufBytes& data(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace saccade
