// Sequences of tokens from a task that makes its own text.
#pragma once

#include <memory>
#include <string>

#include "saccade/data/dataset.h"
#include "saccade/data/document_encoder.h"
#include "saccade/data/generator.h"

namespace saccade {

struct GeneratedOptions {
  std::string task = "stories";
  int64_t length = 256;  // of rows, as DataOptions has it
  int64_t items = 0;     // in a document; 0: as many as fit
  uint64_t seed = 1;
  std::string stream = "train";  // documents of different streams have nothing to do with each other
};

/// Rows of length + 1 tokens, filled with documents; the first of a row is whole, and the last is cut. The
/// text of a document depends on the options, the number of its row and its place there. Throws Error when
/// not even the shortest document fits.
std::shared_ptr<const Dataset> generated_dataset(const GeneratedOptions& options, DocumentEncoder encoder);

/// The texts of such documents, for learning a vocabulary (where one token is taken for three bytes) or for
/// reading. They are of no row.
std::vector<std::string> generated_texts(const GeneratedOptions& options, int64_t count);

}  // namespace saccade
