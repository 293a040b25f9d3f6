// Two encoders that predict no tokens: how far apart the vectors are that they make of the same texts.
#pragma once

#include <span>
#include <vector>

#include "saccade/evaluate/questions.h"
#include "saccade/models/transformer.h"

namespace saccade {

struct EmbeddingFidelity {
  int64_t texts = 0, tokens = 0;
  std::vector<double> cosines;  // of each text's embedding from both models
  double hidden_distance = 0;   // norm of the difference of all last hidden states over the baseline's norm
  int64_t same_neighbours = 0;  // texts to which both models find the same other text nearest
  int64_t same_labels = 0;      // of classifiers: texts that both give the same label
  bool classifies = false;

  double mean_cosine() const;
  double neighbour_agreement() const {
    return static_cast<double>(same_neighbours) / static_cast<double>(texts);
  }
  double label_agreement() const { return static_cast<double>(same_labels) / static_cast<double>(texts); }
};

// An embedding is the mean over a text's tokens, of length 1. Both models must have the same width.
EmbeddingFidelity compare_embeddings(Transformer baseline, Transformer candidate,
                                     std::span<const std::vector<int32_t>> texts, int64_t batch_size = 4,
                                     const OnProgress& on_progress = {});

}  // namespace saccade
