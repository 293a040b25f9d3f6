// Tasks that make their own text, without end: each knows how to write one document and which words of it can
// be known for certain. How documents become sequences of tokens is the same for all of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/base/random.h"
#include "saccade/data/dataset.h"
#include "saccade/text/tokenizer.h"

namespace saccade {

/// A piece of a document. All but the first start with white space or a full stop, so that no tokenizer that
/// cuts at these joins letters of two of them; each is encoded by itself, and its tokens are answers or they
/// are not.
struct Segment {
  std::string text;
  bool answer = false;
};

/// All of a document.
std::string text_of(const std::vector<Segment>& segments);

/// How long a document is.
struct DocumentSize {
  int64_t items = 1;    // what is to be remembered: facts, pairs, symbols, clauses
  int64_t filling = 0;  // sentences that only make the way back longer, where the task has them
};

class Generator {
 public:
  virtual ~Generator() = default;

  /// A document; it depends on the size and the stream alone.
  virtual std::vector<Segment> write(const DocumentSize& size, RandomStream random) const = 0;

  /// Sizes from 1 to this can be asked for.
  virtual int64_t most_items() const = 0;

  /// What a person who gave no number of items gets; `filling` is tried from 1 upwards as long as it fits.
  /// For tasks without filling, it counts items.
  virtual DocumentSize natural_size(int64_t filling) const = 0;

  virtual bool has_filling() const = 0;
};

/// "stories", "recall", "induction", "passkey", "translation".
const std::vector<std::string>& generator_names();

/// Throws Error for an unknown name.
std::unique_ptr<Generator> make_generator(std::string_view name);

// One for each file.
std::unique_ptr<Generator> make_stories();
std::unique_ptr<Generator> make_recall();
std::unique_ptr<Generator> make_induction();
std::unique_ptr<Generator> make_passkey();
std::unique_ptr<Generator> make_translation();

/// 0, 1, ..., count-1 in random order.
std::vector<size_t> shuffled(size_t count, RandomStream& random);

}  // namespace saccade
