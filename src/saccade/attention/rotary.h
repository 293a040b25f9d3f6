// Rotary position embedding: each pair of a vector's numbers is turned by an angle that grows with the
// token's position, so that dot products depend on distances.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace saccade {

struct RotaryOptions {
  double base = 10000;
  int64_t dims = 0;          // how many of the head's numbers are turned; 0: all
  bool interleaved = false;  // pairs are neighbours (GPT-J) instead of halves (Llama)
  // The angle of each pair for one step of position; empty: powers of the base. For models that stretch them.
  std::vector<double> frequencies = {};
  bool operator==(const RotaryOptions&) const = default;
};

// Turns `vectors` [batch, heads, tokens, width] by `positions`, [tokens] or [batch, tokens].
at::Tensor rotate(const at::Tensor& vectors, const at::Tensor& positions, const RotaryOptions& options);

// The same for neighbouring tokens from position `first` on: in one pass, with angles that are computed once
// for all layers of a model.
at::Tensor rotate_from(const at::Tensor& vectors, int64_t first, const RotaryOptions& options);

}  // namespace saccade
