// Rebuilds a tokenizer.json from what GGUF keeps of it. GGUF names how a text is split instead of giving the
// expression, and leaves out SentencePiece's merges, which its scores imply.
#include "saccade/text/gguf_vocabulary.h"

#include <algorithm>
#include <array>
#include <span>
#include <unordered_map>

#include "saccade/base/error.h"
#include "saccade/base/text.h"
#include "saccade/text/scanners.h"
#include "saccade/text/utf8.h"

namespace saccade {
namespace {

enum TokenType { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

constexpr std::string_view kSpaceMarker = "\u2581";

// As the tokenizers of GPT-4o and of Mistral NeMo split.
constexpr std::string_view kGpt4oPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekkenPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// How a byte-level tokenizer of this name splits its text, and what else its tokenizer.json would say.
struct Pre {
  std::string_view name;
  std::string_view pattern;  // GPT-2's is built into ByteLevel
  bool digits = false;       // each digit alone
  bool nfc = false;
  bool ignore_merges = false;
  bool add_bos = false;  // unless the file says otherwise
};

constexpr std::array kPres = {
    Pre{"default", kGpt2Pattern},
    Pre{"gpt-2", kGpt2Pattern},
    Pre{"gpt2", kGpt2Pattern},
    Pre{"phi-2", kGpt2Pattern},
    Pre{"smollm", kGpt2Pattern, true},
    Pre{"starcoder", kGpt2Pattern, true},
    Pre{"refact", kGpt2Pattern, true},
    Pre{"codeshell", kGpt2Pattern, true},
    Pre{"llama-bpe", kLlama3Pattern, false, false, true, true},
    Pre{"llama3", kLlama3Pattern, false, false, true, true},
    Pre{"llama-v3", kLlama3Pattern, false, false, true, true},
    Pre{"dbrx", kLlama3Pattern},
    Pre{"smaug-bpe", kLlama3Pattern},
    Pre{"qwen2", kQwen2Pattern, false, true},
    Pre{"deepseek-r1-qwen", kQwen2Pattern, false, true},
    Pre{"gpt-4o", kGpt4oPattern},
    Pre{"tekken", kTekkenPattern, false, false, true, true},
};

const Pre& find_pre(std::string_view name) {
  if (name.empty()) name = "default";
  std::vector<std::string_view> names;
  for (const Pre& pre : kPres) {
    if (pre.name == name) return pre;
    names.push_back(pre.name);
  }
  fail("GGUF tokenizer: tokenizer.ggml.pre '{}' is not supported; supported: {}{}", name, join(names, ", "),
       did_you_mean(name, names));
}

int32_t type_of(const GgufVocabulary& vocabulary, size_t index) {
  return vocabulary.types.empty() ? kNormal : vocabulary.types[index];
}

Json added_tokens(const GgufVocabulary& vocabulary,
                  std::span<const std::pair<std::string, int32_t>> entries) {
  Json result = Json::array();
  for (size_t index = 0; index < entries.size(); ++index) {
    const int32_t type = type_of(vocabulary, index);
    const std::string& content = entries[index].first;
    if ((type != kControl && type != kUserDefined && type != kUnknown) || content.empty()) continue;
    if (content != vocabulary.tokens[index]) continue;  // spaces in another spelling, which merges produce
    result.push_back({{"id", index},
                      {"content", content},
                      {"single_word", false},
                      {"lstrip", false},
                      {"rstrip", false},
                      {"normalized", false},
                      {"special", type != kUserDefined}});
  }
  return result;
}

const std::string& special_token(const GgufVocabulary& vocabulary, std::optional<int32_t> id,
                                 std::string_view what) {
  require(id.has_value() && *id >= 0 && static_cast<size_t>(*id) < vocabulary.tokens.size(),
          "GGUF tokenizer: {} is wanted, but the file gives it the id {} of {} tokens", what,
          id ? std::to_string(*id) : "none", vocabulary.tokens.size());
  return vocabulary.tokens[static_cast<size_t>(*id)];
}

// The token `before` and the token `after` every text, where they are wanted.
Json template_processor(const GgufVocabulary& vocabulary, std::optional<int32_t> before,
                        std::optional<int32_t> after, bool types) {
  Json single = Json::array(), pair = Json::array(), specials = Json::object();
  const auto special = [&](int32_t id, int type_id) {
    const std::string& token = special_token(vocabulary, id, "a token around the text");
    specials[token] = {{"id", token}, {"ids", Json::array({id})}, {"tokens", Json::array({token})}};
    return Json{{"SpecialToken", {{"id", token}, {"type_id", type_id}}}};
  };
  const auto sequence = [](const char* name, int type_id) {
    return Json{{"Sequence", {{"id", name}, {"type_id", type_id}}}};
  };
  const int second = types ? 1 : 0;
  if (before) single.push_back(special(*before, 0));
  single.push_back(sequence("A", 0));
  if (after) single.push_back(special(*after, 0));
  pair = single;
  if (before && !types) pair.push_back(special(*before, 0));
  pair.push_back(sequence("B", second));
  if (after) pair.push_back(special(*after, second));
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", specials}};
}

Json post_processor(const GgufVocabulary& vocabulary, bool add_bos, bool add_eos) {
  if (!add_bos && !add_eos) return nullptr;
  if (add_bos) special_token(vocabulary, vocabulary.bos, "the token that begins a text");
  if (add_eos) special_token(vocabulary, vocabulary.eos, "the token that ends a text");
  return template_processor(vocabulary, add_bos ? vocabulary.bos : std::nullopt,
                            add_eos ? vocabulary.eos : std::nullopt, false);
}

Json whole_file(Json added, Json normalizer, Json pre_tokenizer, Json post_processor, Json decoder,
                Json model) {
  Json file = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  file["added_tokens"] = std::move(added);
  file["normalizer"] = std::move(normalizer);
  file["pre_tokenizer"] = std::move(pre_tokenizer);
  file["post_processor"] = std::move(post_processor);
  file["decoder"] = std::move(decoder);
  file["model"] = std::move(model);
  return file;
}

Json bpe_model(bool sentence_piece, const Json& unk, bool ignore_merges) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", unk},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", sentence_piece},
          {"byte_fallback", sentence_piece},
          {"ignore_merges", ignore_merges},
          {"vocab", nullptr},
          {"merges", nullptr}};
}

TokenizerSpec byte_level_tokenizer(const GgufVocabulary& vocabulary) {
  const Pre& pre = find_pre(vocabulary.pre);
  TokenizerSpec spec;
  for (const std::string& token : vocabulary.tokens)
    spec.vocabulary.emplace_back(token, static_cast<int32_t>(spec.vocabulary.size()));
  for (const std::string& merge : vocabulary.merges) {
    // A token never begins with a space, but in odd files one consists of spaces.
    const size_t space = merge.find(' ', 1);
    require(space != merge.npos, "GGUF tokenizer: merge {} is '{}'; expected two tokens with a space between",
            spec.merges.size(), merge);
    spec.merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
  const bool built_in = pre.pattern == kGpt2Pattern;
  Json steps = Json::array();
  if (pre.digits) steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
  if (!built_in)
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", std::string(pre.pattern)}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  const Json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", built_in}};
  steps.push_back(byte_level);
  const Json pre_tokenizer =
      steps.size() == 1 ? byte_level : Json{{"type", "Sequence"}, {"pretokenizers", steps}};
  spec.config = whole_file(added_tokens(vocabulary, spec.vocabulary),
                           pre.nfc ? Json{{"type", "NFC"}} : Json(), pre_tokenizer,
                           post_processor(vocabulary, vocabulary.add_bos.value_or(pre.add_bos),
                                          vocabulary.add_eos.value_or(false)),
                           byte_level, bpe_model(false, nullptr, pre.ignore_merges));
  return spec;
}

// SentencePiece joins the pair whose whole has the highest score. Written as merges: all ways to make a token
// of two, the best token first, and of one token those with the longer left part first.
std::vector<std::pair<std::string, std::string>> merges_by_score(
    const GgufVocabulary& vocabulary, std::span<const std::pair<std::string, int32_t>> entries) {
  std::unordered_map<std::string_view, int32_t> ids;
  const auto takes_part = [&](size_t index) {
    const int32_t type = type_of(vocabulary, index);
    return (type == kNormal || type == kUserDefined) && !entries[index].first.empty();
  };
  for (size_t index = 0; index < entries.size(); ++index)
    if (takes_part(index)) ids.emplace(entries[index].first, entries[index].second);

  struct ScoredMerge {
    float score;
    int32_t id;
    uint32_t cut;
  };
  std::vector<ScoredMerge> candidates;
  for (size_t index = 0; index < entries.size(); ++index) {
    if (!takes_part(index)) continue;
    // What the user defined is joined before everything that was learned.
    const bool defined = type_of(vocabulary, index) == kUserDefined;
    const float score = defined ? std::numeric_limits<float>::infinity() : vocabulary.scores[index];
    const std::string_view token = entries[index].first;
    for_each_character(token, [&](char32_t, size_t cut, size_t) {
      if (cut > 0 && ids.contains(token.substr(0, cut)) && ids.contains(token.substr(cut)))
        candidates.push_back({score, static_cast<int32_t>(index), static_cast<uint32_t>(cut)});
    });
  }
  std::sort(candidates.begin(), candidates.end(), [](const ScoredMerge& a, const ScoredMerge& b) {
    if (a.score != b.score) return a.score > b.score;
    if (a.id != b.id) return a.id < b.id;
    return a.cut > b.cut;
  });
  std::vector<std::pair<std::string, std::string>> result;
  result.reserve(candidates.size());
  for (const ScoredMerge& candidate : candidates) {
    const std::string& token = entries[static_cast<size_t>(candidate.id)].first;
    result.emplace_back(token.substr(0, candidate.cut), token.substr(candidate.cut));
  }
  return result;
}

// A token of spaces alone is kept as such, while a text's spaces are markers by the time it is looked for.
std::string with_markers(const std::string& token) {
  if (token.empty() || token.find_first_not_of(' ') != token.npos) return token;
  std::string result;
  for (size_t count = 0; count < token.size(); ++count) result += kSpaceMarker;
  return result;
}

TokenizerSpec sentence_piece_tokenizer(const GgufVocabulary& vocabulary) {
  require(vocabulary.scores.size() == vocabulary.tokens.size(),
          "GGUF tokenizer: {} scores for {} tokens; a tokenizer of model 'llama' needs one each",
          vocabulary.scores.size(), vocabulary.tokens.size());
  for (float score : vocabulary.scores) require(score == score, "GGUF tokenizer: a score is not a number");
  TokenizerSpec spec;
  for (const std::string& token : vocabulary.tokens)
    spec.vocabulary.emplace_back(with_markers(token), static_cast<int32_t>(spec.vocabulary.size()));
  spec.merges = merges_by_score(vocabulary, spec.vocabulary);
  const bool prefix = vocabulary.add_space_prefix.value_or(true);
  const Json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpaceMarker}};
  const Json prepend = {{"type", "Prepend"}, {"prepend", kSpaceMarker}};
  const Json normalizer =
      prefix ? Json{{"type", "Sequence"}, {"normalizers", Json::array({prepend, replace})}} : replace;
  Json steps =
      Json::array({Json{{"type", "Replace"}, {"pattern", {{"String", kSpaceMarker}}}, {"content", " "}},
                   Json{{"type", "ByteFallback"}}, Json{{"type", "Fuse"}}});
  if (prefix) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  const Json unk =
      vocabulary.unk ? Json(special_token(vocabulary, vocabulary.unk, "the unknown token")) : Json();
  spec.config = whole_file(
      added_tokens(vocabulary, spec.vocabulary), normalizer, nullptr,
      post_processor(vocabulary, vocabulary.add_bos.value_or(true), vocabulary.add_eos.value_or(false)),
      Json{{"type", "Sequence"}, {"decoders", steps}}, bpe_model(true, unk, false));
  return spec;
}

// GGUF marks the beginnings of words where BERT marks what continues one. Whether the model knows capital
// letters is not said; its tokens tell.
TokenizerSpec word_piece_tokenizer(const GgufVocabulary& vocabulary) {
  TokenizerSpec spec;
  bool capitals = false;
  for (size_t index = 0; index < vocabulary.tokens.size(); ++index) {
    const std::string& token = vocabulary.tokens[index];
    const bool bracketed = token.starts_with('[') && token.ends_with(']') && token.size() > 2;
    std::string written = token;
    if (token.starts_with(kSpaceMarker)) {
      written.erase(0, kSpaceMarker.size());
    } else if (type_of(vocabulary, index) == kNormal && !bracketed) {
      written.insert(0, "##");
    }
    if (type_of(vocabulary, index) == kNormal && !bracketed)
      capitals |=
          std::any_of(token.begin(), token.end(), [](char letter) { return letter >= 'A' && letter <= 'Z'; });
    spec.vocabulary.emplace_back(std::move(written), static_cast<int32_t>(index));
  }
  const auto cls = vocabulary.cls ? vocabulary.cls : vocabulary.bos;
  const auto sep = vocabulary.sep ? vocabulary.sep : vocabulary.eos;
  special_token(vocabulary, cls, "the token that begins a text");
  special_token(vocabulary, sep, "the token that ends a text");
  const std::string unk =
      vocabulary.unk ? special_token(vocabulary, vocabulary.unk, "the unknown token") : "[UNK]";
  spec.config = whole_file(added_tokens(vocabulary, spec.vocabulary),
                           {{"type", "BertNormalizer"},
                            {"clean_text", true},
                            {"handle_chinese_chars", true},
                            {"strip_accents", nullptr},
                            {"lowercase", !capitals}},
                           {{"type", "BertPreTokenizer"}}, template_processor(vocabulary, cls, sep, true),
                           {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}},
                           {{"type", "WordPiece"},
                            {"unk_token", unk},
                            {"continuing_subword_prefix", "##"},
                            {"max_input_chars_per_word", 100},
                            {"vocab", nullptr}});
  return spec;
}

}  // namespace

TokenizerSpec gguf_tokenizer(const GgufVocabulary& vocabulary) {
  require(vocabulary.types.empty() || vocabulary.types.size() == vocabulary.tokens.size(),
          "GGUF tokenizer: {} token types for {} tokens", vocabulary.types.size(), vocabulary.tokens.size());
  for (size_t index = 0; index < vocabulary.tokens.size(); ++index)
    require(is_utf8(vocabulary.tokens[index]), "GGUF tokenizer: token {} is not UTF-8", index);
  if (vocabulary.model == "gpt2") return byte_level_tokenizer(vocabulary);
  if (vocabulary.model == "llama") return sentence_piece_tokenizer(vocabulary);
  if (vocabulary.model == "bert") return word_piece_tokenizer(vocabulary);
  fail("GGUF tokenizer: tokenizer.ggml.model '{}' is not supported; supported: gpt2, llama, bert",
       vocabulary.model);
}

}  // namespace saccade
