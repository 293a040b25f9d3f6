// Single numbers of the stored types, one at a time: for odd strides and the ends of rows.
#pragma once

#include "saccade/base/half.h"
#include "saccade/kernels/arrays.h"

namespace saccade::kernels {

template <class Real>
Real load_number(const void* data, Storage storage, int64_t index) {
  switch (storage) {
    case Storage::float32:
      return static_cast<Real>(static_cast<const float*>(data)[index]);
    case Storage::float64:
      return static_cast<Real>(static_cast<const double*>(data)[index]);
    case Storage::bfloat16:
      return static_cast<Real>(from_bfloat(static_cast<const uint16_t*>(data)[index]));
    case Storage::float16:
      return static_cast<Real>(from_half(static_cast<const uint16_t*>(data)[index]));
  }
  return 0;
}

template <class Real>
void store_number(Real value, void* data, Storage storage, int64_t index) {
  switch (storage) {
    case Storage::float32:
      static_cast<float*>(data)[index] = static_cast<float>(value);
      return;
    case Storage::float64:
      static_cast<double*>(data)[index] = static_cast<double>(value);
      return;
    case Storage::bfloat16:
      static_cast<uint16_t*>(data)[index] = to_bfloat(static_cast<float>(value));
      return;
    case Storage::float16:
      static_cast<uint16_t*>(data)[index] = to_half(static_cast<float>(value));
      return;
  }
}

}  // namespace saccade::kernels
