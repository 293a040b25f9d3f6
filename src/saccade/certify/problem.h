// A problem: the tensors of a case for a formula. Whatever inputs the formula declares are made up to fit:
// their shapes from the declared dimensions, their numbers from the case's seed.
#pragma once

#include "saccade/attention/attention.h"
#include "saccade/certify/case.h"

namespace saccade {

inline constexpr int64_t kModelDim = 6;  // width of the layer's input in made-up problems

struct Problem {
  at::Tensor query, key, value;
  AttentionCall call;
};

Problem make_problem(const Formula& formula, const Case& c, at::ScalarType dtype = at::kDouble);

AttentionOptions options_of(const Case& c);

// Gives every learned parameter a seeded value near its start, within its bounds, so that no special value
// hides a mistake.
void randomise_parameters(AttentionImpl& attention, int64_t seed);

// The tokens [begin, end) of a self-attention problem, with their part of every input: one step of decoding.
Problem slice(const Formula& formula, const Problem& problem, int64_t begin, int64_t end);

// The same problem with all that belongs to tokens from `begin` on replaced by other numbers.
Problem with_other_future(const Formula& formula, const Problem& problem, int64_t begin, int64_t seed);

// Seeded standard normal numbers.
at::Tensor normal_tensor(at::IntArrayRef shape, int64_t seed, std::string_view name, at::ScalarType dtype);

}  // namespace saccade
