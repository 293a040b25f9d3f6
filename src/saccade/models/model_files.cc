// Fills a transformer's parameters from a file's tensors, and writes them back, by the rules of its family.
#include "saccade/models/model_files.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <set>

#include "saccade/attention/shapes.h"
#include "saccade/base/error.h"
#include "saccade/base/file.h"
#include "saccade/base/memory.h"
#include "saccade/base/text.h"
#include "saccade/models/checkpoint_folders.h"
#include "saccade/models/families.h"
#include "saccade/models/tensor_files.h"

namespace saccade {

using at::Tensor;
namespace fs = std::filesystem;

namespace {

constexpr size_t kMostFormulaBytes = size_t{1} << 20;

struct ModelFiles {
  Checkpoint checkpoint;
  Architecture architecture;
  const Family* family = nullptr;
  bool gguf = false;
};

ModelFiles open_files(const fs::path& path) {
  Checkpoint checkpoint = Checkpoint::open(path);
  if (const Gguf* file = checkpoint.gguf()) {
    const Family& family = gguf_family(file->text("general.architecture"), file->where());
    Architecture architecture = family.from_gguf(*file);
    architecture.check(file->where());
    return {std::move(checkpoint), std::move(architecture), &family, true};
  }
  const fs::path directory = fs::is_directory(path) ? path : path.parent_path();
  const HubConfig config = HubConfig::open(directory.empty() ? fs::path(".") : directory);
  const Family& family = hub_family(config.text("model_type"), config.where());
  Architecture architecture = family.from_hub(config);
  architecture.check(config.where());
  return {std::move(checkpoint), std::move(architecture), &family, false};
}

std::string with_prefix(const std::string& name, std::string_view prefix) {
  return name.starts_with('~') ? std::string(prefix) + name.substr(1) : name;
}

std::string_view prefix_of(const ModelFiles& files) {
  if (files.gguf) return "";
  for (const std::string_view prefix : files.family->prefixes)
    if (files.checkpoint.has(with_prefix(std::string(files.family->probe), prefix))) return prefix;
  return files.family->prefixes.front();
}

// The rows of a head as two halves, from neighbouring pairs.
Tensor as_halves(const Tensor& rows, int64_t heads) {
  const int64_t width = rows.size(0) / heads;
  std::vector<int64_t> shape = rows.sizes().vec();
  return rows.reshape({heads, width / 2, 2, -1}).transpose(1, 2).reshape(shape);
}

// `target` is the part's own piece of the parameter.
void read_part(const WeightPart& part, const TensorView& view, Tensor target, const std::string& where) {
  if (part.form == WeightForm::as_is) return read_tensor(view, target, where);
  std::vector<int64_t> shape = target.sizes().vec();
  if (part.form == WeightForm::transposed) std::ranges::reverse(shape);
  const Tensor raw = torch::empty(shape);
  read_tensor(view, raw, where);
  if (part.form == WeightForm::transposed) target.copy_(raw.t());
  if (part.form == WeightForm::plus_one) target.copy_(raw + 1);
  if (part.form == WeightForm::interleaved) target.copy_(as_halves(raw, part.heads));
}

// How many rows each part of a parameter has. Queries, keys and values share one, as do gates and what they
// let through.
std::vector<int64_t> part_rows(const WeightRule& rule, const Tensor& parameter, const Architecture& a) {
  if (rule.parts.size() == 1) return {parameter.size(0)};
  if (rule.parts.size() == 3) return {a.heads * a.head_dim, a.kv_heads * a.head_dim, a.kv_heads * a.head_dim};
  return {a.inner, a.inner};
}

// What formulas learned is beside the weights, and read later.
bool belongs_to_attention(std::string_view name) {
  return name.starts_with("attention.") || name.starts_with("encoder_attention.") ||
         name.starts_with("cross_attention.");
}

void read_weights(TransformerImpl& model, const ModelFiles& files) {
  const Architecture& a = files.architecture;
  const std::string where = files.checkpoint.path().string();
  const std::string_view prefix = prefix_of(files);
  const auto parameters = model.named_parameters();
  std::set<std::string> used;
  std::vector<std::pair<std::string, std::shared_ptr<CompactWeight>>> compacts;
  for (const WeightRule& rule : files.gguf ? files.family->gguf_weights(a) : files.family->hub_weights(a)) {
    const Tensor* parameter = parameters.find(rule.ours);
    invariant(parameter != nullptr, "model: a rule for a parameter that does not exist: " + rule.ours);
    prefer_large_pages(parameter->data_ptr(), parameter->nbytes());
    const std::vector<int64_t> rows = part_rows(rule, *parameter, a);
    int64_t first = 0;
    auto compact = std::make_shared<CompactWeight>();
    for (size_t index = 0; index < rule.parts.size(); ++index) {
      const WeightPart& part = rule.parts[index];
      const std::string name = with_prefix(part.name, prefix);
      read_part(part, files.checkpoint.get(name), parameter->narrow(0, first, rows[index]), where);
      used.insert(name);
      first += rows[index];
      if (compact && CompactWeight::can_hold(files.checkpoint.get(name).type) && parameter->dim() == 2)
        compact->append(files.checkpoint.get(name), part.form == WeightForm::interleaved ? part.heads : 0);
      else
        compact.reset();
    }
    if (compact) compacts.emplace_back(rule.ours, compact);
  }
  for (const TensorView& view : files.checkpoint.tensors()) {
    const bool ignored = std::ranges::any_of(files.family->ignored, [&](std::string_view end) {
      return std::string_view(view.name).ends_with(end);
    });
    // A tied output that is stored all the same says nothing new.
    const bool tied = a.tied && (view.name == "lm_head.weight" || view.name == "output.weight");
    require(used.contains(view.name) || ignored || tied || belongs_to_attention(view.name),
            "{}: the tensor '{}' has no place in a {} model", where, printable(view.name), a.family);
  }
  for (auto& [name, compact] : compacts) model.keep_compact(name, compact);
}

// --- the attention beside the weights ---

// A stack of layers whose attention can be swapped. Its name is that of its file, and begins the names of
// what its formulas learned: "attention.0.alpha".
struct AttentionSlot {
  std::string name;
  std::vector<Attention> layers;
  std::vector<Formula> own;  // before anything is swapped
  std::function<void(const std::vector<Formula>&)> set;
};

std::vector<AttentionSlot> slots_of(TransformerImpl& model) {
  std::vector<AttentionSlot> slots;
  const auto add = [&](std::string name, TransformerImpl& stack) {
    AttentionSlot& slot = slots.emplace_back(AttentionSlot{.name = std::move(name)});
    for (int64_t layer = 0; layer < stack.architecture().layers; ++layer) {
      slot.layers.push_back(stack.block(layer)->attention);
      slot.own.push_back(stack.architecture().formula(layer));
    }
    slot.set = [&stack](const std::vector<Formula>& formulas) { stack.set_attention(formulas); };
  };
  add("attention", model);
  if (!model.encoder()) return slots;
  add("encoder_attention", *model.encoder());
  AttentionSlot& cross = slots.emplace_back(AttentionSlot{.name = "cross_attention"});
  for (int64_t layer = 0; layer < model.architecture().layers; ++layer) {
    cross.layers.push_back(model.block(layer)->cross->attention);
    cross.own.push_back(Formula::load("full"));
  }
  cross.set = [&model](const std::vector<Formula>& formulas) { model.set_cross_attention(formulas); };
  return slots;
}

// One formula for all layers, or one for each.
fs::path attention_file(const fs::path& directory, const AttentionSlot& slot) {
  return directory / (slot.name + ".attn");
}
fs::path attention_file(const fs::path& directory, const AttentionSlot& slot, size_t layer) {
  return directory / slot.name / fmt::format("{}.attn", layer);
}

std::string learned_name(const AttentionSlot& slot, size_t layer, const std::string& name) {
  return fmt::format("{}.{}.{}", slot.name, layer, name);
}

void read_formulas(const AttentionSlot& slot, const fs::path& path) {
  const auto load = [](const fs::path& file) {
    return Formula::parse(read_file(file, kMostFormulaBytes), {.name = file.string()});
  };
  if (fs::exists(attention_file(path, slot)))
    return slot.set(std::vector<Formula>(slot.layers.size(), load(attention_file(path, slot))));
  if (!fs::exists(path / slot.name)) return;
  std::vector<Formula> formulas;
  for (size_t layer = 0; layer < slot.layers.size(); ++layer)
    formulas.push_back(load(attention_file(path, slot, layer)));
  slot.set(formulas);
}

void read_attention(TransformerImpl& model, const fs::path& path, const Checkpoint& checkpoint) {
  if (!fs::is_directory(path)) return;
  for (const AttentionSlot& slot : slots_of(model)) read_formulas(slot, path);
  for (const AttentionSlot& slot : slots_of(model))
    for (size_t layer = 0; layer < slot.layers.size(); ++layer)
      for (auto& item : slot.layers[layer]->named_parameters()) {
        const std::string name = learned_name(slot, layer, item.key());
        if (!checkpoint.has(name)) continue;  // it starts at its declared value
        read_tensor(checkpoint.get(name), item.value(), path.string());
      }
}

// Only what was swapped.
void write_formulas(const AttentionSlot& slot, const fs::path& directory) {
  bool swapped = false, alike = true;
  for (size_t layer = 0; layer < slot.layers.size(); ++layer) {
    swapped |= !(slot.layers[layer]->formula() == slot.own[layer]);
    alike &= slot.layers[layer]->formula() == slot.layers[0]->formula();
  }
  if (!swapped) return;
  if (alike) return write_atomic(attention_file(directory, slot), slot.layers[0]->formula().resolved());
  make_directories(directory / slot.name);
  for (size_t layer = 0; layer < slot.layers.size(); ++layer)
    write_atomic(attention_file(directory, slot, layer), slot.layers[layer]->formula().resolved());
}

}  // namespace

Transformer load_model(const fs::path& path) {
  const torch::NoGradGuard no_gradient;
  const ModelFiles files = open_files(path);
  Transformer model(files.architecture);
  read_weights(*model, files);
  read_attention(*model, path, files.checkpoint);
  for (Tensor parameter : model->parameters()) parameter.requires_grad_(false);
  model->eval();
  return model;
}

void save_model(const Transformer& model, const fs::path& directory, int64_t shard_bytes) {
  const torch::NoGradGuard no_gradient;
  const Architecture& a = model->architecture();
  const Family& family = family_named(a.family);
  make_directories(directory);
  const auto parameters = model->named_parameters();
  std::vector<TensorSource> sources;
  const auto add = [&](const std::string& name, const Tensor& tensor) {
    sources.push_back(source_of(name, tensor));
  };
  // Only a model with the head that the prefix belongs to has it.
  const std::string_view prefix =
      a.family == "bert" && a.head == HeadKind::none ? "" : family.prefixes.front();
  for (const WeightRule& rule : family.hub_weights(a)) {
    const Tensor parameter = parameters[rule.ours];
    const std::vector<int64_t> rows = part_rows(rule, parameter, a);
    int64_t first = 0;
    for (size_t index = 0; index < rule.parts.size(); ++index) {
      const WeightPart& part = rule.parts[index];
      Tensor piece = parameter.narrow(0, first, rows[index]);
      if (part.form == WeightForm::transposed) piece = piece.t();
      if (part.form == WeightForm::plus_one) piece = piece - 1;
      add(with_prefix(part.name, prefix), piece);
      first += rows[index];
    }
  }
  const std::vector<AttentionSlot> slots = slots_of(*model.ptr());
  for (const AttentionSlot& slot : slots)
    for (size_t layer = 0; layer < slot.layers.size(); ++layer)
      for (const auto& item : slot.layers[layer]->named_parameters())
        add(learned_name(slot, layer, item.key()), item.value());
  write_safetensors_shards(directory, sources, shard_bytes);
  Json config = family.to_hub(a);
  write_atomic(directory / "config.json", dump(config, 2) + "\n");
  for (const AttentionSlot& slot : slots) write_formulas(slot, directory);
}

fs::path model_store() {
  if (const char* home = std::getenv("SACCADE_HOME"); home && *home) return fs::path(home) / "models";
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
    return fs::path(cache) / "saccade" / "models";
  const char* home = std::getenv("HOME");
  return fs::path(home && *home ? home : "/tmp") / ".cache" / "saccade" / "models";
}

namespace {

// The newest snapshot of "owner/name" in the Hugging Face cache, or nothing.
fs::path in_hub_cache(const std::string& name) {
  const char* asked = std::getenv("HF_HOME");
  const char* home = std::getenv("HOME");
  const fs::path hub =
      (asked && *asked ? fs::path(asked) : fs::path(home ? home : "") / ".cache" / "huggingface") / "hub";
  std::string folder = "models--";
  for (const char c : name) folder += c == '/' ? std::string("--") : std::string(1, c);
  std::error_code none;
  const fs::path reference = hub / folder / "refs" / "main";
  if (!fs::exists(reference, none)) return {};
  const fs::path snapshot = hub / folder / "snapshots" / std::string(trim(read_file(reference, 4096)));
  return fs::is_directory(snapshot, none) ? snapshot : fs::path();
}

// A training's folder stands for its best checkpoint, or the newest when none was named.
fs::path in_run(const fs::path& path) {
  std::error_code none;
  if (fs::exists(path / "config.json", none) || !fs::is_directory(checkpoints_of(path), none)) return path;
  const std::optional<int64_t> best = best_checkpoint(path);
  if (best && fs::exists(checkpoint_of(path, *best) / "config.json", none)) return checkpoint_of(path, *best);
  const std::optional<fs::path> newest = newest_model(path);
  require(newest.has_value(), "{}: this training has no checkpoint yet", path.string());
  return *newest;
}

}  // namespace

fs::path find_model(const std::string& name_or_path) {
  std::error_code none;
  require(!name_or_path.empty(),
          "model: the name is empty; expected a directory, a file or the name of a fetched model");
  if (fs::exists(name_or_path, none)) return in_run(name_or_path);
  std::vector<std::string> fetched;
  if (fs::is_directory(model_store(), none))
    for (const auto& entry : fs::directory_iterator(model_store(), none))
      if (entry.is_directory()) fetched.push_back(entry.path().filename().string());
  if (std::ranges::find(fetched, name_or_path) != fetched.end()) return model_store() / name_or_path;
  if (const fs::path found = in_hub_cache(name_or_path); !found.empty()) return found;
  std::ranges::sort(fetched);
  fail(
      "model: there is no file or directory '{}', and no fetched model of that name{}. `saccade fetch` lists "
      "what "
      "can be fetched",
      printable(name_or_path), fetched.empty() ? "" : fmt::format(" (there are {})", join(fetched, ", ")));
}

}  // namespace saccade
