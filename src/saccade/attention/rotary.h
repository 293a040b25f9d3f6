// Rotary position embedding: each pair of a vector's numbers is turned by an angle that grows with the
// token's position, so that dot products depend on distances.
#pragma once

#include <ATen/core/Tensor.h>

namespace saccade {

struct RotaryOptions {
  double base = 10000;
  int64_t dims = 0;          // how many of the head's numbers are turned; 0: all
  bool interleaved = false;  // pairs are neighbours (GPT-J) instead of halves (Llama)
};

// Turns `vectors` [batch, heads, tokens, width] by `positions`, [tokens] or [batch, tokens].
at::Tensor rotate(const at::Tensor& vectors, const at::Tensor& positions, const RotaryOptions& options);

}  // namespace saccade
