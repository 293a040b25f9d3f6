// What both writers do with a source.
#include "saccade/weights/tensor_source.h"

#include <memory>
#include <unordered_set>

#include "saccade/base/error.h"
#include "saccade/weights/quantise.h"

namespace saccade {

TensorSource TensorSource::of(const TensorView& view) {
  return {.name = view.name,
          .type = view.type,
          .shape = view.shape,
          .write = [bytes = view.bytes](const ByteSink& sink) { sink(bytes); }};
}

TensorSource TensorSource::from_rows(std::string name, ElementType type, std::vector<std::int64_t> shape,
                                     std::function<void(std::int64_t, float*)> read) {
  require(can_quantise(type), "tensor '{}': cannot be written as {}; expected F32, F16, BF16 or Q8_0", name,
          format_of(type).name);  // here rather than when half of the file is written
  const std::int64_t elements = count_elements(shape, name);
  const std::int64_t row_bytes = count_bytes(type, std::span(shape).last(shape.empty() ? 0 : 1), name);
  const std::int64_t width = shape.empty() ? 1 : shape.back();
  return {.name = std::move(name),
          .type = type,
          .shape = std::move(shape),
          .write = [=, read = std::move(read)](const ByteSink& sink) {
            std::vector<float> floats(static_cast<std::size_t>(width));
            std::vector<std::byte> bytes(static_cast<std::size_t>(row_bytes));
            for (std::int64_t row = 0; row * width < elements; ++row) {
              read(row, floats.data());
              from_floats(type, floats, bytes);
              sink(bytes);
            }
          }};
}

std::vector<std::int64_t> measure(std::span<const TensorSource> sources, std::string_view where) {
  std::vector<std::int64_t> sizes;
  std::unordered_set<std::string_view> names;
  std::int64_t total = 0;
  for (const TensorSource& source : sources) {
    const std::string what = fmt::format("{}: tensor '{}'", where, source.name);
    require(names.insert(source.name).second, "{}: is given twice", what);
    sizes.push_back(count_bytes(source.type, source.shape, what));
    require(!__builtin_add_overflow(total, sizes.back(), &total), "{}: expected fewer than 2^63 bytes in all",
            what);
  }
  return sizes;
}

void append_tensor(AtomicFile& file, const TensorSource& source, std::int64_t expected) {
  std::int64_t written = 0;
  source.write([&](std::span<const std::byte> bytes) {
    written += static_cast<std::int64_t>(bytes.size());
    invariant(written <= expected, "a tensor's source gives no more bytes than its shape has");
    file.append({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  });
  invariant(written == expected, "a tensor's source gives as many bytes as its shape has");
}

}  // namespace saccade
