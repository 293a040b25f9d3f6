// Reads the description part by part; whatever is in it and not known here is refused by name.
#include "saccade/text/tokenizer_parts.h"

#include <algorithm>
#include <utility>

#include "saccade/base/error.h"
#include "saccade/text/bpe.h"
#include "saccade/text/utf8.h"
#include "saccade/text/word_piece.h"

namespace saccade {
namespace {

BpeOptions read_bpe_options(const JsonPart& part) {
  require(!part.has("dropout") || part.json()["dropout"] == 0,
          "{}: dropout {} is not supported: the same text must always give the same ids", part.path(),
          dump(part.json().value("dropout", Json())));
  return {.unk_token = part.optional_text("unk_token"),
          .continuing_subword_prefix = part.text("continuing_subword_prefix", ""),
          .end_of_word_suffix = part.text("end_of_word_suffix", ""),
          .fuse_unk = part.flag("fuse_unk", false),
          .byte_fallback = part.flag("byte_fallback", false),
          .ignore_merges = part.flag("ignore_merges", false)};
}

}  // namespace

std::unique_ptr<WordCache> CachePool::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      auto cache = std::move(idle_.back());
      idle_.pop_back();
      return cache;
    }
  }
  return std::make_unique<WordCache>();
}

void CachePool::give_back(std::unique_ptr<WordCache> cache) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(cache));
}

Tokenizer::Parts::Parts(TokenizerSpec spec, std::string_view name) : config(std::move(spec.config)) {
  JsonPart file(config, std::string(name));
  const auto part = [&](const char* member) {
    return JsonPart(file.json()[member], fmt::format("{}: {}", name, member));
  };
  if (file.has("normalizer")) normalizer = make_normalizer(part("normalizer"));
  require(file.has("model"), "{}: 'model' is missing", name);
  const JsonPart model_part = part("model");
  const bool has_words = model_part.has("continuing_subword_prefix") || model_part.has("end_of_word_suffix");
  const bool plain_bytes = model_part.text("type", "BPE") == "BPE" && !has_words &&
                           file.has("pre_tokenizer") && ends_with_byte_level(file.json()["pre_tokenizer"]);
  if (file.has("pre_tokenizer")) pre_tokenizer = make_pre_tokenizer(part("pre_tokenizer"), plain_bytes);
  keeps_bytes = plain_bytes && !normalizer;
  if (file.has("post_processor")) {
    post_processor = PostProcessor(part("post_processor"));
    adds_tokens = true;
  }
  if (file.has("decoder")) decoder = make_decoder(part("decoder"));
  make_model(model_part, spec, plain_bytes);
  add_tokens(file);
  guess_special_ids();
}

void Tokenizer::Parts::make_model(const JsonPart& part, TokenizerSpec& spec, bool plain_bytes) {
  // Old files leave the type out.
  const std::string type = part.text("type", part.has("max_input_chars_per_word") ? "WordPiece" : "BPE");
  if (type != "BPE" && type != "WordPiece") part.unsupported("model type", type, {"BPE", "WordPiece"});
  require(part.json().contains("vocab"), "{}: 'vocab' is missing", part.path());
  require(part.json()["vocab"].is_null(), "{}: 'vocab' must be an object of tokens and ids", part.path());
  Vocabulary vocabulary(std::move(spec.vocabulary), part.path());
  if (type == "WordPiece") {
    WordPieceOptions options{
        .unk_token = part.text("unk_token", "[UNK]"),
        .continuing_subword_prefix = part.text("continuing_subword_prefix", "##"),
        .max_input_chars_per_word = part.integer("max_input_chars_per_word", 0, INT32_MAX, 100)};
    model = std::make_unique<WordPieceModel>(std::move(vocabulary), std::move(options), part.path());
    return;
  }
  BpeOptions options = read_bpe_options(part);
  options.bytes = plain_bytes;
  require(part.json().contains("merges") && part.json()["merges"].is_null(),
          "{}: 'merges' must be a list of merges", part.path());
  model = std::make_unique<BpeModel>(std::move(vocabulary), spec.merges, std::move(options), part.path());
}

void Tokenizer::Parts::add_tokens(const JsonPart& file) {
  const Vocabulary& vocabulary = model->vocabulary();
  end = vocabulary.end();
  int32_t next = vocabulary.count();  // the id that the package gives to the next token that has none
  if (file.has("added_tokens")) {
    for (const JsonPart& part : file.parts("added_tokens")) {
      AddedToken token{.id = static_cast<int32_t>(part.integer("id", 0, Vocabulary::kLargestId)),
                       .content = part.text("content"),
                       .single_word = part.flag("single_word", false),
                       .lstrip = part.flag("lstrip", false),
                       .rstrip = part.flag("rstrip", false),
                       .normalized = part.flag("normalized", true),
                       .special = part.flag("special", false)};
      if (token.content.empty()) continue;
      const auto known = vocabulary.find(token.content);
      const int32_t expected = known ? *known : next;
      require(token.id == expected,
              "{}: '{}' has the id {}; by the vocabulary and the order of tokens it is {}", part.path(),
              token.content, token.id, expected);
      if (!known) ++next;
      require(added_ids.emplace(token.content, token.id).second, "{}: '{}' is there twice", part.path(),
              token.content);
      end = std::max<int64_t>(end, token.id + 1);
      added.emplace(token.id, std::move(token));
    }
  }
  added_by_id_.resize(static_cast<size_t>(end));
  for (const auto& [id, token] : added) {
    added_by_id_[static_cast<size_t>(id)] = &token;
    if (token.normalized && normalizer) {
      std::string content = token.content;
      normalizer->normalize(content);
      normalized_finder_.add(content, &token);
    } else if (token.normalized) {
      normalized_finder_.add(token.content, &token);
    } else {
      plain_finder_.add(token.content, &token);
    }
  }
}

const AddedToken* Tokenizer::Parts::added_token(int32_t id) const {
  return id >= 0 && static_cast<size_t>(id) < added_by_id_.size() ? added_by_id_[static_cast<size_t>(id)]
                                                                  : nullptr;
}

std::optional<std::string_view> Tokenizer::Parts::token(int32_t id) const {
  if (const AddedToken* found = added_token(id)) return found->content;
  if (model->vocabulary().has(id)) return model->vocabulary().token(id);
  return std::nullopt;
}

std::optional<int32_t> Tokenizer::Parts::id(std::string_view token) const {
  if (const auto found = added_ids.find(token); found != added_ids.end()) return found->second;
  return model->vocabulary().find(token);
}

std::vector<int32_t> Tokenizer::Parts::encode(std::string_view text) const {
  std::string replaced;
  if (!keeps_bytes && !is_utf8(text)) {
    replaced = replace_invalid(text);
    text = replaced;
  }
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 4 + 8);
  std::unique_ptr<WordCache> cache = caches_.take();
  std::string normalized;
  plain_finder_.split(text, [&](std::string_view stretch, const AddedToken* token) {
    if (token) {
      ids.push_back(token->id);
      return;
    }
    const bool first = stretch.data() == text.data();
    if (normalizer) {
      normalized = stretch;
      normalizer->normalize(normalized);
      stretch = normalized;
    }
    if (normalized_finder_.empty()) return encode_rest(stretch, first, *cache, ids);
    const char* const begin = stretch.data();
    normalized_finder_.split(stretch, [&](std::string_view smaller, const AddedToken* found) {
      if (found) {
        ids.push_back(found->id);
      } else {
        encode_rest(smaller, first && smaller.data() == begin, *cache, ids);
      }
    });
  });
  caches_.give_back(std::move(cache));
  return ids;
}

void Tokenizer::Parts::encode_rest(std::string_view text, bool first, WordCache& cache,
                                   std::vector<int32_t>& ids) const {
  if (text.empty()) return;
  if (!pre_tokenizer) return model->encode(text, cache, ids);
  pre_tokenizer->split({text, first}, [&](const Piece& piece) { model->encode(piece.text, cache, ids); });
}

}  // namespace saccade
