// Angles are computed in double, because position times frequency needs more digits than a float has.
#include "saccade/attention/rotary.h"

#include "saccade/attention/shapes.h"
#include "saccade/base/error.h"

namespace saccade {

at::Tensor rotate(const at::Tensor& vectors, const at::Tensor& positions, const RotaryOptions& options) {
  const int64_t width = vectors.size(-1), dims = options.dims > 0 ? options.dims : width;
  require(dims <= width && dims % 2 == 0,
          "rotary: {} of {} numbers cannot be turned in pairs; expected an even number up to {}", dims, width,
          width);
  const auto dtype = compute_dtype(vectors);
  const auto in_double = torch::TensorOptions().dtype(torch::kDouble).device(vectors.device());
  const auto frequencies =
      torch::pow(options.base, torch::arange(0, dims, 2, in_double) / -static_cast<double>(dims));
  auto angles = positions.to(torch::kDouble).unsqueeze(-1) *
                frequencies;                                  // [tokens, dims/2] or [batch, tokens, dims/2]
  angles = angles.dim() == 3 ? angles.unsqueeze(1) : angles;  // the heads turn alike
  const auto cosine = angles.cos().to(dtype), sine = angles.sin().to(dtype);
  const auto turned = vectors.narrow(-1, 0, dims).to(dtype);
  torch::Tensor first, second, result;
  if (options.interleaved) {
    const auto pairs = turned.unflatten(-1, {dims / 2, 2});
    first = pairs.select(-1, 0);
    second = pairs.select(-1, 1);
    result = torch::stack({first * cosine - second * sine, second * cosine + first * sine}, -1).flatten(-2);
  } else {
    first = turned.narrow(-1, 0, dims / 2);
    second = turned.narrow(-1, dims / 2, dims / 2);
    result = torch::cat({first * cosine - second * sine, second * cosine + first * sine}, -1);
  }
  result = result.to(vectors.scalar_type());
  return dims == width ? result : torch::cat({result, vectors.narrow(-1, dims, width - dims)}, -1);
}

}  // namespace saccade
