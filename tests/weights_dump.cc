// weights_dump COMMAND PATH [OUTPUT]: what the weights library makes of a file, for weights_test.py to
// compare with what Python makes of it.
//   list      one line of JSON for each tensor: name, type, shape, bytes
//   floats    the elements of all tensors that are no integers, as floats one after another, to OUTPUT
//   metadata  the metadata of a GGUF file as JSON
//   time      the seconds that converting all tensors to floats takes on one thread
//   copy      the same tensors, and metadata if it is GGUF, to OUTPUT of the same format
//   shards    the tensors to safetensors files of at most 1000 bytes each in the directory OUTPUT
//   gguf-T    the tensors as type T (F32, F16, BF16, Q8_0) with a few metadata to the GGUF file OUTPUT
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <string_view>

#include "saccade/base/error.h"
#include "saccade/base/json.h"
#include "saccade/weights/checkpoint.h"
#include "saccade/weights/dequantise.h"
#include "saccade/weights/gguf_writer.h"
#include "saccade/weights/safetensors_writer.h"

namespace saccade {
namespace {

void print_list(const Checkpoint& checkpoint) {
  for (const TensorView& tensor : checkpoint.tensors()) {
    const Json line{{"name", tensor.name},
                    {"type", format_of(tensor.type).name},
                    {"shape", tensor.shape},
                    {"bytes", tensor.bytes.size()}};
    fmt::print("{}\n", dump(line));
  }
}

// Calls `use` with each tensor's elements.
template <class Use>
void for_each_floats(const Checkpoint& checkpoint, Use&& use) {
  std::vector<float> floats;
  for (const TensorView& tensor : checkpoint.tensors()) {
    if (format_of(tensor.type).kind == ElementKind::integer) continue;
    floats.resize(static_cast<std::size_t>(tensor.elements()));
    to_floats(tensor, floats.data());
    use(floats);
  }
}

void write_floats(const Checkpoint& checkpoint, const char* output) {
  std::ofstream file(output, std::ios::binary);
  for_each_floats(checkpoint, [&](const std::vector<float>& floats) {
    file.write(reinterpret_cast<const char*>(floats.data()),
               static_cast<std::streamsize>(floats.size() * sizeof(float)));
  });
  require(file.flush().good(), "{}: cannot write", output);
}

Json to_json(const GgufArray& array);

template <class Value>
Json to_json(const Value& value) {
  if constexpr (std::is_floating_point_v<Value>) {
    if (!std::isfinite(value)) return fmt::format("{}", value);
    return static_cast<double>(value);
  } else {
    return value;
  }
}

Json to_json(const GgufArray& array) {
  Json result = Json::array();
  std::visit(
      [&](const auto& elements) {
        for (const auto& element : elements) result.push_back(to_json(element));
      },
      array.elements);
  return result;
}

void print_metadata(const Checkpoint& checkpoint) {
  require(checkpoint.gguf(), "{}: is no GGUF file", checkpoint.path().string());
  Json result = Json::object();
  for (const auto& [key, value] : checkpoint.gguf()->metadata())
    result[key] = std::visit([](const auto& held) { return to_json(held); }, value);
  fmt::print("{}\n", dump(result));
}

void print_time(const Checkpoint& checkpoint) {
  const auto begin = std::chrono::steady_clock::now();
  double sum = 0;
  std::size_t count = 0;
  for_each_floats(checkpoint, [&](const std::vector<float>& floats) {
    count += floats.size();
    if (!floats.empty()) sum += floats.back();
  });
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  fmt::print("{} elements in {:.3f} s (sum of the last ones {})\n", count, taken.count(), sum);
}

std::vector<TensorSource> sources_of(const Checkpoint& checkpoint) {
  std::vector<TensorSource> sources;
  for (const TensorView& tensor : checkpoint.tensors()) sources.push_back(TensorSource::of(tensor));
  return sources;
}

void copy(const Checkpoint& checkpoint, const char* output) {
  const auto sources = sources_of(checkpoint);
  if (checkpoint.gguf()) {
    write_gguf(output, checkpoint.gguf()->metadata(), sources);
  } else {
    write_safetensors(output, sources);
  }
}

void convert(const Checkpoint& checkpoint, std::string_view type_name, const char* output) {
  const auto formats = element_formats();
  const auto format = std::ranges::find(formats, type_name, &ElementFormat::name);
  require(format != formats.end(), "'{}' is no type", type_name);
  std::vector<TensorSource> sources;
  for (const TensorView& tensor : checkpoint.tensors()) {
    const std::int64_t width = tensor.shape.back();
    sources.push_back(TensorSource::from_rows(
        tensor.name, format->type, tensor.shape,
        [&tensor, width](std::int64_t row, float* out) { to_floats(tensor, row * width, width, out); }));
  }
  const GgufMetadata metadata{{"general.architecture", "test"},
                              {"test.list", GgufArray{std::vector<std::string>{"a", "", "ä"}}},
                              {"test.real", 0.5f}};
  write_gguf(output, metadata, sources);
}

int run(int count, char** arguments) {
  const std::string_view command = count > 1 ? arguments[1] : "";
  const bool prints = command == "list" || command == "metadata" || command == "time";
  require(count == (prints ? 3 : 4), "usage: weights_dump COMMAND PATH [OUTPUT], see weights_dump.cc");
  const Checkpoint checkpoint = Checkpoint::open(arguments[2]);
  if (command == "list") print_list(checkpoint);
  if (command == "floats") write_floats(checkpoint, arguments[3]);
  if (command == "copy") copy(checkpoint, arguments[3]);
  if (command == "shards") write_safetensors_shards(arguments[3], sources_of(checkpoint), 1000);
  if (command.starts_with("gguf-")) convert(checkpoint, command.substr(5), arguments[3]);
  if (command == "metadata") print_metadata(checkpoint);
  if (command == "time") print_time(checkpoint);
  return 0;
}

}  // namespace
}  // namespace saccade

int main(int count, char** arguments) {
  try {
    return saccade::run(count, arguments);
  } catch (const saccade::Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  }
}
