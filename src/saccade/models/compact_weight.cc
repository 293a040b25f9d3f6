// Blocks of the file's types, rewritten as scale, offset and integers.
#include "saccade/models/compact_weight.h"

#include <ATen/Parallel.h>

#include <cstring>

#include "saccade/base/error.h"
#include "saccade/base/half.h"

namespace saccade {

using kernels::CompactKind;

namespace {

CompactKind kind_of(ElementType type) {
  return type == ElementType::Q4_0 || type == ElementType::Q4_1 ? CompactKind::four_bits
                                                                : CompactKind::eight_bits;
}

float half_at(const std::byte* from) {
  std::uint16_t bits;
  std::memcpy(&bits, from, sizeof(bits));
  return from_half(bits);
}

// One block of 32 weights.
void rewrite(ElementType type, const std::byte* from, std::byte* to) {
  const float scale = half_at(from);
  float offset = 0;
  std::byte* integers = to + 2 * sizeof(float);
  const auto five_bits = [&](std::size_t header, int shift) {
    std::uint32_t fifth;  // the highest bit of each weight
    std::memcpy(&fifth, from + header, sizeof(fifth));
    const std::byte* pairs = from + header + sizeof(fifth);
    for (std::size_t k = 0; k < 32; ++k) {
      const auto pair = static_cast<std::uint8_t>(pairs[k % 16]);
      const int low = k < 16 ? pair & 15 : pair >> 4;
      integers[k] = static_cast<std::byte>(
          static_cast<std::int8_t>((low | static_cast<int>((fifth >> k) & 1) << 4) - shift));
    }
  };
  switch (type) {
    case ElementType::Q4_0:
      offset = -8 * scale;
      std::memcpy(integers, from + 2, 16);
      break;
    case ElementType::Q4_1:
      offset = half_at(from + 2);
      std::memcpy(integers, from + 4, 16);
      break;
    case ElementType::Q5_0:
      five_bits(2, 16);
      break;
    case ElementType::Q5_1:
      offset = half_at(from + 2);
      five_bits(4, 0);
      break;
    default:  // Q8_0
      std::memcpy(integers, from + 2, 32);
      break;
  }
  std::memcpy(to, &scale, sizeof(scale));
  std::memcpy(to + sizeof(scale), &offset, sizeof(offset));
}

}  // namespace

bool CompactWeight::can_hold(ElementType type) {
  return type == ElementType::Q4_0 || type == ElementType::Q4_1 || type == ElementType::Q5_0 ||
         type == ElementType::Q5_1 || type == ElementType::Q8_0;
}

void CompactWeight::append(const TensorView& view, int64_t interleaved_heads) {
  invariant(can_hold(view.type) && view.shape.size() == 2, "a compact weight of a type that cannot be kept");
  const int64_t rows = view.shape[0], blocks = view.shape[1] / kernels::kCompactBlock;
  depth_ = view.shape[1];
  rows_ += rows;
  Part part{.kind = kind_of(view.type), .rows = rows};
  const int64_t from_bytes = format_of(view.type).block_bytes, to_bytes = kernels::compact_bytes(part.kind);
  part.data.resize(static_cast<std::size_t>(rows * blocks * to_bytes));
  const int64_t width = interleaved_heads > 0 ? rows / interleaved_heads : 0;
  at::parallel_for(0, rows, 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      // Row k of a head's first half was the first of pair k.
      int64_t source = row;
      if (interleaved_heads > 0) {
        const int64_t within = row % width, half = width / 2;
        source = row - within + (within % half) * 2 + within / half;
      }
      for (int64_t block = 0; block < blocks; ++block)
        rewrite(view.type, view.bytes.data() + (source * blocks + block) * from_bytes,
                part.data.data() + (row * blocks + block) * to_bytes);
    }
  });
  parts_.push_back(std::move(part));
}

void CompactWeight::stand_for(const at::Tensor& parameter) {
  invariant(parameter.size(0) == rows_ && parameter.size(1) == depth_, "a compact weight of another shape");
  place_ = parameter.data_ptr();
  version_ = parameter._version();
}

bool CompactWeight::stands_for(const at::Tensor& parameter) const {
  return place_ == parameter.data_ptr() && version_ == parameter._version();
}

void CompactWeight::multiply(const float* x, int64_t rows, const float* bias, float* out) const {
  int64_t first = 0;
  for (const Part& part : parts_) {
    kernels::multiply_compact_rows(part.kind, x, rows, depth_, part.data.data(), part.rows,
                                   bias ? bias + first : nullptr, out + first, rows_);
    first += part.rows;
  }
}

}  // namespace saccade
