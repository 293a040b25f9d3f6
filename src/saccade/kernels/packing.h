// Keys and values laid out for the products: keys in panels, feature by feature; values and other rows as
// plain numbers, in place where they already are.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>

#include "saccade/kernels/primitives.h"

namespace saccade::kernels {

template <class Real>
constexpr Storage storage_of() {
  return sizeof(Real) == 8 ? Storage::float64 : Storage::float32;
}

inline int64_t element_size(Storage storage) {
  return storage == Storage::float64 ? 8 : storage == Storage::float32 ? 4 : 2;
}

inline int64_t round_up(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

inline const std::byte* row_address(const Array& array, int64_t batch, int64_t head, int64_t token) {
  return static_cast<const std::byte*>(array.data) +
         (batch * array.batch_stride + head * array.head_stride + token * array.token_stride) *
             element_size(array.storage);
}

// Whether rows can be read as they stand, whole vectors at a time.
template <class Real>
bool readable(const Array& array) {
  return array.storage == storage_of<Real>() && array.feature_stride == 1 &&
         array.width % primitives<Real>().lanes == 0;
}

// Rows that lie so many numbers apart share a few sets of the nearest cache and push each other out, where a
// product reads the same columns of many rows again and again. Heads of one token beside each other, as
// models leave them, are often such.
template <class Real>
bool collides(int64_t stride) {
  return stride * static_cast<int64_t>(sizeof(Real)) % 512 == 0;
}

// The same, for rows that are read many times: those that collide are better copied.
template <class Real>
bool in_place(const Array& array) {
  return readable<Real>(array) && !collides<Real>(array.token_stride);
}

// How far apart the rows of a copy are.
template <class Real>
int64_t copy_stride(int64_t width) {
  const int64_t columns = round_up(width, primitives<Real>().lanes);
  return collides<Real>(columns) ? columns + 64 / static_cast<int64_t>(sizeof(Real)) : columns;
}

// Whether neighbouring numbers of a bfloat16 array can be read as pairs, each of the size of a float.
inline bool pairs_up(const Array& array) {
  return array.storage == Storage::bfloat16 && array.feature_stride == 1 && array.width % 2 == 0 &&
         array.batch_stride % 2 == 0 && array.head_stride % 2 == 0 && array.token_stride % 2 == 0 &&
         reinterpret_cast<uintptr_t>(array.data) % sizeof(float) == 0;
}

// The array as such pairs, which are moved about like floats.
inline Array paired(Array array) {
  array.storage = Storage::float32;
  for (int64_t* count : {&array.batch_stride, &array.head_stride, &array.token_stride, &array.width})
    *count /= 2;
  return array;
}

// Rows [begin, end) of one head as plain numbers, `stride` apart; rows where `real` is 0 become 0.
template <class Real>
void load_rows(const Array& array, int64_t batch, int64_t head, Range tokens, const Real* real, Real* out,
               int64_t stride) {
  const Primitives<Real>& code = primitives<Real>();
  // Rows without gaps are one long row: in decoding, a call for each would take longer than the numbers do.
  if (!real && array.feature_stride == 1 && array.token_stride == array.width && stride == array.width)
    return code.widen(row_address(array, batch, head, tokens.begin), array.storage, 1,
                      tokens.size() * array.width, out);
  for (int64_t token = tokens.begin; token < tokens.end; ++token, out += stride) {
    if (real && real[token] == 0)
      std::fill_n(out, round_up(array.width, code.lanes), Real{0});
    else
      code.widen(row_address(array, batch, head, token), array.storage, array.feature_stride, array.width,
                 out);
  }
}

// The way back: rows `stride` apart, times `scale`, or times 0 where `real` is 0; they are changed in place.
template <class Real>
void store_rows(Real* rows, int64_t stride, Real scale, const Real* real, const Array& array, int64_t batch,
                int64_t head, Range tokens) {
  constexpr int64_t kTogether = 64;  // rows that stay in the nearest cache from one step to the next
  const Primitives<Real>& code = primitives<Real>();
  const bool whole = array.feature_stride == 1 && array.token_stride == array.width && stride == array.width;
  std::array<Real, kTogether> factors;
  factors.fill(scale);
  for (int64_t first = tokens.begin; first < tokens.end; first += kTogether, rows += kTogether * stride) {
    const int64_t count = std::min(kTogether, tokens.end - first);
    for (int64_t k = 0; real && k < count; ++k)
      factors[static_cast<size_t>(k)] = real[first + k] == 0 ? Real{0} : scale;
    code.scale_rows(rows, stride, count, stride, factors.data());
    const auto store = [&](int64_t k, int64_t width) {
      code.narrow(rows + k * stride, array.storage, array.feature_stride, width,
                  const_cast<std::byte*>(row_address(array, batch, head, first + k)));
    };
    if (whole) store(0, count * array.width);
    for (int64_t k = 0; !whole && k < count; ++k) store(k, array.width);
  }
}

// One panel of vectors: the rows [first, first + panel), beyond `count` zeros. `rows` is scratch for a panel
// of rows.
template <class Real>
void pack_panel(const Array& array, int64_t batch, int64_t head, int64_t first, int64_t count,
                const Real* real, Real* rows, Real* out) {
  const Primitives<Real>& code = primitives<Real>();
  const int64_t used = std::clamp<int64_t>(count - first, 0, code.panel);
  const Real* source = rows;
  int64_t stride = round_up(array.width, code.lanes);
  if (!real && array.storage == storage_of<Real>() && array.feature_stride == 1) {
    source = reinterpret_cast<const Real*>(row_address(array, batch, head, first));
    stride = array.token_stride;
  } else {
    load_rows(array, batch, head, {first, first + used}, real, rows, stride);
  }
  code.transpose(source, stride, used, array.width, out, code.panel, code.panel);
}

}  // namespace saccade::kernels
