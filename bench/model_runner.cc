// Times our models on demand, so that a script can let them take turns with a peer: reads "load PATH",
// "prefill N", "decode N PROMPT" and "threads N" from standard input and answers each with a line of seconds.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <chrono>
#include <iostream>
#include <sstream>

#include "saccade/base/error.h"
#include "saccade/base/memory.h"
#include "saccade/models/model_files.h"

namespace saccade {
namespace {

class Runner {
 public:
  // Seconds that a command took; of `decode`, per token.
  double run(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "threads") {
      int count = 1;
      words >> count;
      at::set_num_threads(count);
      return 0;
    }
    if (command == "load") {
      std::string path;
      words >> path;
      return timed([&] { model_ = load_model(find_model(path)); });
    }
    require(!model_.is_empty(), "runner: no model is loaded");
    int64_t count = 0, prompt = 16;
    words >> count >> prompt;
    require(count > 0 && prompt > 0, "runner: '{}' is not understood", line);
    const torch::NoGradGuard no_gradient;
    if (command == "prefill") return timed([&] { read(count, nullptr); });
    require(command == "decode", "runner: '{}' is not understood", line);
    ModelCache cache = model_->make_cache();
    at::Tensor token = read(prompt, &cache);
    return timed([&] {
             for (int64_t step = 0; step < count; ++step)
               token = model_->logits(model_->forward({.ids = token, .cache = &cache})).argmax(-1);
           }) /
           static_cast<double>(count);
  }

 private:
  // Reads a prompt and gives the token after it.
  at::Tensor read(int64_t tokens, ModelCache* cache) {
    torch::manual_seed(1);
    const at::Tensor ids = torch::randint(model_->architecture().vocabulary, {1, tokens}, torch::kLong);
    return model_->logits(model_->forward({.ids = ids, .cache = cache, .last_only = true})).argmax(-1);
  }

  template <class Work>
  static double timed(const Work& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  Transformer model_{nullptr};
};

}  // namespace
}  // namespace saccade

int main() {
  saccade::keep_freed_memory();
  saccade::Runner runner;
  for (std::string line; std::getline(std::cin, line);) {
    try {
      fmt::print("{:.6f}\n", runner.run(line));
    } catch (const saccade::Error& error) {
      fmt::print("error: {}\n", error.what());
    }
    std::fflush(stdout);
  }
}
