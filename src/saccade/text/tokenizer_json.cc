// A tokenizer.json is mostly two lists with up to half a million entries. The reader takes them from the
// stream as they come and keeps only the rest as a JSON value.
#include <algorithm>

#include "saccade/base/error.h"
#include "saccade/text/tokenizer_spec.h"

namespace saccade {
namespace {

constexpr size_t kMostMembers = 10'000;  // of any object but the vocabulary

class Reader final : public nlohmann::json_sax<Json> {
 public:
  Reader(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  TokenizerSpec run() {
    Json::sax_parse(text_, this);
    return std::move(spec_);
  }

  bool null() override { return value(nullptr); }
  bool boolean(bool held) override { return value(held); }
  bool number_integer(number_integer_t held) override { return value(held); }
  bool number_unsigned(number_unsigned_t held) override { return value(held); }
  bool number_float(number_float_t held, const string_t&) override { return value(held); }
  bool binary(binary_t&) override { return false; }

  bool string(string_t& held) override {
    if (list_ == List::merges) return merge_text(held);
    return value(std::move(held));
  }

  bool start_object(std::size_t) override {
    if (list_ != List::none) wrong_entry();
    if (is_at("vocab")) return start_list(List::vocabulary);
    return open(Json::object());
  }

  bool start_array(std::size_t) override {
    if (list_ == List::merges && !in_pair_) {
      in_pair_ = true;
      pair_.clear();
      return true;
    }
    if (list_ != List::none) wrong_entry();
    if (is_at("merges")) return start_list(List::merges);
    return open(Json::array());
  }

  bool key(string_t& held) override {
    if (list_ == List::none)
      require(open_.back()->size() < kMostMembers, "{}: an object has more than {} members", name_,
              kMostMembers);
    key_ = std::move(held);
    return true;
  }

  bool end_object() override {
    if (list_ == List::vocabulary) {
      list_ = List::none;
    } else {
      open_.pop_back();
    }
    return true;
  }

  bool end_array() override {
    if (in_pair_) {
      in_pair_ = false;
      require(pair_.size() == 2, "{}: model.merges: merge {} has {} tokens instead of two", name_,
              spec_.merges.size(), pair_.size());
      spec_.merges.emplace_back(std::move(pair_[0]), std::move(pair_[1]));
    } else if (list_ == List::merges) {
      list_ = List::none;
    } else {
      open_.pop_back();
    }
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    const std::string_view before = text_.substr(0, std::min(position, text_.size()));
    std::string_view reason = error.what();
    if (const auto colon = reason.find(": "); colon != reason.npos) reason.remove_prefix(colon + 2);
    fail("{}:{}: {}", name_, 1 + std::count(before.begin(), before.end(), '\n'), reason);
  }

 private:
  enum class List { none, vocabulary, merges };

  // Whether the value that comes is this member of the model.
  bool is_at(std::string_view member) const {
    return open_.size() == 2 && key_ == member && model_ && open_.back() == model_;
  }

  bool start_list(List list) {
    place(nullptr);
    list_ = list;
    return true;
  }

  [[noreturn]] void wrong_entry() const {
    if (list_ == List::vocabulary) fail("{}: model.vocab: the id of '{}' is not a number", name_, key_);
    fail("{}: model.merges: merge {} is neither \"a b\" nor [\"a\", \"b\"]", name_, spec_.merges.size());
  }

  Json* place(Json held) {
    if (open_.empty()) {
      spec_.config = std::move(held);
      return &spec_.config;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(held));
      return &parent.back();
    }
    Json& member = parent[key_];
    member = std::move(held);
    if (open_.size() == 1 && key_ == "model") model_ = &member;
    return &member;
  }

  bool open(Json container) {
    require(open_.size() < kJsonDepth, "{}: nested deeper than {} levels", name_, kJsonDepth);
    open_.push_back(place(std::move(container)));
    return true;
  }

  bool value(Json held) {
    if (list_ == List::none) {
      place(std::move(held));
      return true;
    }
    const bool is_id = list_ == List::vocabulary && held.is_number_unsigned();
    if (!is_id) wrong_entry();
    const auto id = held.get<uint64_t>();
    require(id <= Vocabulary::kLargestId, "{}: model.vocab: the id of '{}' is {}; the largest allowed is {}",
            name_, key_, id, Vocabulary::kLargestId);
    spec_.vocabulary.emplace_back(std::move(key_), static_cast<int32_t>(id));
    return true;
  }

  bool merge_text(string_t& held) {
    if (in_pair_) {
      pair_.push_back(std::move(held));
      return true;
    }
    const size_t space = held.find(' ');
    require(space != held.npos && held.find(' ', space + 1) == held.npos,
            "{}: model.merges: merge {} is '{}'; expected two tokens with one space between", name_,
            spec_.merges.size(), held);
    spec_.merges.emplace_back(held.substr(0, space), held.substr(space + 1));
    return true;
  }

  std::string_view text_, name_;
  TokenizerSpec spec_;
  std::vector<Json*> open_;      // the objects and lists around the current place
  const Json* model_ = nullptr;  // the member of that name at the top
  std::string key_;
  List list_ = List::none;
  bool in_pair_ = false;
  std::vector<std::string> pair_;
};

void print_vocabulary(std::string& out, const Vocabulary& vocabulary) {
  out += '{';
  bool first = true;
  for (int32_t id = 0; id < vocabulary.end(); ++id) {
    if (!vocabulary.has(id)) continue;
    if (!first) out += ',';
    first = false;
    out += fmt::format("\n{}:{}", dump(Json(vocabulary.token(id))), id);
  }
  out += '}';
}

void print_merges(std::string& out, const Model& model) {
  out += '[';
  bool first = true;
  for (const auto& [left, right] : model.merges()) {
    if (!first) out += ',';
    first = false;
    out += fmt::format("\n[{},{}]", dump(Json(left)), dump(Json(right)));
  }
  out += ']';
}

}  // namespace

TokenizerSpec parse_tokenizer_json(std::string_view text, std::string_view name) {
  TokenizerSpec spec = Reader(text, name).run();
  require(spec.config.is_object(), "{}: expected an object, found {}", name, spec.config.type_name());
  return spec;
}

std::string print_tokenizer_json(const Json& config, const Model& model) {
  std::string out = "{";
  const auto separate = [&] {
    if (out.back() != '{') out += ',';
    out += '\n';
  };
  for (const auto& [name, value] : config.items()) {
    separate();
    out += dump(Json(name)) + ": ";
    if (name != "model") {
      out += dump(value);
      continue;
    }
    out += '{';
    for (const auto& [member, held] : value.items()) {
      separate();
      out += dump(Json(member)) + ": ";
      if (member == "vocab") {
        print_vocabulary(out, model.vocabulary());
      } else if (member == "merges") {
        print_merges(out, model);
      } else {
        out += dump(held);
      }
    }
    out += '}';
  }
  return out + "\n}\n";
}

}  // namespace saccade
