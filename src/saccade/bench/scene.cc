// Setting the scene. Inputs are made to look like a real workload, not like a conformance test: a few long
// documents, a short prefix, every fourth flag set.
#include "saccade/bench/scene.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "saccade/attention/fused.h"
#include "saccade/base/error.h"
#include "saccade/base/random.h"
#include "saccade/bench/dense_map.h"

namespace saccade::bench {
namespace {

using torch::Tensor;

constexpr int64_t kSampledRows = 128;

void make_lifelike(const Formula& formula, Problem& problem, int64_t tokens) {
  using Kind = Dimension::Kind;
  for (const TableInfo& table : formula.plan().tables) {
    if (table.source != TableInfo::Source::input || table.name == "pos") continue;
    Tensor& input = problem.call.inputs.at(table.name);
    const bool along_tokens =
        !table.dimensions.empty() && runs_along_tokens(table.dimensions.back().kind) && input.dim() > 0;
    if (table.type == Type::boolean) {
      input = torch::rand(input.sizes(), at::make_generator<at::CPUGeneratorImpl>(7)) < 0.25;
    } else if (table.type == Type::integer && along_tokens) {
      const int64_t count = input.size(-1), documents = 8;
      input = torch::arange(count).mul(documents).div(count, "floor").expand(input.sizes()).contiguous();
    } else if (table.type == Type::integer && !table.has(Kind::fixed)) {
      input = torch::full_like(input, tokens / 4);
    }
  }
}

// For every head and query tile the same number of key tiles, drawn without putting back.
void choose_keys(AttentionCall& call, const Sparsity& sparsity, const Case& shape) {
  const int64_t query_tiles = (shape.queries + sparsity.query_tile - 1) / sparsity.query_tile;
  const int64_t key_tiles = (shape.keys + sparsity.key_tile - 1) / sparsity.key_tile;
  const int64_t chosen =
      std::max<int64_t>(1, std::llround(sparsity.density * static_cast<double>(key_tiles)));
  const int64_t lists = shape.heads * query_tiles;
  Tensor keys = torch::empty({lists, chosen}, torch::kInt);
  RandomStream random(static_cast<uint64_t>(shape.seed), "lists of keys");
  for (int64_t list = 0; list < lists; ++list) {
    auto* next = keys.data_ptr<int32_t>() + list * chosen;
    int64_t missing = chosen;
    for (int64_t tile = 0; missing > 0; ++tile)
      if (random.below(static_cast<uint64_t>(key_tiles - tile)) < static_cast<uint64_t>(missing)) {
        *next++ = static_cast<int32_t>(tile);
        --missing;
      }
  }
  const Tensor first = torch::arange(shape.heads).view({1, -1, 1}) * query_tiles;
  const Tensor starts = ((first + torch::arange(query_tiles + 1)) * chosen).to(torch::kInt);
  call.lists = KeyLists{sparsity.query_tile, sparsity.key_tile, starts, keys.flatten()};
}

void set_parameters(AttentionImpl& attention, const std::map<std::string, double>& values) {
  torch::NoGradGuard no_gradient;
  auto parameters = attention.named_parameters();
  for (const auto& [name, value] : values) {
    Tensor* parameter = parameters.find(name);
    require(parameter != nullptr, "bench: the formula '{}' has no parameter '{}'", attention.formula().name(),
            name);
    parameter->fill_(value);
  }
}

}  // namespace

std::string_view name_of(Task task) {
  switch (task) {
    case Task::forward:
      return "forward";
    case Task::training:
      return "training step";
    case Task::decoding:
      return "decoding step";
  }
  return "";
}

Formula load(const FormulaSource& source) {
  if (source.text.empty()) return Formula::load(source.name, source.set);
  return Formula::parse(source.text, {.name = source.name, .set = source.set});
}

Case self_attention(int64_t n, int64_t heads, int64_t width, int64_t kv_heads) {
  return {.heads = heads,
          .kv_heads = kv_heads > 0 ? kv_heads : heads,
          .queries = n,
          .keys = n,
          .head_dim = width,
          .value_dim = width};
}

std::shared_ptr<Scene> make_scene(const Setup& setup) {
  const Formula formula = load(setup.formula);
  Case shape = setup.shape;
  if (setup.task == Task::decoding) ++shape.queries, ++shape.keys;
  AttentionOptions options = options_of(shape);
  options.path = setup.path;
  options.epsilon = setup.epsilon;
  // Query, key and value are large: torch draws them faster than the project's own streams.
  Case narrow = shape;
  narrow.head_dim = narrow.value_dim = 1;
  Problem problem = make_problem(formula, narrow, torch::kFloat);
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(shape.seed));
  const auto draw = [&](int64_t heads, int64_t tokens, int64_t width) {
    return torch::randn({shape.batch, heads, tokens, width}, generator).to(setup.dtype);
  };
  problem.query = draw(shape.heads, shape.queries, shape.head_dim);
  problem.key = draw(shape.kv_heads, shape.keys, shape.head_dim);
  problem.value = draw(shape.kv_heads, shape.keys, shape.value_dim);
  const Tensor output_gradient = draw(shape.heads, shape.queries, shape.value_dim);
  if (problem.call.x.defined()) problem.call.x = problem.call.x.to(setup.dtype);
  make_lifelike(formula, problem, shape.keys);
  if (setup.sparsity) choose_keys(problem.call, *setup.sparsity, shape);
  if (setup.task == Task::training)
    for (Tensor* tensor : {&problem.query, &problem.key, &problem.value}) tensor->requires_grad_(true);
  torch::manual_seed(static_cast<uint64_t>(shape.seed));  // weights of host expressions
  auto scene = std::make_shared<Scene>(setup, formula, std::make_shared<AttentionImpl>(formula, options),
                                       problem, output_gradient);
  set_parameters(*scene->attention, setup.formula.parameters);
  return scene;
}

std::vector<std::pair<std::string, Tensor>> learned(const Scene& scene) {
  std::vector<std::pair<std::string, Tensor>> result;
  for (const auto& entry : scene.attention->named_parameters())
    result.emplace_back(entry.key(), entry.value());
  return result;
}

Results perform(const Scene& scene, const std::function<Tensor()>& forward,
                const std::vector<std::pair<std::string, Tensor>>& more) {
  if (scene.setup.task != Task::training) {
    torch::NoGradGuard no_gradient;
    return {{"output", forward()}};
  }
  const Problem& problem = scene.problem;
  std::vector<std::pair<std::string, Tensor>> leaves{
      {"query", problem.query}, {"key", problem.key}, {"value", problem.value}};
  leaves.insert(leaves.end(), more.begin(), more.end());
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : leaves) tensors.push_back(tensor);
  const Tensor output = forward();
  const auto gradients =
      torch::autograd::grad({output}, tensors, {scene.output_gradient}, std::nullopt, false, true);
  Results results{{"output", output.detach()}};
  for (size_t index = 0; index < leaves.size(); ++index)
    results.emplace_back(leaves[index].first, gradients[index]);
  return results;
}

Contestant saccade_contestant(const std::shared_ptr<Scene>& scene) {
  const Problem& problem = scene->problem;
  if (scene->setup.task != Task::decoding) {
    const auto forward = [scene] {
      const Problem& p = scene->problem;
      const std::optional<Sparsity>& sparsity = scene->setup.sparsity;
      if (!sparsity || !sparsity->gather) return scene->attention->forward(p.query, p.key, p.value, p.call);
      PairInputs inputs = scene->attention->prepare(p.query, p.key, p.value, p.call, nullptr);
      inputs.gather = sparsity->gather;
      return fused_attention(scene->formula, inputs).output;
    };
    return {.name = "saccade",
            .run = [scene, forward, more = learned(*scene)] { return perform(*scene, forward, more); },
            .held_bytes = static_cast<int64_t>(problem.key.nbytes() + problem.value.nbytes())};
  }
  torch::NoGradGuard no_gradient;
  const int64_t length = scene->setup.shape.keys;
  auto cache = std::make_shared<KvCache>(scene->attention->make_cache());
  const Problem past = slice(scene->formula, problem, 0, length);
  scene->attention->prepare(past.query, past.key, past.value, past.call, cache.get());
  const auto held = cache->bytes_held();
  const auto step = std::make_shared<Problem>(slice(scene->formula, problem, length, length + 1));
  step->call.offset = 0;
  const auto forward = [scene, cache, step, length] {
    const Tensor output = scene->attention->forward(step->query, step->key, step->value, *cache, step->call);
    cache->crop(length);
    return output;
  };
  return {.name = "saccade",
          .run = [scene, forward] { return perform(*scene, forward, {}); },
          .held_bytes = held};
}

double useful_operations(const Scene& scene) {
  torch::NoGradGuard no_gradient;
  const Problem& problem = scene.problem;
  const Plan& plan = scene.formula.plan();
  const int64_t queries = problem.query.size(2), keys = problem.key.size(2);
  const PairInputs inputs =
      scene.attention->prepare(problem.query, problem.key, problem.value, problem.call, nullptr);
  const bool decoding = scene.setup.task == Task::decoding;
  const int64_t count = decoding ? 1 : std::min(queries, kSampledRows);
  // The middle of each of `count` equal parts.
  Tensor rows = ((torch::arange(count, torch::kDouble) + 0.5) * static_cast<double>(queries) /
                 static_cast<double>(count))
                    .floor();
  if (decoding) rows.fill_(static_cast<double>(queries - 1));
  const Tensor mask = DenseMap(plan, inputs, rows.to(torch::kFloat)).value(plan.mask);
  double pairs =
      mask.to(torch::kDouble).mean().item<double>() * static_cast<double>(keys) *
      static_cast<double>((decoding ? 1 : queries) * problem.query.size(0) * problem.query.size(1));
  if (scene.setup.sparsity) pairs *= scene.setup.sparsity->density;
  double streams = 0;
  for (size_t stream = 0; stream < plan.streams.size(); ++stream)
    streams += plan.streams_used(static_cast<int>(stream)) ? 1 : 0;
  const auto key_width = static_cast<double>(problem.key.size(3)),
             value_width = static_cast<double>(problem.value.size(3));
  // Forward: the scores, and the weighted sum. Backward: the scores again, their gradient's two products,
  // and for the values the gradient of the weights and of the values.
  if (scene.setup.task == Task::training) return pairs * (streams * 8 * key_width + 6 * value_width);
  return pairs * (streams * 2 * key_width + 2 * value_width);
}

}  // namespace saccade::bench
