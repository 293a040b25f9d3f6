// The bytes of one GGUF file taken apart. Private to gguf.cc, which adds what people ask of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "saccade/weights/gguf.h"

namespace saccade {

struct GgufContent {
  std::uint32_t version = 0;
  GgufMetadata metadata;  // no key twice
  std::vector<TensorView> tensors;
};

GgufContent parse_gguf(std::span<const std::byte> file, std::string_view where);

}  // namespace saccade
