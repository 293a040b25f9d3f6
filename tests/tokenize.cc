// A tokenizer behind a pipe, for tests/tokenizers_test.py. A request is one letter, a length and that many
// bytes; a reply is 0 or 1 (an Error), a length and that many bytes. Numbers are 32 bits in this machine's
// order.
#include <chrono>
#include <cstring>
#include <iostream>
#include <optional>
#include <string>

#include "saccade/base/error.h"
#include "saccade/base/json.h"
#include "saccade/base/text.h"
#include "saccade/text/bpe_trainer.h"
#include "saccade/text/stream_decoder.h"
#include "saccade/text/tokenizer.h"

namespace saccade {
namespace {

std::string bytes_of(const void* data, size_t size) { return {static_cast<const char*>(data), size}; }

std::string bytes_of(const std::vector<int32_t>& ids) {
  return bytes_of(ids.data(), ids.size() * sizeof(int32_t));
}

std::vector<int32_t> ids_of(std::string_view bytes) {
  std::vector<int32_t> ids(bytes.size() / sizeof(int32_t));
  std::memcpy(ids.data(), bytes.data(), ids.size() * sizeof(int32_t));
  return ids;
}

template <class Value>
std::optional<Value> member(const Json& json, const char* name) {
  if (!json.contains(name) || json[name].is_null()) return std::nullopt;
  return json[name].get<Value>();
}

GgufVocabulary read_gguf(std::string_view text) {
  const Json json = parse_json(text, "request");
  GgufVocabulary result;
  result.model = member<std::string>(json, "model").value_or("");
  result.pre = member<std::string>(json, "pre").value_or("");
  result.tokens = member<std::vector<std::string>>(json, "tokens").value_or(std::vector<std::string>());
  result.scores = member<std::vector<float>>(json, "scores").value_or(std::vector<float>());
  result.types = member<std::vector<int32_t>>(json, "token_type").value_or(std::vector<int32_t>());
  result.merges = member<std::vector<std::string>>(json, "merges").value_or(std::vector<std::string>());
  result.bos = member<int32_t>(json, "bos_token_id");
  result.eos = member<int32_t>(json, "eos_token_id");
  result.unk = member<int32_t>(json, "unknown_token_id");
  result.pad = member<int32_t>(json, "padding_token_id");
  result.cls = member<int32_t>(json, "cls_token_id");
  result.sep = member<int32_t>(json, "seperator_token_id");  // GGUF's spelling
  result.mask = member<int32_t>(json, "mask_token_id");
  result.add_bos = member<bool>(json, "add_bos_token");
  result.add_eos = member<bool>(json, "add_eos_token");
  result.add_space_prefix = member<bool>(json, "add_space_prefix");
  return result;
}

Tokenizer train(std::string_view text) {
  const Json json = parse_json(text, "request");
  BpeTrainer trainer({.vocabulary_size = json["vocab_size"].get<int64_t>(),
                      .min_frequency = json["min_frequency"].get<int64_t>(),
                      .special_tokens = json["special_tokens"].get<std::vector<std::string>>(),
                      .add_prefix_space = json["add_prefix_space"].get<bool>()});
  for (const Json& item : json["texts"]) trainer.add(item.get_ref<const std::string&>());
  return trainer.train();
}

// The first of two texts is preceded by its length.
std::pair<std::string_view, std::string_view> two_texts(std::string_view bytes) {
  uint32_t first = 0;
  std::memcpy(&first, bytes.data(), sizeof first);
  bytes.remove_prefix(sizeof first);
  return {bytes.substr(0, first), bytes.substr(first)};
}

std::string pair_reply(const Encoding& encoding) {
  const auto count = static_cast<uint32_t>(encoding.ids.size());
  return bytes_of(&count, sizeof count) + bytes_of(encoding.ids) + bytes_of(encoding.type_ids);
}

template <class Work>
std::string seconds_of(Work&& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return bytes_of(&seconds, sizeof seconds);
}

std::string stream(const Tokenizer& tokenizer, std::string_view bytes) {
  StreamDecoder decoder(tokenizer);
  std::string result;
  for (int32_t id : ids_of(bytes)) result += decoder.push(id) + '\0';
  return result + decoder.finish();
}

std::string answer(std::optional<Tokenizer>& tokenizer, char request, std::string_view bytes) {
  switch (request) {
    case 'o':
      tokenizer = Tokenizer::from_json(bytes, "tokenizer.json");
      return "";
    case 'g':
      tokenizer = Tokenizer::from_gguf(read_gguf(bytes));
      return "";
    case 't':
      tokenizer = train(bytes);
      return "";
    case 'e':
      return bytes_of(tokenizer.value().encode(bytes, false));
    case 'E':
      return bytes_of(tokenizer.value().encode(bytes, true));
    case 'p':
    case 'P': {
      const auto [a, b] = two_texts(bytes);
      return pair_reply(tokenizer.value().encode_pair(a, b, request == 'P'));
    }
    case 'd':
      return tokenizer.value().decode(ids_of(bytes), true);
    case 'D':
      return tokenizer.value().decode(ids_of(bytes), false);
    case 's':
      return stream(tokenizer.value(), bytes);
    case 'j':
      return tokenizer.value().to_json();
    case 'b':
      return seconds_of([&] { tokenizer.value().encode(bytes, false); });
    case 'l':
      return seconds_of([&] {
        for (std::string_view line : split_lines(bytes)) tokenizer.value().encode(line, false);
      });
    default:
      fail("unknown request '{}'", request);
  }
}

int serve() {
  std::optional<Tokenizer> tokenizer;
  char request;
  uint32_t size = 0;
  while (std::cin.get(request) && std::cin.read(reinterpret_cast<char*>(&size), sizeof size)) {
    std::string bytes(size, '\0');
    if (!std::cin.read(bytes.data(), size)) return 1;
    char status = 0;
    std::string reply;
    try {
      reply = answer(tokenizer, request, bytes);
    } catch (const Error& error) {
      status = 1;
      reply = error.what();
    }
    size = static_cast<uint32_t>(reply.size());
    std::cout.put(status);
    std::cout.write(reinterpret_cast<const char*>(&size), sizeof size);
    std::cout.write(reply.data(), size);
    std::cout.flush();
  }
  return 0;
}

}  // namespace
}  // namespace saccade

int main() { return saccade::serve(); }
