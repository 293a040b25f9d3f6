// One small class for each type of pre-tokenizer, and the list of them at the end.
#include "saccade/text/pre_tokenizers.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "saccade/base/error.h"
#include "saccade/text/byte_level.h"
#include "saccade/text/pattern.h"
#include "saccade/text/unicode.h"
#include "saccade/text/utf8.h"

namespace saccade {
namespace {

Piece part_of(const Piece& piece, size_t begin, size_t end) {
  return {piece.text.substr(begin, end - begin), piece.first && begin == 0};
}

class Sequence final : public PreTokenizer {
 public:
  Sequence(const JsonPart& part, bool plain_bytes) {
    for (const JsonPart& item : part.parts("pretokenizers"))
      items_.push_back(make_pre_tokenizer(item, plain_bytes));
  }
  void split(const Piece& piece, const PieceSink& use) const override { run(0, piece, use); }

 private:
  void run(size_t step, const Piece& piece, const PieceSink& use) const {
    if (step == items_.size()) return use(piece);
    if (step + 1 == items_.size()) return items_[step]->split(piece, use);
    items_[step]->split(piece, [&, step](const Piece& smaller) { run(step + 1, smaller, use); });
  }

  std::vector<std::unique_ptr<PreTokenizer>> items_;
};

class ByteLevel final : public PreTokenizer {
 public:
  ByteLevel(const JsonPart& part, bool plain_bytes)
      : add_prefix_space_(part.flag("add_prefix_space", true)),
        use_regex_(part.flag("use_regex", true)),
        plain_bytes_(plain_bytes),
        scanner_(scanner_for(kGpt2Pattern)) {}

  void split(const Piece& piece, const PieceSink& use) const override {
    if (piece.text.empty()) return;
    if (!add_prefix_space_ || piece.text.starts_with(' ')) return words(piece, use);
    const std::string spaced = " " + std::string(piece.text);
    words({spaced, piece.first}, use);
  }

 private:
  void words(const Piece& piece, const PieceSink& use) const {
    if (!use_regex_) return give(piece, use);
    for (size_t at = 0; at < piece.text.size();) {
      const size_t end = scanner_(piece.text, at);
      give(part_of(piece, at, end), use);
      at = end;
    }
  }

  void give(const Piece& piece, const PieceSink& use) const {
    if (plain_bytes_) return use(piece);
    const std::string written = to_byte_alphabet(piece.text);
    use({written, piece.first});
  }

  bool add_prefix_space_, use_regex_, plain_bytes_;
  Scanner scanner_;
};

enum class Behaviour { removed, isolated, merged_with_previous, merged_with_next, contiguous };

Behaviour read_behaviour(const JsonPart& part, std::string_view otherwise) {
  const std::string name = part.text("behavior", otherwise);
  if (name == "Removed") return Behaviour::removed;
  if (name == "Isolated") return Behaviour::isolated;
  if (name == "MergedWithPrevious") return Behaviour::merged_with_previous;
  if (name == "MergedWithNext") return Behaviour::merged_with_next;
  if (name == "Contiguous") return Behaviour::contiguous;
  part.unsupported("behavior", name,
                   {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"});
}

// Joins or drops stretches as the behaviour says; what is left is handed on whole.
std::vector<Stretch> arrange(std::vector<Stretch> stretches, Behaviour behaviour) {
  std::vector<Stretch> result;
  bool previous_match = false;
  switch (behaviour) {
    case Behaviour::isolated:
      return stretches;
    case Behaviour::removed:
      std::erase_if(stretches, [](const Stretch& stretch) { return stretch.match; });
      return stretches;
    case Behaviour::merged_with_previous:
    case Behaviour::contiguous:
      for (const Stretch& stretch : stretches) {
        const bool joins = behaviour == Behaviour::contiguous ? stretch.match == previous_match
                                                              : stretch.match && !previous_match;
        if (joins && !result.empty()) {
          result.back().end = stretch.end;
        } else {
          result.push_back(stretch);
        }
        previous_match = stretch.match;
      }
      return result;
    case Behaviour::merged_with_next:
      for (size_t index = stretches.size(); index-- > 0;) {
        const Stretch& stretch = stretches[index];
        if (stretch.match && !previous_match && !result.empty()) {
          result.back().begin = stretch.begin;
        } else {
          result.push_back(stretch);
        }
        previous_match = stretch.match;
      }
      std::reverse(result.begin(), result.end());
      return result;
  }
  return stretches;
}

void give_all(const Piece& piece, std::vector<Stretch> stretches, Behaviour behaviour, const PieceSink& use) {
  for (const Stretch& stretch : arrange(std::move(stretches), behaviour))
    if (stretch.end > stretch.begin) use(part_of(piece, stretch.begin, stretch.end));
}

class Split final : public PreTokenizer {
 public:
  explicit Split(const JsonPart& part)
      : pattern_(part), behaviour_(read_behaviour(part, "")), invert_(part.flag("invert", false)) {}

  void split(const Piece& piece, const PieceSink& use) const override {
    if (const Scanner scanner = pattern_.scanner(); scanner && behaviour_ == Behaviour::isolated) {
      for (size_t at = 0; at < piece.text.size();) {
        const size_t end = scanner(piece.text, at);
        use(part_of(piece, at, end));
        at = end;
      }
      return;
    }
    std::vector<Stretch> stretches = pattern_.split(piece.text);
    if (invert_)
      for (Stretch& stretch : stretches) stretch.match = !stretch.match;
    give_all(piece, std::move(stretches), behaviour_, use);
  }

 private:
  Pattern pattern_;
  Behaviour behaviour_;
  bool invert_;
};

// Cuts at characters of some classes, each of which is a match of its own.
class CharacterSplit final : public PreTokenizer {
 public:
  CharacterSplit(uint16_t classes, Behaviour behaviour) : classes_(classes), behaviour_(behaviour) {}

  void split(const Piece& piece, const PieceSink& use) const override {
    if (behaviour_ == Behaviour::removed || behaviour_ == Behaviour::isolated)
      return split_directly(piece, use);
    std::vector<Stretch> stretches;
    for_each_character(piece.text, [&](char32_t character, size_t begin, size_t length) {
      const bool match = is_in(character, classes_);
      if (match || stretches.empty() || stretches.back().match) {
        stretches.push_back({begin, begin + length, match});
      } else {
        stretches.back().end = begin + length;
      }
    });
    give_all(piece, std::move(stretches), behaviour_, use);
  }

 private:
  void split_directly(const Piece& piece, const PieceSink& use) const {
    size_t done = 0;
    for_each_character(piece.text, [&](char32_t character, size_t begin, size_t length) {
      if (!is_in(character, classes_)) return;
      if (begin > done) use(part_of(piece, done, begin));
      if (behaviour_ == Behaviour::isolated) use(part_of(piece, begin, begin + length));
      done = begin + length;
    });
    if (done < piece.text.size()) use(part_of(piece, done, piece.text.size()));
  }

  uint16_t classes_;
  Behaviour behaviour_;
};

// Words, and what stands between words and spaces: \w+|[^\w\s]+.
class Whitespace final : public PreTokenizer {
 public:
  void split(const Piece& piece, const PieceSink& use) const override {
    size_t start = 0;
    uint16_t current = kSpace;
    const auto finish = [&](size_t end) {
      if (current != kSpace && end > start) use(part_of(piece, start, end));
      start = end;
    };
    for_each_character(piece.text, [&](char32_t character, size_t begin, size_t) {
      const uint16_t classes = classes_of(character);
      const uint16_t kind = classes & kWord ? kWord : classes & kSpace ? kSpace : 0;
      if (kind != current) finish(begin);
      current = kind;
    });
    finish(piece.text.size());
  }
};

// BERT's: white space is dropped, punctuation stands alone.
class Bert final : public PreTokenizer {
 public:
  void split(const Piece& piece, const PieceSink& use) const override {
    size_t done = 0;
    for_each_character(piece.text, [&](char32_t character, size_t begin, size_t length) {
      const uint16_t classes = classes_of(character);
      if ((classes & (kSpace | kPunctuation)) == 0) return;
      if (begin > done) use(part_of(piece, done, begin));
      if (classes & kPunctuation) use(part_of(piece, begin, begin + length));
      done = begin + length;
    });
    if (done < piece.text.size()) use(part_of(piece, done, piece.text.size()));
  }
};

// SentencePiece's way: a visible character in place of spaces, and perhaps one before the text.
class Metaspace final : public PreTokenizer {
 public:
  explicit Metaspace(const JsonPart& part)
      : marker_(to_utf8(part.character("replacement", 0x2581))), split_(part.flag("split", true)) {
    const std::string scheme =
        part.text("prepend_scheme", part.flag("add_prefix_space", true) ? "always" : "never");
    always_ = scheme == "always";
    first_ = scheme == "first";
    if (!always_ && !first_ && scheme != "never")
      part.unsupported("prepend_scheme", scheme, {"always", "first", "never"});
  }

  void split(const Piece& piece, const PieceSink& use) const override {
    std::string text;
    text.reserve(piece.text.size() * 3 / 2 + marker_.size());
    if ((always_ || (first_ && piece.first)) && !piece.text.starts_with(' ') &&
        !piece.text.starts_with(marker_))
      text = marker_;
    for (char letter : piece.text) {
      if (letter == ' ') {
        text += marker_;
      } else {
        text += letter;
      }
    }
    const Piece whole{text, piece.first};
    if (!split_) {
      if (!text.empty()) use(whole);
      return;
    }
    give_all(whole, split_at(text, marker_), Behaviour::merged_with_next, use);
  }

 private:
  std::string marker_;
  bool split_, always_ = false, first_ = false;
};

}  // namespace

std::unique_ptr<PreTokenizer> make_pre_tokenizer(const JsonPart& part, bool plain_bytes) {
  const std::string type = part.type();
  if (type == "Sequence") return std::make_unique<Sequence>(part, plain_bytes);
  if (type == "ByteLevel") return std::make_unique<ByteLevel>(part, plain_bytes);
  if (type == "Split") return std::make_unique<Split>(part);
  if (type == "Digits") {
    const bool alone = part.flag("individual_digits", false);
    return std::make_unique<CharacterSplit>(kNumeric, alone ? Behaviour::isolated : Behaviour::contiguous);
  }
  if (type == "Punctuation")
    return std::make_unique<CharacterSplit>(kPunctuation, read_behaviour(part, "Isolated"));
  if (type == "WhitespaceSplit") return std::make_unique<CharacterSplit>(kSpace, Behaviour::removed);
  if (type == "Whitespace") return std::make_unique<Whitespace>();
  if (type == "BertPreTokenizer") return std::make_unique<Bert>();
  if (type == "Metaspace") return std::make_unique<Metaspace>(part);
  part.unsupported("pre_tokenizer type", type,
                   {"Sequence", "ByteLevel", "Split", "Digits", "Punctuation", "Whitespace",
                    "WhitespaceSplit", "BertPreTokenizer", "Metaspace"});
}

bool ends_with_byte_level(const Json& description) {
  const auto steps = [](const auto& self, const Json& part, std::vector<std::string>& types) -> void {
    if (!part.is_object()) return;
    const std::string type = part.contains("type") && part["type"].is_string() ? part["type"] : Json("");
    if (type != "Sequence") {
      types.push_back(type);
    } else if (part.contains("pretokenizers") && part["pretokenizers"].is_array()) {
      for (const Json& item : part["pretokenizers"]) self(self, item, types);
    }
  };
  std::vector<std::string> types;
  steps(steps, description, types);
  return !types.empty() && types.back() == "ByteLevel" &&
         std::count(types.begin(), types.end(), "ByteLevel") == 1;
}

}  // namespace saccade
