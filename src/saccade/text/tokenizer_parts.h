// The parts of a tokenizer, put together from its description. Only tokenizer.cc uses it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/text/added_tokens.h"
#include "saccade/text/decoders.h"
#include "saccade/text/model.h"
#include "saccade/text/normalizers.h"
#include "saccade/text/post_processors.h"
#include "saccade/text/pre_tokenizers.h"
#include "saccade/text/tokenizer.h"
#include "saccade/text/tokenizer_spec.h"

namespace saccade {

/// Word caches that are lent to one call each, so that threads neither share nor wait for one.
class CachePool {
 public:
  std::unique_ptr<WordCache> take();
  void give_back(std::unique_ptr<WordCache> cache);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<WordCache>> idle_;
};

struct Tokenizer::Parts {
  Parts(TokenizerSpec spec, std::string_view name);

  std::vector<int32_t> encode(std::string_view text) const;
  std::optional<std::string_view> token(int32_t id) const;
  std::optional<int32_t> id(std::string_view token) const;
  const AddedToken* added_token(int32_t id) const;

  /// Takes the roles of tokens from a tokenizer_config.json.
  void name_special_ids(const Json& tokenizer_config);

  Json config;
  std::unique_ptr<Normalizer> normalizer;       // each of these may be null
  std::unique_ptr<PreTokenizer> pre_tokenizer;  //
  std::unique_ptr<TextDecoder> decoder;         //
  std::unique_ptr<Model> model;
  PostProcessor post_processor;
  bool adds_tokens = false;  // whether the post-processor does anything to one text
  bool keeps_bytes = false;  // whether text need not be UTF-8
  std::map<int32_t, AddedToken> added;
  std::map<std::string, int32_t, std::less<>> added_ids;
  int64_t end = 0;
  SpecialIds special;

 private:
  void make_model(const JsonPart& part, TokenizerSpec& spec, bool plain_bytes);
  void add_tokens(const JsonPart& file);
  void guess_special_ids();
  void encode_rest(std::string_view text, bool first, WordCache& cache, std::vector<int32_t>& ids) const;

  TokenFinder plain_finder_;       // in the text as it is
  TokenFinder normalized_finder_;  // in the normalized text
  std::vector<const AddedToken*> added_by_id_;
  mutable CachePool caches_;
};

}  // namespace saccade
