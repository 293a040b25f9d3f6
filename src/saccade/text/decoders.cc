// One small class for each type of decoder, and the list of them at the end.
#include "saccade/text/decoders.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "saccade/text/byte_level.h"
#include "saccade/text/pattern.h"
#include "saccade/text/utf8.h"

namespace saccade {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

class Sequence final : public TextDecoder {
 public:
  explicit Sequence(const JsonPart& part) {
    for (const JsonPart& item : part.parts("decoders")) items_.push_back(make_decoder(item));
  }
  void decode(std::vector<std::string>& tokens) const override {
    for (const auto& item : items_) item->decode(tokens);
  }

 private:
  std::vector<std::unique_ptr<TextDecoder>> items_;
};

// Leaves bytes that are not UTF-8 in the text, so that what was encoded comes back as it was.
class ByteLevel final : public TextDecoder {
 public:
  void decode(std::vector<std::string>& tokens) const override {
    std::string text;
    for (const std::string& token : tokens) {
      const auto bytes = from_byte_alphabet(token);
      text += bytes ? *bytes : token;
    }
    tokens.clear();
    tokens.push_back(std::move(text));
  }
};

class WordPiece final : public TextDecoder {
 public:
  explicit WordPiece(const JsonPart& part)
      : prefix_(part.text("prefix", "##")), cleanup_(part.flag("cleanup", true)) {}

  void decode(std::vector<std::string>& tokens) const override {
    for (size_t index = 0; index < tokens.size(); ++index) {
      std::string& token = tokens[index];
      if (index > 0) {
        if (token.starts_with(prefix_)) {
          token.erase(0, prefix_.size());
        } else {
          token.insert(0, " ");
        }
      }
      if (cleanup_) clean(token);
    }
  }

 private:
  static void clean(std::string& token) {
    static constexpr std::pair<std::string_view, std::string_view> kChanges[] = {
        {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
        {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (const auto& [from, to] : kChanges) replace_all(token, from, to);
  }

  std::string prefix_;
  bool cleanup_;
};

class Metaspace final : public TextDecoder {
 public:
  explicit Metaspace(const JsonPart& part)
      : marker_(to_utf8(part.character("replacement", 0x2581))),
        prepended_(part.text("prepend_scheme", part.flag("add_prefix_space", true) ? "always" : "never") !=
                   "never") {}

  void decode(std::vector<std::string>& tokens) const override {
    for (size_t index = 0; index < tokens.size(); ++index)
      replace_all(tokens[index], marker_, index == 0 && prepended_ ? "" : " ");
  }

 private:
  std::string marker_;
  bool prepended_;
};

class Replace final : public TextDecoder {
 public:
  explicit Replace(const JsonPart& part) : pattern_(part), content_(part.text("content")) {}
  void decode(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) token = pattern_.replace(token, content_);
  }

 private:
  Pattern pattern_;
  std::string content_;
};

// Tokens <0xHH> in a row are the bytes of characters; where they are not UTF-8, each gives a U+FFFD.
class ByteFallback final : public TextDecoder {
 public:
  void decode(std::vector<std::string>& tokens) const override {
    std::vector<std::string> result;
    std::string bytes;
    const auto finish = [&] {
      if (bytes.empty()) return;
      if (is_utf8(bytes)) {
        result.push_back(bytes);
      } else {
        result.insert(result.end(), bytes.size(), to_utf8(kReplacementCharacter));
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const int byte = byte_of(token); byte >= 0) {
        bytes += static_cast<char>(byte);
      } else {
        finish();
        result.push_back(std::move(token));
      }
    }
    finish();
    tokens = std::move(result);
  }

 private:
  static int digit(char letter) {
    if (letter >= '0' && letter <= '9') return letter - '0';
    if (letter >= 'A' && letter <= 'F') return letter - 'A' + 10;
    if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
    return -1;
  }
  static int byte_of(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return -1;
    const int high = digit(token[3]), low = digit(token[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
  }
};

class Fuse final : public TextDecoder {
 public:
  void decode(std::vector<std::string>& tokens) const override {
    std::string text;
    for (const std::string& token : tokens) text += token;
    tokens.clear();
    tokens.push_back(std::move(text));
  }
};

// Takes up to `start` of a character from the front of each token and up to `stop` from its back.
class Strip final : public TextDecoder {
 public:
  explicit Strip(const JsonPart& part)
      : content_(to_utf8(part.character("content", ' '))),
        start_(part.integer("start", 0, 1 << 20, 0)),
        stop_(part.integer("stop", 0, 1 << 20, 0)) {}

  void decode(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (int64_t count = 0; count < start_ && rest.starts_with(content_); ++count)
        rest.remove_prefix(content_.size());
      for (int64_t count = 0; count < stop_ && rest.ends_with(content_); ++count)
        rest.remove_suffix(content_.size());
      token = std::string(rest);
    }
  }

 private:
  std::string content_;
  int64_t start_, stop_;
};

class WordEnds final : public TextDecoder {
 public:
  explicit WordEnds(const JsonPart& part) : suffix_(part.text("suffix", "</w>")) {}
  void decode(std::vector<std::string>& tokens) const override {
    for (size_t index = 0; index < tokens.size(); ++index)
      replace_all(tokens[index], suffix_, index + 1 < tokens.size() ? " " : "");
  }

 private:
  std::string suffix_;
};

}  // namespace

std::unique_ptr<TextDecoder> make_decoder(const JsonPart& part) {
  const std::string type = part.type();
  if (type == "Sequence") return std::make_unique<Sequence>(part);
  if (type == "ByteLevel") return std::make_unique<ByteLevel>();
  if (type == "WordPiece") return std::make_unique<WordPiece>(part);
  if (type == "Metaspace") return std::make_unique<Metaspace>(part);
  if (type == "Replace") return std::make_unique<Replace>(part);
  if (type == "ByteFallback") return std::make_unique<ByteFallback>();
  if (type == "Fuse") return std::make_unique<Fuse>();
  if (type == "Strip") return std::make_unique<Strip>(part);
  if (type == "BPEDecoder") return std::make_unique<WordEnds>(part);
  part.unsupported("decoder type", type,
                   {"Sequence", "ByteLevel", "WordPiece", "Metaspace", "Replace", "ByteFallback", "Fuse",
                    "Strip", "BPEDecoder"});
}

}  // namespace saccade
