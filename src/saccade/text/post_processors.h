// What is put around the ids of a text, such as [CLS] before and [SEP] after it. All types of post-processor
// come down to a template for one text and one for two.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "saccade/text/json_part.h"

namespace saccade {

/// The ids of one or two texts, and for each id whether it belongs to the first (0) or the second (1).
struct Encoding {
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;
};

class PostProcessor {
 public:
  /// Adds nothing.
  PostProcessor();

  /// Throws an Error that names what is not supported.
  explicit PostProcessor(const JsonPart& part);

  Encoding process(std::span<const int32_t> a, bool add_special_tokens) const;
  Encoding process(std::span<const int32_t> a, std::span<const int32_t> b, bool add_special_tokens) const;

 private:
  struct Item {
    enum class Kind { a, b, special } kind;
    int32_t type_id;
    std::vector<int32_t> ids;  // of a special one
  };
  using Template = std::vector<Item>;

  void read(const JsonPart& part);
  void read_template(const JsonPart& part);
  static Encoding apply(const Template& items, std::span<const int32_t> a, std::span<const int32_t> b,
                        bool add_special_tokens);

  Template single_, pair_;
  bool adds_ = false;
};

}  // namespace saccade
