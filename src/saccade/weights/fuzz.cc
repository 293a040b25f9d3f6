// Feeds the readers files that nobody would write: valid safetensors, GGUF and JSON files, made at random and
// then spoilt. A file must either be refused with an Error that names it or be readable to its last element.
// Anything else (another exception, a crash, more than a few seconds) ends the program with the number that
// makes the file again.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "saccade/base/error.h"
#include "saccade/base/fuzz_driver.h"
#include "saccade/base/json.h"
#include "saccade/weights/dequantise.h"
#include "saccade/weights/gguf.h"
#include "saccade/weights/hub_config.h"
#include "saccade/weights/random_files.h"
#include "saccade/weights/safetensors.h"

// The files are small: whoever asks for a hundred megabytes has believed a number in one.
// NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" const char* __asan_default_options() {
  return "malloc_context_size=6:quarantine_size_mb=16:max_allocation_size_mb=100";
}

namespace saccade {
namespace {

void expect(bool ok, const char* what) {
  if (!ok) throw FuzzFailure{what};
}

// Reads every byte and every element, and checks what callers rely on.
void use_tensors(const std::vector<TensorView>& tensors, std::span<const std::byte> file) {
  std::vector<const TensorView*> sorted;
  for (const TensorView& tensor : tensors) {
    expect(
        static_cast<std::int64_t>(tensor.bytes.size()) == count_bytes(tensor.type, tensor.shape, tensor.name),
        "a tensor has another size than its shape says");
    if (tensor.bytes.empty()) continue;
    expect(tensor.bytes.data() >= file.data() &&
               tensor.bytes.data() + tensor.bytes.size() <= file.data() + file.size(),
           "a tensor lies outside its file");
    sorted.push_back(&tensor);
    if (format_of(tensor.type).kind == ElementKind::integer) continue;
    std::vector<float> floats(static_cast<std::size_t>(tensor.elements()));
    to_floats(tensor, floats.data());
  }
  std::sort(sorted.begin(), sorted.end(), [](const TensorView* left, const TensorView* right) {
    return left->bytes.data() < right->bytes.data();
  });
  for (std::size_t next = 1; next < sorted.size(); ++next)
    expect(sorted[next - 1]->bytes.data() + sorted[next - 1]->bytes.size() <= sorted[next]->bytes.data(),
           "two tensors share bytes");
}

// Whether a getter answered; that it may refuse is part of its duty.
template <class Get>
bool answers(Get&& get) {
  try {
    get();
    return true;
  } catch (const Error& error) {
    expect(std::string_view(error.what()).starts_with("the file"), "a message does not name the file");
    return false;
  }
}

void use_gguf(const Gguf& gguf) {
  for (const auto& [key, value] : gguf.metadata()) {
    expect(gguf.find(key) == &value, "a key is not found");
    const bool scalar =
        answers([&, &name = key] { gguf.integer(name); }) | answers([&, &name = key] { gguf.real(name); }) |
        answers([&, &name = key] { gguf.boolean(name); }) | answers([&, &name = key] { gguf.text(name); });
    const bool list = answers([&, &name = key] { gguf.texts(name); }) |
                      answers([&, &name = key] { gguf.integers(name); }) |
                      answers([&, &name = key] { gguf.reals(name); });
    expect(scalar != std::holds_alternative<GgufArray>(value), "no getter fits a value");
    expect(!list || !scalar, "a value is a list and a scalar");
  }
}

void use_config(const HubConfig& config) {
  for (const std::string& key : config.keys()) {
    const bool answered = answers([&] { config.integer(key); }) | answers([&] { config.real(key); }) |
                          answers([&] { config.boolean(key); }) | answers([&] { config.text(key); }) |
                          answers([&] { config.size(key); }) | answers([&] { config.positive(key); }) |
                          answers([&] { config.texts(key); }) | answers([&] { config.integers(key); }) |
                          answers([&] { config.reals(key); }) |
                          answers([&] { use_config(config.object(key)); });
    expect(config.has(key) || !answered, "a missing key has a value");
  }
}

// Returns whether the file is valid.
bool examine(FileKind kind, const std::string& text) {
  // In a block of its own, so that the sanitizer sees a step beyond its end.
  const auto copy = std::make_unique<std::byte[]>(text.size());
  std::memcpy(copy.get(), text.data(), text.size());
  const std::span<const std::byte> file(copy.get(), text.size());
  try {
    switch (kind) {
      case FileKind::safetensors:
        use_tensors(parse_safetensors(file, "the file").tensors, file);
        break;
      case FileKind::gguf: {
        const Gguf gguf = Gguf::parse(file, "the file");
        use_gguf(gguf);
        use_tensors(gguf.tensors(), file);
        break;
      }
      case FileKind::config:
        use_config(HubConfig::parse(text, "the file"));
        break;
      case FileKind::index:
        for (const ShardEntry& entry : parse_safetensors_index(text, "the file"))
          expect(entry.file.find('/') == entry.file.npos, "a shard lies elsewhere");
        break;
    }
    return true;
  } catch (const Error& error) {
    expect(std::string_view(error.what()).starts_with("the file"), "a message does not name the file");
    return false;
  } catch (const FuzzFailure&) {
    throw;
  } catch (const std::exception& error) {
    throw FuzzFailure{fmt::format("an exception that is no Error leaves the reader: {}", error.what())};
  }
}

bool fuzz(RandomStream& random) {
  const auto kind = static_cast<FileKind>(random.below(4));
  const std::string file = random_file(kind, random);
  expect(examine(kind, file), "a valid file is refused");
  return examine(kind, spoil_file(kind, file, random));
}

}  // namespace
}  // namespace saccade

int main(int count, char** arguments) {
  return saccade::run_fuzzer(
      count, arguments,
      {.program = "weights_fuzz",
       .inputs = "files",
       .valid = "valid",
       .examine = [](saccade::RandomStream& random, std::string&) { return saccade::fuzz(random); }});
}
