// A GGUF file has its tokenizer inside; a Hugging Face directory has it in tokenizer.json.
#include "saccade/generate/text_model.h"

#include "saccade/base/error.h"
#include "saccade/sparse/sparse_model.h"

namespace saccade {
namespace {

GgufVocabulary vocabulary_of(const Gguf& file) {
  const auto key = [](const char* name) { return std::string("tokenizer.ggml.") + name; };
  const auto id = [&](const char* name) -> std::optional<int32_t> {
    if (!file.has(key(name))) return std::nullopt;
    return static_cast<int32_t>(file.integer(key(name)));
  };
  const auto flag = [&](const char* name) -> std::optional<bool> {
    if (!file.has(key(name))) return std::nullopt;
    return file.boolean(key(name));
  };
  GgufVocabulary vocabulary{.model = file.text(key("model")),
                            .pre = file.text(key("pre"), ""),
                            .tokens = file.texts(key("tokens")),
                            .bos = id("bos_token_id"),
                            .eos = id("eos_token_id"),
                            .unk = id("unknown_token_id"),
                            .pad = id("padding_token_id"),
                            .mask = id("mask_token_id"),
                            .cls = id("cls_token_id"),
                            .sep = id("seperator_token_id"),
                            .add_bos = flag("add_bos_token"),
                            .add_eos = flag("add_eos_token"),
                            .add_space_prefix = flag("add_space_prefix")};
  if (file.has(key("merges"))) vocabulary.merges = file.texts(key("merges"));
  if (file.has(key("scores")))
    for (const double score : file.reals(key("scores")))
      vocabulary.scores.push_back(static_cast<float>(score));
  if (file.has(key("token_type")))
    for (const int64_t type : file.integers(key("token_type")))
      vocabulary.types.push_back(static_cast<int32_t>(type));
  return vocabulary;
}

}  // namespace

Tokenizer load_tokenizer(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path) && std::filesystem::exists(path / "tokenizer.json"))
    return Tokenizer::from_file(path);
  const Checkpoint checkpoint = Checkpoint::open(path);
  if (const Gguf* file = checkpoint.gguf())
    return with_context(file->where(), [&] { return Tokenizer::from_gguf(vocabulary_of(*file)); });
  return Tokenizer::from_file(std::filesystem::is_directory(path) ? path : path.parent_path());
}

std::vector<int64_t> TextModel::end_ids() const {
  std::vector<int64_t> ids = model->architecture().eos;
  if (const auto eos = tokenizer.special_ids().eos; eos && std::ranges::find(ids, *eos) == ids.end())
    ids.push_back(*eos);
  return ids;
}

TextModel load_text_model(const std::string& name_or_path) {
  if (is_sparse_directory(name_or_path)) {
    const SparseFiles files = load_sparse(name_or_path);
    TextModel dense = with_context(name_or_path, [&] { return load_text_model(files.base); });
    attach(dense.model, files.selectors);
    dense.name = name_or_path;
    return dense;
  }
  const std::filesystem::path path = find_model(name_or_path);
  Transformer model = load_model(path);
  return {name_or_path, std::move(model), load_tokenizer(path)};
}

}  // namespace saccade
