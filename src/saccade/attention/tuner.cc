// Measures with the call's own tensors: the shorter of a few interleaved runs counts, since whatever disturbs
// a run only makes it longer.
#include "saccade/attention/tuner.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "saccade/attention/fused.h"
#include "saccade/base/error.h"
#include "saccade/base/file.h"
#include "saccade/base/json.h"
#include "saccade/base/log.h"
#include "saccade/kernels/primitives.h"

namespace saccade {
namespace {

constexpr int kRounds = 3;
constexpr size_t kMostBytes = size_t{16} << 20;  // of the file
constexpr double kEvenDensity = 0.5;             // without a measurement

// To be raised when kernels become faster or slower in one of the two ways: what was measured before counts
// no more.
constexpr int kRevision = 4;

// The processor, as far as its speed is concerned, and the kernels.
std::string machine() {
  static const std::string name = [] {
    std::string text;
    try {
      text = read_file("/proc/cpuinfo", size_t{16} << 20);
    } catch (const Error&) {
      return std::string("unknown processor");
    }
    const size_t at = text.find("model name");
    const size_t begin = at == std::string::npos ? at : text.find(": ", at);
    return begin == std::string::npos ? "unknown processor"
                                      : text.substr(begin + 2, text.find('\n', begin) - begin - 2);
  }();
  return fmt::format("{}, {}, {} threads, kernels {}", name, kernels::target_name(), at::get_num_threads(),
                     kRevision);
}

// Steps of a quarter of an octave.
int64_t rounded(int64_t size) {
  if (size < 2) return size;
  const double steps = std::round(4 * std::log2(static_cast<double>(size)));
  return std::llround(std::exp2(steps / 4));
}

bool learns(const PairInputs& inputs) {
  if (!at::GradMode::is_enabled()) return false;
  const auto wants = [](const at::Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); };
  bool any = wants(inputs.value);
  for (const auto* list : {&inputs.queries, &inputs.keys, &inputs.tables})
    any |= std::ranges::any_of(*list, wants);
  return any;
}

// The same numbers, apart from the caller's graph.
PairInputs detached(const PairInputs& inputs) {
  PairInputs copy = inputs;
  const auto detach = [](at::Tensor& tensor) {
    if (!tensor.defined()) return;
    const bool wanted = tensor.requires_grad();
    tensor = tensor.detach();
    if (wanted) tensor.requires_grad_(true);
  };
  for (auto* list : {&copy.queries, &copy.keys, &copy.tables})
    for (at::Tensor& tensor : *list) detach(tensor);
  detach(copy.value);
  return copy;
}

double seconds_of(const Formula& formula, const PairInputs& inputs, bool training) {
  const auto begin = std::chrono::steady_clock::now();
  const at::Tensor output = fused_attention(formula, inputs).output;
  if (training) {
    std::vector<at::Tensor> leaves;
    for (const auto* list : {&inputs.queries, &inputs.keys, &inputs.tables})
      for (const at::Tensor& tensor : *list)
        if (tensor.defined() && tensor.requires_grad()) leaves.push_back(tensor);
    if (inputs.value.requires_grad()) leaves.push_back(inputs.value);
    torch::autograd::grad({output.sum()}, leaves, {}, std::nullopt, false, true);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

Tuner::Tuner(std::filesystem::path file) : file_(std::move(file)) {
  if (!file_.empty()) load();
}

Tuner& Tuner::global() {
  static Tuner tuner([]() -> std::filesystem::path {
    if (const char* asked = std::getenv("SACCADE_TUNING"))
      return std::string_view(asked) == "off" ? "" : asked;
    if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
      return std::filesystem::path(cache) / "saccade" / "tuning.json";
    if (const char* home = std::getenv("HOME"); home && *home)
      return std::filesystem::path(home) / ".cache" / "saccade" / "tuning.json";
    return "";
  }());
  return tuner;
}

double Tuner::density(const PairInputs& inputs) {
  const KeyLists& lists = *inputs.lists;
  const int64_t rows = lists.starts.size(0) * lists.starts.size(1), tiles = lists.starts.size(2) - 1;
  const double all = static_cast<double>(rows * tiles) * static_cast<double>(inputs.value.size(2));
  return all == 0 ? 0 : static_cast<double>(lists.keys.size(0) * lists.key_tile) / all;
}

std::string Tuner::kind_of(const Formula& formula, const PairInputs& inputs) {
  const at::Tensor& query = inputs.queries[0];
  return fmt::format("{:016x} {} {}x{}/{} {}x{} width {}/{} lists {}x{} density {:.2f} {}",
                     std::hash<std::string>{}(formula.resolved()), c10::toString(query.scalar_type()),
                     rounded(query.size(0)), query.size(1), inputs.keys[0].size(1), rounded(query.size(2)),
                     rounded(inputs.value.size(2)), query.size(3), inputs.value.size(3),
                     inputs.lists->query_tile, inputs.lists->key_tile, std::round(density(inputs) * 20) / 20,
                     learns(inputs) ? "training" : "forward");
}

TunedChoice Tuner::choose(const Formula& formula, const PairInputs& inputs) {
  if (file_.empty()) return {.gather = density(inputs) <= kEvenDensity};
  const std::string kind = kind_of(formula, inputs);
  const std::lock_guard lock(mutex_);
  if (const auto known = choices_.find(kind); known != choices_.end()) return known->second;
  PairInputs trial = detached(inputs);
  const bool training = learns(inputs);
  TunedChoice choice{.gather_seconds = INFINITY, .hide_seconds = INFINITY};
  for (int round = 0; round <= kRounds; ++round)  // the first one only warms up
    for (const bool gather : {true, false}) {
      trial.gather = gather;
      const double seconds = seconds_of(formula, trial, training);
      double& best = gather ? choice.gather_seconds : choice.hide_seconds;
      if (round > 0) best = std::min(best, seconds);
    }
  choice.gather = choice.gather_seconds <= choice.hide_seconds;
  choices_[kind] = choice;
  save();
  return choice;
}

size_t Tuner::known() const {
  const std::lock_guard lock(mutex_);
  return choices_.size();
}

void Tuner::load() {
  std::error_code none;
  if (!std::filesystem::exists(file_, none)) return;
  try {
    const Json all = parse_json(read_file(file_, kMostBytes), file_.string());
    if (!all.contains(machine())) return;
    for (const auto& [kind, row] : all.at(machine()).items())
      choices_[kind] = {row.at("gather").get<bool>(), row.at("gather_seconds").get<double>(),
                        row.at("hide_seconds").get<double>()};
  } catch (const std::exception& problem) {
    log::warn("the file of measured choices is of no use and will be written anew: {}", problem.what());
    choices_.clear();
  }
}

// Beside what other machines or threads have written there meanwhile.
void Tuner::save() const {
  Json all = Json::object();
  try {
    std::error_code none;
    if (std::filesystem::exists(file_, none)) all = parse_json(read_file(file_, kMostBytes), file_.string());
    if (!all.is_object()) all = Json::object();
  } catch (const std::exception&) {
    all = Json::object();
  }
  Json& mine = all[machine()];
  if (!mine.is_object()) mine = Json::object();
  for (const auto& [kind, choice] : choices_)
    mine[kind] = {{"gather", choice.gather},
                  {"gather_seconds", choice.gather_seconds},
                  {"hide_seconds", choice.hide_seconds}};
  try {
    make_directories(file_.parent_path());
    write_atomic(file_, dump(all, 1));
  } catch (const std::exception& problem) {
    log::warn("the measured choice is not kept: {}", problem.what());
  }
}

}  // namespace saccade
