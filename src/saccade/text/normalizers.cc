// One small class for each type of normalizer, and the list of them at the end.
#include "saccade/text/normalizers.h"

#include <utility>
#include <vector>

#include "saccade/base/error.h"
#include "saccade/text/pattern.h"
#include "saccade/text/unicode.h"
#include "saccade/text/utf8.h"

namespace saccade {
namespace {

class Sequence final : public Normalizer {
 public:
  explicit Sequence(const JsonPart& part) {
    for (const JsonPart& item : part.parts("normalizers")) items_.push_back(make_normalizer(item));
  }
  void normalize(std::string& text) const override {
    for (const auto& item : items_) item->normalize(text);
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> items_;
};

class UnicodeForm final : public Normalizer {
 public:
  explicit UnicodeForm(NormalForm form) : form_(form) {}
  void normalize(std::string& text) const override {
    std::string result;
    result.reserve(text.size());
    append_normalized(result, text, form_);
    text = std::move(result);
  }

 private:
  NormalForm form_;
};

class Lowercase final : public Normalizer {
 public:
  void normalize(std::string& text) const override {
    std::string result;
    result.reserve(text.size());
    for_each_character(text, [&](char32_t character, size_t, size_t) { append_lower(result, character); });
    text = std::move(result);
  }
};

// Leaves out the characters of a class.
class Without final : public Normalizer {
 public:
  explicit Without(uint16_t classes) : classes_(classes) {}
  void normalize(std::string& text) const override {
    std::string result;
    result.reserve(text.size());
    for_each_character(text, [&](char32_t character, size_t begin, size_t length) {
      if (!is_in(character, classes_)) result.append(text, begin, length);
    });
    text = std::move(result);
  }

 private:
  uint16_t classes_;
};

class Strip final : public Normalizer {
 public:
  explicit Strip(const JsonPart& part)
      : left_(part.flag("strip_left", true)), right_(part.flag("strip_right", true)) {}
  void normalize(std::string& text) const override {
    std::string_view rest = text;
    while (left_ && !rest.empty() && is_in(first_character(rest).value, kSpace))
      rest.remove_prefix(first_character(rest).length);
    while (right_ && !rest.empty() && is_in(last_character(rest).value, kSpace))
      rest.remove_suffix(last_character(rest).length);
    text = std::string(rest);
  }

 private:
  bool left_, right_;
};

class Replace final : public Normalizer {
 public:
  explicit Replace(const JsonPart& part) : pattern_(part), content_(part.text("content")) {}
  void normalize(std::string& text) const override { text = pattern_.replace(text, content_); }

 private:
  Pattern pattern_;
  std::string content_;
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(const JsonPart& part) : content_(part.text("prepend")) {}
  void normalize(std::string& text) const override {
    if (!text.empty()) text.insert(0, content_);
  }

 private:
  std::string content_;
};

// BERT's own: cleaning, spaces around ideographs, accents away, lower case; in this order.
class Bert final : public Normalizer {
 public:
  explicit Bert(const JsonPart& part)
      : clean_(part.flag("clean_text", true)),
        ideographs_(part.flag("handle_chinese_chars", true)),
        lowercase_(part.flag("lowercase", true)),
        accents_(part.flag("strip_accents", lowercase_)) {}

  void normalize(std::string& text) const override {
    std::string result;
    result.reserve(text.size() + text.size() / 8);
    for_each_character(text, [&](char32_t character, size_t, size_t) {
      const uint16_t classes = classes_of(character);
      if (clean_ && (classes & kUnwanted)) return;
      if (clean_ && (classes & kSpace)) {
        result += ' ';
      } else if (ideographs_ && (classes & kIdeograph)) {
        result += ' ';
        append_character(result, character);
        result += ' ';
      } else if (lowercase_ && character < 0x80) {
        append_lower(result, character);  // nothing that follows changes it
      } else {
        append_character(result, character);
      }
    });
    text = std::move(result);
    bool ascii = true;
    for (char letter : text) ascii &= static_cast<unsigned char>(letter) < 0x80;
    if (ascii) return;
    if (accents_) {
      static const UnicodeForm decompose(NormalForm::nfd);
      static const Without marks(kNonspacingMark);
      decompose.normalize(text);
      marks.normalize(text);
    }
    if (lowercase_) Lowercase().normalize(text);
  }

 private:
  bool clean_, ideographs_, lowercase_, accents_;
};

}  // namespace

std::unique_ptr<Normalizer> make_normalizer(const JsonPart& part) {
  const std::string type = part.type();
  if (type == "Sequence") return std::make_unique<Sequence>(part);
  if (type == "NFC") return std::make_unique<UnicodeForm>(NormalForm::nfc);
  if (type == "NFD") return std::make_unique<UnicodeForm>(NormalForm::nfd);
  if (type == "NFKC") return std::make_unique<UnicodeForm>(NormalForm::nfkc);
  if (type == "NFKD") return std::make_unique<UnicodeForm>(NormalForm::nfkd);
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "StripAccents") return std::make_unique<Without>(kMark);
  if (type == "Strip") return std::make_unique<Strip>(part);
  if (type == "Replace") return std::make_unique<Replace>(part);
  if (type == "Prepend") return std::make_unique<Prepend>(part);
  if (type == "BertNormalizer") return std::make_unique<Bert>(part);
  part.unsupported("normalizer type", type,
                   {"Sequence", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Strip", "Replace",
                    "Prepend", "BertNormalizer"});
}

}  // namespace saccade
