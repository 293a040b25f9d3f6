// The way of a text: added tokens are found, the rest is normalized and searched once more, cut into pieces,
// and encoded piece by piece; the post-processor completes the ids.
#include "saccade/text/tokenizer.h"

#include <algorithm>
#include <mutex>

#include "saccade/base/error.h"
#include "saccade/base/file.h"
#include "saccade/text/tokenizer_parts.h"
#include "saccade/text/utf8.h"

namespace saccade {
namespace {

constexpr size_t kLargestFile = size_t{1} << 30;

}  // namespace

Tokenizer::Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

Tokenizer Tokenizer::from_spec(TokenizerSpec spec, std::string_view name) {
  return Tokenizer(std::make_shared<const Parts>(std::move(spec), name));
}

Tokenizer Tokenizer::from_json(std::string_view json, std::string_view name) {
  return from_spec(parse_tokenizer_json(json, name), name);
}

Tokenizer Tokenizer::from_file(const std::filesystem::path& path) {
  std::error_code error;
  const auto file = std::filesystem::is_directory(path, error) ? path / "tokenizer.json" : path;
  const auto config = file.parent_path() / "tokenizer_config.json";
  auto parts = std::make_shared<Parts>(parse_tokenizer_json(read_file(file, kLargestFile), file.string()),
                                       file.string());
  if (std::filesystem::is_regular_file(config, error))
    parts->name_special_ids(parse_json(read_file(config, kLargestFile), config.string()));
  return Tokenizer(std::move(parts));
}

Tokenizer Tokenizer::from_gguf(const GgufVocabulary& vocabulary) {
  auto parts = std::make_shared<Parts>(gguf_tokenizer(vocabulary), "GGUF tokenizer");
  parts->special.bos = vocabulary.bos;
  parts->special.eos = vocabulary.eos;
  parts->special.unk = vocabulary.unk;
  parts->special.pad = vocabulary.pad;
  if (vocabulary.mask) parts->special.mask = vocabulary.mask;
  if (vocabulary.cls) parts->special.cls = vocabulary.cls;
  if (vocabulary.sep) parts->special.sep = vocabulary.sep;
  return Tokenizer(std::move(parts));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  std::vector<int32_t> ids = parts_->encode(text);
  if (!parts_->adds_tokens) return ids;
  return parts_->post_processor.process(ids, add_special_tokens).ids;
}

Encoding Tokenizer::encode_with_types(std::string_view text, bool add_special_tokens) const {
  return parts_->post_processor.process(parts_->encode(text), add_special_tokens);
}

Encoding Tokenizer::encode_pair(std::string_view a, std::string_view b, bool add_special_tokens) const {
  return parts_->post_processor.process(parts_->encode(a), parts_->encode(b), add_special_tokens);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (int32_t id : ids) {
    if (skip_special_tokens && is_special(id)) continue;
    if (const auto token = parts_->token(id)) tokens.emplace_back(*token);
  }
  std::string result;
  if (parts_->decoder) parts_->decoder->decode(tokens);
  for (size_t index = 0; index < tokens.size(); ++index) {
    if (index > 0 && !parts_->decoder) result += ' ';
    result += tokens[index];
  }
  return result;
}

int64_t Tokenizer::size() const { return parts_->end; }

std::optional<int32_t> Tokenizer::id_of(std::string_view token) const { return parts_->id(token); }

std::string_view Tokenizer::token_of(int32_t id) const {
  return parts_->token(id).value_or(std::string_view());
}

bool Tokenizer::is_special(int32_t id) const {
  const AddedToken* token = parts_->added_token(id);
  return token && token->special;
}

const SpecialIds& Tokenizer::special_ids() const { return parts_->special; }

std::string Tokenizer::to_json() const { return print_tokenizer_json(parts_->config, *parts_->model); }

std::string Tokenizer::config_json() const {
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  const SpecialIds& special = parts_->special;
  const std::pair<const char*, std::optional<int32_t>> roles[] = {
      {"bos_token", special.bos}, {"eos_token", special.eos},   {"pad_token", special.pad},
      {"unk_token", special.unk}, {"mask_token", special.mask}, {"cls_token", special.cls},
      {"sep_token", special.sep}};
  for (const auto& [role, id] : roles)
    if (id && parts_->token(*id)) config[role] = std::string(*parts_->token(*id));
  return dump(config, 2) + "\n";
}

}  // namespace saccade
