// What a kernel is given: raw memory with strides. Nothing here owns anything, and nothing knows of torch.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace saccade::kernels {

// How numbers are stored. Half-width numbers are widened when they are loaded; all arithmetic is in float, or
// in double when the vectors are double.
enum class Storage : uint8_t { float32, float64, bfloat16, float16 };

// Vectors [batch, head, token, feature] anywhere in memory; strides count elements.
struct Array {
  void* data = nullptr;
  Storage storage = Storage::float32;
  int64_t batch_stride = 0, head_stride = 0, token_stride = 0, feature_stride = 1;
  int64_t width = 0;  // features

  explicit operator bool() const { return data != nullptr; }
};

// A table of the formula, [batch or 1, head or 1, subscripted dimensions ...], in the compute type. A stride
// of 0 repeats. Subscripts have `origin` taken away and are then clamped to the size.
struct Table {
  const void* data = nullptr;
  int64_t batch_stride = 0, head_stride = 0;
  std::array<int64_t, 3> size = {1, 1, 1}, stride = {0, 0, 0}, origin = {0, 0, 0};

  int64_t elements() const { return size[0] * size[1] * size[2]; }
};

// Which keys a tile of queries looks at, instead of all: for each batch, head and query tile the numbers of
// key tiles, ascending, at keys[starts[t]] .. keys[starts[t + 1]].
struct Lists {
  int64_t query_tile = 64, key_tile = 1;
  const int32_t* starts = nullptr;
  const int32_t* keys = nullptr;
  int64_t batch_stride = 0, head_stride = 0;  // of `starts`
  // Pick the listed keys; otherwise walk over all keys that any list of a tile names, and hide the others.
  bool gather = true;

  explicit operator bool() const { return starts != nullptr; }
};

struct Shape {
  int64_t batch = 0, heads = 0, key_heads = 0, queries = 0, keys = 0;
  int64_t offset = 0;     // position of the first query
  int64_t first_key = 0;  // position of the first key

  int64_t group() const { return heads / key_heads; }
  int64_t distances() const { return queries + keys > 0 ? queries + keys - 1 : 0; }
};

struct Inputs {
  Shape shape;
  std::vector<Array> queries, keys;  // q and k, then the plan's vectors; unused ones are empty
  Array value;
  std::vector<Table> tables;  // in the order of the kernel plan's tables
  Lists lists;
};

}  // namespace saccade::kernels
