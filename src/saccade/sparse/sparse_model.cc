// All layers have selectors of one kind and with the same options; what differs is in their tensors.
#include "saccade/sparse/sparse_model.h"

#include "saccade/attention/shapes.h"
#include "saccade/base/error.h"
#include "saccade/base/file.h"
#include "saccade/models/tensor_files.h"
#include "saccade/sparse/low_rank.h"
#include "saccade/sparse/span.h"
#include "saccade/sparse/token_gate.h"
#include "saccade/weights/safetensors_writer.h"

namespace saccade {

using at::Tensor;
namespace fs = std::filesystem;

namespace {

constexpr const char* kDescription = "sparse.json";
constexpr const char* kTensors = "selector.safetensors";
constexpr const char* kFormat = "saccade sparse attention 1";
constexpr size_t kMostBytes = size_t{64} << 20;

std::string tensor_name(size_t layer, const std::string& name) {
  return "block_" + std::to_string(layer) + "." + name;
}

Tensor read_new(const Checkpoint& file, const std::string& name) {
  const TensorView& view = file.get(name);
  Tensor result = torch::empty(view.shape);
  read_tensor(view, result, file.path().string());
  return result;
}

// A member of the description. Throws Error when it is missing or of another type.
template <class Value>
Value member(const Json& json, const char* key, const std::string& where) {
  require(json.contains(key), "{}: '{}' is missing", where, key);
  try {
    return json.at(key).get<Value>();
  } catch (const Json::exception&) {
    throw Error(fmt::format("{}: '{}' is {}; expected another type", where, key, dump(json.at(key))));
  }
}

LowRankScorer read_scorer(const Json& json, const Checkpoint& file, size_t layer, const std::string& prefix,
                          const std::string& where) {
  LowRankScorer scorer{.pool = member<int64_t>(json, "pool", where),
                       .samples = member<int64_t>(json, "samples", where)};
  for (const auto& [name, tensor] : scorer.named())
    *tensor = read_new(file, tensor_name(layer, prefix + name));
  scorer.check(fmt::format("{}, layer {}", where, layer));
  return scorer;
}

Json describe_scorer(const LowRankScorer& scorer) {
  return {{"pool", scorer.pool}, {"samples", scorer.samples}, {"rank", scorer.rank()}};
}

}  // namespace

void attach(Transformer model, const Selectors& selectors) {
  require(std::ssize(selectors) == model->architecture().layers,
          "sparse: selectors for {} layers, the model has {}", selectors.size(),
          model->architecture().layers);
  for (size_t layer = 0; layer < selectors.size(); ++layer)
    selectors[layer]->check_formula(model->formula(static_cast<int64_t>(layer)));
  for (size_t layer = 0; layer < selectors.size(); ++layer)
    model->block(static_cast<int64_t>(layer))->attention->set_selector(selectors[layer]);
}

void detach(Transformer model) {
  for (int64_t layer = 0; layer < model->architecture().layers; ++layer)
    model->block(layer)->attention->set_selector(nullptr);
}

Selectors selectors_of(Transformer model) {
  Selectors result;
  for (int64_t layer = 0; layer < model->architecture().layers; ++layer) {
    auto selector = std::dynamic_pointer_cast<SparseSelector>(model->block(layer)->attention->selector());
    if (!selector) return {};
    result.push_back(std::move(selector));
  }
  return result;
}

ModelDensity measure_density(const Selectors& selectors, const std::function<void()>& work) {
  for (const auto& selector : selectors) selector->start_counting();
  work();
  std::vector<Tensor> layers;
  for (const auto& selector : selectors) layers.push_back(selector->stop_counting().density_by_head());
  return {torch::stack(layers)};
}

double selection_cost(const Selectors& selectors, const Architecture& a, int64_t tokens) {
  double spent = 0;
  for (const auto& selector : selectors) spent += selector->operations(tokens);
  const auto n = static_cast<double>(tokens);
  const double pairs = a.causal ? n * (n + 1) / 2 : n * n;
  return spent / (4 * pairs * static_cast<double>(a.heads * a.head_dim * a.layers));
}

bool is_sparse_directory(const fs::path& path) { return fs::exists(path / kDescription); }

void save_sparse(const fs::path& directory, const std::string& base, const Selectors& selectors,
                 const Json& notes) {
  require(!selectors.empty(), "sparse: no selectors to save");
  make_directories(directory);
  const SparseSelector& first = *selectors.front();
  Json json{{"format", kFormat},
            {"base", base},
            {"kind", first.kind()},
            {"layers", selectors.size()},
            {"causal", first.causal()}};
  SelectionOptions options = first.options();
  options.visit([&](const char* name, int64_t value, const char*) { json[name] = value; });
  if (const auto* low_rank = dynamic_cast<const LowRankSelector*>(&first)) {
    auto& scorers = const_cast<LowRankSelector&>(*low_rank);
    json["ranges"] = low_rank->ranges();
    json["length_power"] = low_rank->length_power;
    json["scorer"] = describe_scorer(scorers.scorer());
    if (scorers.single()) json["single"] = describe_scorer(*scorers.single());
  }
  json["notes"] = notes;
  std::vector<TensorSource> sources;
  for (size_t layer = 0; layer < selectors.size(); ++layer)
    for (const auto& [name, tensor] : selectors[layer]->tensors())
      sources.push_back(source_of(tensor_name(layer, name), tensor.to(torch::kFloat)));
  // The description comes last: a directory that has it is complete.
  write_safetensors(directory / kTensors, sources);
  write_atomic(directory / kDescription, dump(json, 2) + "\n");
}

SparseFiles load_sparse(const fs::path& directory) {
  const std::string where = (directory / kDescription).string();
  const Json json = parse_json(read_file(where, kMostBytes), where);
  require(json.is_object() && json.value("format", "") == kFormat, "{}: no '{}'", where, kFormat);
  const Checkpoint file = Checkpoint::open(directory / kTensors);
  SparseFiles result{.base = member<std::string>(json, "base", where), .notes = json.value("notes", Json())};
  SelectionOptions options;
  options.visit(
      [&](const char* name, int64_t& value, const char*) { value = member<int64_t>(json, name, where); });
  const auto causal = member<bool>(json, "causal", where);
  const auto kind = member<std::string>(json, "kind", where);
  const auto layers = member<int64_t>(json, "layers", where);
  require(layers >= 1 && layers <= 100000, "{}: {} layers", where, layers);
  for (size_t layer = 0; layer < static_cast<size_t>(layers); ++layer) {
    if (kind == "span") {
      result.selectors.push_back(
          std::make_shared<SpanSelector>(options, causal, read_new(file, tensor_name(layer, "spans"))));
      continue;
    }
    if (kind == "token_gate") {
      TokenGate gate;
      for (const auto& [name, tensor] : gate.named()) *tensor = read_new(file, tensor_name(layer, name));
      gate.check(fmt::format("{}, layer {}", where, layer));
      result.selectors.push_back(with_context(
          where, [&] { return std::make_shared<TokenGateSelector>(options, causal, std::move(gate)); }));
      continue;
    }
    require(kind == "low_rank", "{}: selectors of kind '{}'; expected span, low_rank or token_gate", where,
            kind);
    std::optional<LowRankScorer> single;
    if (json.contains("single")) single = read_scorer(json["single"], file, layer, "single.", where);
    require(json.contains("scorer"), "{}: 'scorer' is missing", where);
    auto selector = std::make_shared<LowRankSelector>(
        options, causal, read_scorer(json["scorer"], file, layer, "", where), std::move(single));
    selector->length_power = member<double>(json, "length_power", where);
    const auto ranges = member<std::vector<int64_t>>(json, "ranges", where);
    require(std::ssize(ranges) == selector->scorer().thresholds.size(1),
            "{}: {} ranges of positions, thresholds for {}", where, ranges.size(),
            selector->scorer().thresholds.size(1));
    with_context(where, [&] { return selector->set_ranges(ranges), 0; });
    result.selectors.push_back(std::move(selector));
  }
  return result;
}

}  // namespace saccade
