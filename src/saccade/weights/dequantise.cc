// One function per block type, each the definition in ggml-quants.c with its layout spelled out. All loops
// have constant lengths: the compiler vectorises those even when it is told to keep code small. Products are
// rounded before a sum, as in ggml's own functions.
#include "saccade/weights/dequantise.h"

#include <cstring>

#include "saccade/base/error.h"
#include "saccade/base/half.h"

namespace saccade {
namespace {

using Byte = std::uint8_t;

constexpr int kSmallBlock = 32;
constexpr int kSuperBlock = 256;

// Bytes of a file have any alignment.
template <class Value>
Value load(const Byte* bytes) {
  Value value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

float load_half(const Byte* bytes) { return from_half(load<std::uint16_t>(bytes)); }

// scale, 32 signed bytes.
void q8_0(const Byte* block, float* out) {
  const float scale = load_half(block);
  const Byte* values = block + 2;
  for (int i = 0; i < kSmallBlock; ++i)
    out[i] = scale * static_cast<float>(static_cast<std::int8_t>(values[i]));
}

// scale, 16 bytes: the low halves are elements 0-15, the high halves 16-31.
void q4_0(const Byte* block, float* out) {
  const float scale = load_half(block);
  const Byte* pairs = block + 2;
  for (int i = 0; i < 16; ++i) out[i] = scale * static_cast<float>((pairs[i] & 15) - 8);
  for (int i = 0; i < 16; ++i) out[i + 16] = scale * static_cast<float>((pairs[i] >> 4) - 8);
}

// scale, minimum, pairs as above.
void q4_1(const Byte* block, float* out) {
  const float scale = load_half(block);
  const float minimum = load_half(block + 2);
  const Byte* pairs = block + 4;
  for (int i = 0; i < 16; ++i) out[i] = scale * static_cast<float>(pairs[i] & 15) + minimum;
  for (int i = 0; i < 16; ++i) out[i + 16] = scale * static_cast<float>(pairs[i] >> 4) + minimum;
}

// The 32 values of five bits: 4 bytes of fifth bits, then pairs as above.
void unpack_five_bits(const Byte* bytes, std::int32_t* values) {
  const auto fifth = load<std::uint32_t>(bytes);
  const Byte* pairs = bytes + 4;
  for (int i = 0; i < 16; ++i) values[i] = (pairs[i] & 15) | static_cast<int>(((fifth >> i) & 1) << 4);
  for (int i = 0; i < 16; ++i)
    values[i + 16] = (pairs[i] >> 4) | static_cast<int>(((fifth >> (i + 16)) & 1) << 4);
}

// scale, values of five bits.
void q5_0(const Byte* block, float* out) {
  const float scale = load_half(block);
  std::int32_t values[kSmallBlock];
  unpack_five_bits(block + 2, values);
  for (int i = 0; i < kSmallBlock; ++i) out[i] = scale * static_cast<float>(values[i] - 16);
}

// scale, minimum, values of five bits.
void q5_1(const Byte* block, float* out) {
  const float scale = load_half(block);
  const float minimum = load_half(block + 2);
  std::int32_t values[kSmallBlock];
  unpack_five_bits(block + 4, values);
  for (int i = 0; i < kSmallBlock; ++i) out[i] = scale * static_cast<float>(values[i]) + minimum;
}

// 16 bytes with a scale (low half) and a minimum (high half) for 16 elements each, 64 bytes of two-bit
// values, the scales' scale, the minima's scale. 32 bytes hold 128 elements: their lowest bits are the
// first 32.
void q2_k(const Byte* block, float* out) {
  const Byte* scales = block;
  const Byte* values = block + 16;
  const float scale = load_half(block + 80);
  const float minimum = load_half(block + 82);
  for (int group = 0; group < 16; ++group) {
    const float group_scale = scale * static_cast<float>(scales[group] & 15);
    const float group_minimum = minimum * static_cast<float>(scales[group] >> 4);
    const Byte* source = values + group / 8 * 32 + group % 2 * 16;
    const int shift = group % 8 / 2 * 2;
    float* target = out + group * 16;
    for (int i = 0; i < 16; ++i)
      target[i] = group_scale * static_cast<float>((source[i] >> shift) & 3) - group_minimum;
  }
}

// 32 bytes of third bits (bit n of byte i: element 32 n + i), 64 bytes of two-bit values as in q2_k, 12 bytes
// with 16 six-bit scales, the scales' scale. A third bit that is not set subtracts four.
void q3_k(const Byte* block, float* out) {
  const Byte* third_bits = block;
  const Byte* values = block + 32;
  const Byte* packed = block + 96;
  const float scale = load_half(block + 108);
  for (int group = 0; group < 16; ++group) {
    const int low = (packed[group % 8] >> (group / 8 * 4)) & 15;
    const int high = (packed[8 + group % 4] >> (group / 4 * 2)) & 3;
    const float group_scale = scale * static_cast<float>((low | high << 4) - 32);
    const Byte* source = values + group / 8 * 32 + group % 2 * 16;
    const Byte* third = third_bits + group % 2 * 16;
    const int shift = group % 8 / 2 * 2;
    const int bit = group / 2;
    float* target = out + group * 16;
    for (int i = 0; i < 16; ++i) {
      const int value = ((source[i] >> shift) & 3) - 4 + (((third[i] >> bit) & 1) << 2);
      target[i] = group_scale * static_cast<float>(value);
    }
  }
}

// The six-bit scale and minimum of one of eight groups, from 12 bytes: the first four groups have bytes of
// their own, whose upper bits complete the other four.
struct ScaleAndMinimum {
  float scale, minimum;
};
ScaleAndMinimum unpack_scale(const Byte* packed, int group) {
  if (group < 4) return {static_cast<float>(packed[group] & 63), static_cast<float>(packed[group + 4] & 63)};
  return {static_cast<float>((packed[group + 4] & 15) | (packed[group - 4] >> 6) << 4),
          static_cast<float>((packed[group + 4] >> 4) | (packed[group] >> 6) << 4)};
}

// the scales' scale, the minima's scale, 12 bytes of scales, 128 bytes: 32 of them hold two groups of 32
// elements, the first in their low halves.
void q4_k(const Byte* block, float* out) {
  const float scale = load_half(block);
  const float minimum = load_half(block + 2);
  for (int group = 0; group < 8; ++group) {
    const ScaleAndMinimum unpacked = unpack_scale(block + 4, group);
    const float group_scale = scale * unpacked.scale;
    const float group_minimum = minimum * unpacked.minimum;
    const Byte* source = block + 16 + group / 2 * 32;
    const int shift = group % 2 * 4;
    float* target = out + group * 32;
    for (int i = 0; i < 32; ++i)
      target[i] = group_scale * static_cast<float>((source[i] >> shift) & 15) - group_minimum;
  }
}

// As q4_k, with 32 bytes of fifth bits (bit n of byte i: element 32 n + i) before the halves.
void q5_k(const Byte* block, float* out) {
  const float scale = load_half(block);
  const float minimum = load_half(block + 2);
  const Byte* fifth = block + 16;
  for (int group = 0; group < 8; ++group) {
    const ScaleAndMinimum unpacked = unpack_scale(block + 4, group);
    const float group_scale = scale * unpacked.scale;
    const float group_minimum = minimum * unpacked.minimum;
    const Byte* source = block + 48 + group / 2 * 32;
    const int shift = group % 2 * 4;
    float* target = out + group * 32;
    for (int i = 0; i < 32; ++i) {
      const int value = ((source[i] >> shift) & 15) | ((fifth[i] >> group) & 1) << 4;
      target[i] = group_scale * static_cast<float>(value) - group_minimum;
    }
  }
}

// 128 bytes of low halves (64 of them hold 128 elements, the first 64 in their low halves), 64 bytes of upper
// two bits (32 of them hold 128 elements, the lowest bits the first 32), 16 signed scales of 16 elements
// each, their scale.
void q6_k(const Byte* block, float* out) {
  const Byte* scales = block + 192;
  const float scale = load_half(block + 208);
  for (int group = 0; group < 16; ++group) {
    const float group_scale = scale * static_cast<float>(static_cast<std::int8_t>(scales[group]));
    const int half = group / 8;
    const int part = group % 8 / 2;  // of 32 elements, within a half
    const Byte* low = block + half * 64 + part % 2 * 32 + group % 2 * 16;
    const Byte* high = block + 128 + half * 32 + group % 2 * 16;
    const int low_shift = part / 2 * 4;
    const int high_shift = part * 2;
    float* target = out + group * 16;
    for (int i = 0; i < 16; ++i) {
      const int value = (((low[i] >> low_shift) & 15) | ((high[i] >> high_shift) & 3) << 4) - 32;
      target[i] = group_scale * static_cast<float>(value);
    }
  }
}

template <int kElements, int kBytes, void (*kUnpack)(const Byte*, float*)>
void unpack_blocks(const Byte* bytes, std::int64_t count, float* out) {
  for (std::int64_t done = 0; done < count; done += kElements, bytes += kBytes) kUnpack(bytes, out + done);
}

// Whole groups of a constant length first, for the vectors' sake.
template <class Stored, float (*kConvert)(Stored)>
void convert(const Byte* bytes, std::int64_t count, float* out) {
  constexpr int kGroup = 32;
  std::int64_t done = 0;
  for (; done + kGroup <= count; done += kGroup) {
    Stored group[kGroup];
    std::memcpy(group, bytes + done * static_cast<std::int64_t>(sizeof(Stored)), sizeof group);
    for (int i = 0; i < kGroup; ++i) out[done + i] = kConvert(group[i]);
  }
  for (; done < count; ++done)
    out[done] = kConvert(load<Stored>(bytes + done * static_cast<std::int64_t>(sizeof(Stored))));
}

float from_double(double value) { return static_cast<float>(value); }

}  // namespace

void to_floats(const TensorView& tensor, float* out) { to_floats(tensor, 0, tensor.elements(), out); }

void to_floats(const TensorView& tensor, std::int64_t first, std::int64_t count, float* out) {
  const ElementFormat& format = format_of(tensor.type);
  require(format.kind != ElementKind::integer, "tensor '{}' has type {}; expected floats", tensor.name,
          format.name);
  const std::int64_t elements =
      static_cast<std::int64_t>(tensor.bytes.size()) / format.block_bytes * format.block_elements;
  invariant(first >= 0 && count >= 0 && first <= elements && count <= elements - first,
            "elements to convert are within the tensor");
  invariant(first % format.block_elements == 0 && count % format.block_elements == 0,
            "elements to convert are whole blocks");
  if (count == 0) return;  // then the pointers may be null
  const Byte* bytes =
      reinterpret_cast<const Byte*>(tensor.bytes.data()) + first / format.block_elements * format.block_bytes;
  switch (tensor.type) {
    case ElementType::F64:
      return convert<double, from_double>(bytes, count, out);
    case ElementType::F32:
      std::memcpy(out, bytes, static_cast<std::size_t>(count) * sizeof *out);
      return;
    case ElementType::F16:
      return convert<std::uint16_t, from_half>(bytes, count, out);
    case ElementType::BF16:
      return convert<std::uint16_t, from_bfloat>(bytes, count, out);
    case ElementType::Q8_0:
      return unpack_blocks<kSmallBlock, 34, q8_0>(bytes, count, out);
    case ElementType::Q4_0:
      return unpack_blocks<kSmallBlock, 18, q4_0>(bytes, count, out);
    case ElementType::Q4_1:
      return unpack_blocks<kSmallBlock, 20, q4_1>(bytes, count, out);
    case ElementType::Q5_0:
      return unpack_blocks<kSmallBlock, 22, q5_0>(bytes, count, out);
    case ElementType::Q5_1:
      return unpack_blocks<kSmallBlock, 24, q5_1>(bytes, count, out);
    case ElementType::Q2_K:
      return unpack_blocks<kSuperBlock, 84, q2_k>(bytes, count, out);
    case ElementType::Q3_K:
      return unpack_blocks<kSuperBlock, 110, q3_k>(bytes, count, out);
    case ElementType::Q4_K:
      return unpack_blocks<kSuperBlock, 144, q4_k>(bytes, count, out);
    case ElementType::Q5_K:
      return unpack_blocks<kSuperBlock, 176, q5_k>(bytes, count, out);
    case ElementType::Q6_K:
      return unpack_blocks<kSuperBlock, 210, q6_k>(bytes, count, out);
    case ElementType::I64:
    case ElementType::I32:
    case ElementType::I16:
    case ElementType::I8:
    case ElementType::U64:
    case ElementType::U32:
    case ElementType::U16:
    case ElementType::U8:
    case ElementType::BOOL:
      break;  // refused above
  }
  invariant(false, "every element type has a conversion");
}

}  // namespace saccade
