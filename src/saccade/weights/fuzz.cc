// Feeds the readers files that nobody would write: valid safetensors, GGUF and JSON files, made at random and
// then spoilt. A file must either be refused with an Error that names it or be readable to its last element.
// Anything else (another exception, a crash, more than a few seconds) ends the program with the number that
// makes the file again.
#include <fmt/format.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "saccade/base/error.h"
#include "saccade/base/json.h"
#include "saccade/base/random.h"
#include "saccade/weights/dequantise.h"
#include "saccade/weights/gguf.h"
#include "saccade/weights/hub_config.h"
#include "saccade/weights/random_files.h"
#include "saccade/weights/safetensors.h"

// Names that the sanitizers chose. NOLINTBEGIN(bugprone-reserved-identifier)

// Called when a sanitizer is about to end the program; absent without one.
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

// The files are small: whoever asks for a hundred megabytes has believed a number in one.
extern "C" const char* __asan_default_options() {
  return "malloc_context_size=6:quarantine_size_mb=16:max_allocation_size_mb=100";
}

// NOLINTEND(bugprone-reserved-identifier)

namespace saccade {
namespace {

struct Options {
  uint64_t iterations = 100'000;
  uint64_t seed = 1;
  uint64_t first = 0;    // number of the first file: repeats one that failed
  uint64_t seconds = 2;  // of processor time that one file may take
};

// What is being examined, for those who print it when everything else has gone wrong.
struct {
  uint64_t number = 0, seed = 0;
} current;

// Only write() may be called from a signal handler, and to_chars is no more than arithmetic.
void show_current(const char* problem) {
  char text[400] = "\nweights_fuzz: ";
  const auto append = [&](const char* part) {
    std::strncat(text, part, sizeof text - std::strlen(text) - 1);
  };
  const auto append_number = [&](uint64_t number) {
    char digits[24] = {};
    std::to_chars(digits, digits + sizeof digits - 1, number);
    append(digits);
  };
  append(problem);
  append("; repeat with --seed ");
  append_number(current.seed);
  append(" --first ");
  append_number(current.number);
  append(" --iterations 1\n");
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) _exit(1);
}

void install_handlers() {
  struct sigaction action {};
  action.sa_handler = [](int) {
    show_current("one file takes too long");
    _exit(1);
  };
  sigaction(SIGVTALRM, &action, nullptr);
  if (__sanitizer_set_death_callback)
    __sanitizer_set_death_callback([] { show_current("a sanitizer found an error"); });
}

// Processor time rather than time on the clock: a busy machine is no hang.
void start_watchdog(uint64_t seconds) {
  const itimerval limit{.it_interval = {},
                        .it_value = {.tv_sec = static_cast<time_t>(seconds), .tv_usec = 0}};
  setitimer(ITIMER_VIRTUAL, &limit, nullptr);
}

struct Failure {
  std::string what;
};

void expect(bool ok, const char* what) {
  if (!ok) throw Failure{what};
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
  } catch (const Failure&) {
    throw;
  } catch (const std::exception& error) {
    throw Failure{fmt::format("an exception that is no Error leaves the reader: {}", error.what())};
  }
}

int fuzz(const Options& options) {
  install_handlers();
  current.seed = options.seed;
  const auto begin = std::chrono::steady_clock::now();
  uint64_t valid = 0;
  for (uint64_t number = options.first; number < options.first + options.iterations; ++number) {
    RandomStream random = RandomStream(options.seed, "fuzz").split(std::to_string(number));
    current.number = number;
    start_watchdog(options.seconds);
    try {
      const auto kind = static_cast<FileKind>(random.below(4));
      const std::string file = random_file(kind, random);
      expect(examine(kind, file), "a valid file is refused");
      valid += examine(kind, spoil_file(kind, file, random));
    } catch (const Failure& failure) {
      show_current(failure.what.c_str());
      return 1;
    } catch (const std::exception& error) {
      show_current(error.what());
      return 1;
    }
  }
  start_watchdog(0);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  fmt::print("weights_fuzz: {} files with seed {}, of which {} are valid, in {:.1f} s: no problem found\n",
             options.iterations, options.seed, valid, taken.count());
  return 0;
}

int usage() {
  fmt::print(stderr, "usage: weights_fuzz [--iterations N] [--seed S] [--first K] [--seconds T]\n");
  return 2;
}

}  // namespace
}  // namespace saccade

int main(int count, char** arguments) {
  saccade::Options options;
  for (int index = 1; index < count; index += 2) {
    const std::string_view flag = arguments[index];
    uint64_t* value = flag == "--iterations" ? &options.iterations
                      : flag == "--seed"     ? &options.seed
                      : flag == "--first"    ? &options.first
                      : flag == "--seconds"  ? &options.seconds
                                             : nullptr;
    if (!value || index + 1 == count) return saccade::usage();
    const std::string_view text = arguments[index + 1];
    const auto result = std::from_chars(text.data(), text.data() + text.size(), *value);
    if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return saccade::usage();
  }
  return saccade::fuzz(options);
}
