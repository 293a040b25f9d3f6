// A tensor on its way into a file: what the header must say about it at once, and its bytes when their turn
// comes, so that a model is converted and written without a second copy of it in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/base/file.h"
#include "saccade/weights/tensor_view.h"

namespace saccade {

/// Takes the next bytes of a tensor.
using ByteSink = std::function<void(std::span<const std::byte>)>;

struct TensorSource {
  std::string name;
  ElementType type = ElementType::F32;
  std::vector<std::int64_t> shape;
  std::function<void(const ByteSink&)> write;  // gives all bytes, in one piece or many

  /// The tensor as it is; the view's bytes must live until it has been written.
  static TensorSource of(const TensorView& view);

  /// A tensor given as floats and written as `type`, a row (of the last dimension) at a time: `read(row,
  /// out)` puts the floats of one row to `out`. An Error when quantise.h does not know the type.
  static TensorSource from_rows(std::string name, ElementType type, std::vector<std::int64_t> shape,
                                std::function<void(std::int64_t row, float* out)> read);
};

/// The bytes that each source is going to have. An Error that starts with `where` when a shape is impossible
/// or two sources have one name.
std::vector<std::int64_t> measure(std::span<const TensorSource> sources, std::string_view where);

/// Appends a source's bytes to a file; that there are as many as `expected` is the source's duty.
void append_tensor(AtomicFile& file, const TensorSource& source, std::int64_t expected);

}  // namespace saccade
