// What the unchanged model says of every token of a text, for a student to be held to: its last hidden
// states, from which logits are made again where they are needed; or, out of a file, its most likely tokens,
// so that it need not run again. Rows are compared a few at a time, and the logits of a whole text are never
// held.
#pragma once

#include <filesystem>

#include "saccade/evaluate/divergence.h"

namespace saccade {

struct Teacher {
  at::Tensor hidden;                     // [tokens, width]; undefined: the following
  at::Tensor likely, log_probabilities;  // [tokens, k]: ids of the k most likely tokens, and what they get
  at::Tensor log_rest;                   // [tokens]: what all others get together

  bool stored() const { return !hidden.defined(); }
};

std::vector<Teacher> teachers_of(Transformer model, std::span<const TokenIds> texts);

// The `count` most likely tokens of each row, out of the file; where there is none, the model is run and the
// file is written. An Error when the file is of other texts.
std::vector<Teacher> stored_teachers(Transformer model, std::span<const TokenIds> texts, int64_t count,
                                     const std::filesystem::path& file);

// The mean over tokens of the divergence of a student with the teacher's head. Of a stored teacher it counts
// all tokens but the likely ones as one, which makes it a little smaller.
double mean_divergence(Transformer model, const Teacher& teacher, const at::Tensor& hidden);

// Its gradient with respect to the student's hidden states [tokens, width]: what training by output starts
// its backward pass from. A head that learns gets none.
at::Tensor divergence_gradient(Transformer model, const Teacher& teacher, const at::Tensor& hidden);

}  // namespace saccade
