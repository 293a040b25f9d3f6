// Feeds the tokenizers descriptions that nobody would write, by spoiling good ones, and bytes that are no
// text. A description must either be refused with an Error or work all the way: encode, decode, stream, print
// and read back. Anything else (another exception, a crash, more than a few seconds) ends the program with
// the description on the screen.
#include <optional>
#include <string>
#include <vector>

#include "saccade/base/error.h"
#include "saccade/base/fuzz_driver.h"
#include "saccade/text/stream_decoder.h"
#include "saccade/text/testing.h"
#include "saccade/text/tokenizer.h"
#include "saccade/text/utf8.h"

// NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" const char* __asan_default_options() { return "malloc_context_size=6:quarantine_size_mb=16"; }

namespace saccade {
namespace {

// One description of each kind of model, with a part of every type somewhere.
const std::vector<Json>& good_descriptions() {
  static const std::vector<Json> result = [] {
    GgufVocabulary sentence_piece{
        .model = "llama",
        .tokens = {"<unk>", "<s>", "</s>", "\u2581", "a", "b", "ab", "\u2581a", "  ", "\u2581ab", "\n"},
        .scores = {0, 0, 0, -3, -4, -5, -1, -2, 0, -1.5F, -7},
        .types = {2, 3, 3, 1, 1, 1, 1, 1, 4, 1, 4},
        .bos = 1,
        .eos = 2,
        .unk = 0};
    GgufVocabulary word_piece{
        .model = "bert",
        .tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "\u2581a", "b", "\u2581the", "ing", "\u2581."},
        .bos = 2,
        .eos = 3,
        .unk = 1};
    std::vector<Json> all;
    for (const GgufVocabulary& vocabulary : {small_byte_vocabulary(), sentence_piece, word_piece})
      all.push_back(parse_json(Tokenizer::from_gguf(vocabulary).to_json(), "good"));
    all.push_back(all[0]);
    all.back()["pre_tokenizer"] = parse_json(R"({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": "\\s+(?!\\S)|[^\\s\\p{L}]+|\\d{1,3}"}, "behavior": "MergedWithNext", "invert": true},
        {"type": "Digits", "individual_digits": true}, {"type": "Punctuation", "behavior": "Contiguous"},
        {"type": "ByteLevel", "add_prefix_space": true, "use_regex": false}]})",
                                             "good");
    all.back()["normalizer"] =
        parse_json(R"({"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Strip"},
        {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "the"}, {"type": "StripAccents"}, {"type": "Lowercase"}]})",
                   "good");
    all.back()["post_processor"] =
        parse_json(R"({"type": "RobertaProcessing", "sep": ["a", 5], "cls": ["b", 6]})", "good");
    all.back()["decoder"] =
        parse_json(R"({"type": "Sequence", "decoders": [{"type": "Metaspace"}, {"type": "WordPiece"},
        {"type": "BPEDecoder"}, {"type": "ByteLevel"}]})",
                   "good");
    all.push_back(all[1]);
    all.back()["pre_tokenizer"] =
        parse_json(R"({"type": "Metaspace", "replacement": "x", "prepend_scheme": "first"})", "good");
    all.back()["model"]["continuing_subword_prefix"] = "a";
    all.back()["model"]["end_of_word_suffix"] = "b";
    for (Json& description : all)  // with 260 tokens, hardly a change would fall on anything else
      if (description["added_tokens"].size() > 3) description["added_tokens"].erase(3);
    return all;
  }();
  return result;
}

class Spoiler {
 public:
  explicit Spoiler(RandomStream& random) : random_(random) {}

  std::string description() {
    Json json = pick(good_descriptions());
    if (random_.below(8) == 0) return dump(json);
    const uint64_t changes = 1 + random_.below(3);
    for (uint64_t count = 0; count < changes; ++count) change(json, 0);
    std::string text = dump(json);
    if (random_.below(4) == 0) spoil_bytes(text);
    return text;
  }

  std::string some_text() {
    static const std::vector<std::string> words = {"the",        " the",   "ing",     "a",
                                                   "ab ab",      "  ",     "\n",      "<s>",
                                                   "<|end|>",    "[SEP]",  "e\u0301", "\u4e2d",
                                                   "\U0001F600", "'s",     "123",     "\u2581",
                                                   "\xE2\x82",   "\xFF",   "\x80",    std::string(1, '\0'),
                                                   "\u017F",     "\u0130", "\u3000",  "\u1E9B\u0323",
                                                   "."};
    std::string result;
    const uint64_t length = random_.below(random_.below(10) ? 12 : 300);
    for (uint64_t count = 0; count < length; ++count)
      result += random_.below(3) ? pick(words) : std::string(1, static_cast<char>(random_.below(256)));
    return result;
  }

  std::vector<int32_t> some_ids() {
    std::vector<int32_t> result;
    const uint64_t length = random_.below(20);
    for (uint64_t count = 0; count < length; ++count)
      result.push_back(random_.below(20) ? static_cast<int32_t>(random_.below(280))
                                         : static_cast<int32_t>(random_.next()));
    return result;
  }

 private:
  template <class Value>
  const Value& pick(const std::vector<Value>& values) {
    return values[random_.below(values.size())];
  }

  // Goes down to some place and puts something else there.
  void change(Json& json, int depth) {
    if (json.is_structured() && !json.empty() && (depth == 0 || random_.below(6))) {
      auto place = json.begin();
      std::advance(place, static_cast<std::ptrdiff_t>(random_.below(json.size())));
      if (random_.below(20) == 0) {
        json.erase(place);
      } else {
        change(*place, depth + 1);
      }
      return;
    }
    json = replacement(json);
  }

  Json replacement(const Json& old) {
    static const std::vector<std::string> patterns = {"(a*)*b",    "[^\\s",       "\\p{Lu}|\\p{Han}",
                                                      "(?i:'s|x)", "a{2}",        "a{,3}",
                                                      "(?<=a)b",   "\\x{110000}", "",
                                                      "^$",        "(((",         "\\h+|\\W",
                                                      ".{0,5}",    "a|b|",        "(?>a+)",
                                                      "[\\d\\-x]", "\\u4e2d",     "(x+x+)+y",
                                                      "\\1",       "(a)\\1",      "[a-\\d]",
                                                      "\\p{L",     "(?!)"};
    static const std::vector<std::string> words = {"BPE",
                                                   "WordPiece",
                                                   "Unigram",
                                                   "NFC",
                                                   "NFD",
                                                   "BertNormalizer",
                                                   "Precompiled",
                                                   "ByteLevel",
                                                   "Whitespace",
                                                   "Digits",
                                                   "Split",
                                                   "Metaspace",
                                                   "BertPreTokenizer",
                                                   "TemplateProcessing",
                                                   "BertProcessing",
                                                   "Fuse",
                                                   "ByteFallback",
                                                   "Strip",
                                                   "Replace",
                                                   "Prepend",
                                                   "Isolated",
                                                   "Removed",
                                                   "always",
                                                   "never",
                                                   "first",
                                                   "A",
                                                   "B",
                                                   "a",
                                                   "",
                                                   " ",
                                                   "\u2581",
                                                   "<0x41>",
                                                   "\xC3\xA9",
                                                   "the",
                                                   "[UNK]",
                                                   "type"};
    switch (random_.below(9)) {
      case 0:
        return pick(words);
      case 1:
        return pick(patterns);
      case 2:
        return Json(static_cast<int64_t>(random_.below(3)) * 150 - 1);
      case 3:
        return random_.below(2) ? Json(nullptr) : Json(1e300);
      case 4:
        return random_.below(2) == 0;
      case 5:
        return Json::array({old, old});
      case 6:
        return Json{{pick(words), old}};
      case 7:
        return Json{{"Regex", pick(patterns)}};
      default: {
        Json other = pick(good_descriptions());
        const char* const names[] = {"normalizer",     "pre_tokenizer", "decoder",
                                     "post_processor", "added_tokens",  "model"};
        return other[names[random_.below(6)]];
      }
    }
  }

  void spoil_bytes(std::string& text) {
    const size_t at = random_.below(text.size());
    switch (random_.below(3)) {
      case 0:
        text[at] = static_cast<char>(random_.below(256));
        return;
      case 1:
        text.erase(at, 1 + random_.below(8));
        return;
      default:
        text.insert(at, text.substr(random_.below(text.size()), random_.below(12)));
    }
  }

  RandomStream& random_;
};

void use(const Tokenizer& tokenizer, Spoiler& spoiler) {
  const Tokenizer again = Tokenizer::from_json(tokenizer.to_json(), "again");
  if (again.size() != tokenizer.size()) throw FuzzFailure{"printed and read back, it has another size"};
  for (int count = 0; count < 2; ++count) {
    const std::string text = spoiler.some_text();
    const std::vector<int32_t> ids = tokenizer.encode(text);
    for (int32_t id : tokenizer.encode(text, false))
      if (id < 0 || id >= tokenizer.size()) throw FuzzFailure{fmt::format("the id {} is out of range", id)};
    if (again.encode(text) != ids) throw FuzzFailure{"printed and read back, it gives other ids"};
    const Encoding pair = tokenizer.encode_pair(text, "the");
    if (pair.ids.size() != pair.type_ids.size()) throw FuzzFailure{"ids and type ids differ in number"};
    if (tokenizer.decode(ids) != again.decode(ids))
      throw FuzzFailure{"printed and read back, it decodes otherwise"};
    StreamDecoder stream(tokenizer);
    for (int32_t id : spoiler.some_ids())
      if (!is_utf8(stream.push(id))) throw FuzzFailure{"a stream gives what is not UTF-8"};
    if (!is_utf8(stream.finish())) throw FuzzFailure{"a stream ends with what is not UTF-8"};
  }
}

// Returns whether the description is a tokenizer.
bool examine(const std::string& description, Spoiler& spoiler) {
  std::optional<Tokenizer> tokenizer;
  try {
    tokenizer = Tokenizer::from_json(description, "fuzz");
  } catch (const Error& error) {
    if (std::string_view(error.what()).empty()) throw FuzzFailure{"it is refused without a reason"};
    return false;
  }
  try {
    use(*tokenizer, spoiler);
  } catch (const Error& error) {
    // Only a regular expression may turn out to be too slow when it is used.
    if (std::string_view(error.what()).find("cannot be matched") == std::string_view::npos)
      throw FuzzFailure{fmt::format("it is refused too late: {}", error.what())};
  }
  return true;
}

}  // namespace
}  // namespace saccade

int main(int count, char** arguments) {
  return saccade::run_fuzzer(count, arguments,
                             {.program = "text_fuzz",
                              .inputs = "descriptions",
                              .valid = "tokenizers",
                              .iterations = 20'000,
                              .seconds = 10,
                              .examine = [](saccade::RandomStream& random, std::string& shown) {
                                saccade::Spoiler spoiler(random);
                                shown = spoiler.description();
                                return saccade::examine(shown, spoiler);
                              }});
}
