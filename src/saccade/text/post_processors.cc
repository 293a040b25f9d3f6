// Reads each type of post-processor into the two templates.
#include "saccade/text/post_processors.h"

#include "saccade/base/error.h"
#include "saccade/text/vocabulary.h"

namespace saccade {
namespace {

bool is_id(const Json& value) {
  return value.is_number_integer() && value >= 0 && value <= Vocabulary::kLargestId;
}

// ["[SEP]", 102]
int32_t read_token(const JsonPart& part, std::string_view name) {
  require(part.has(name), "{}: '{}' is missing", part.path(), name);
  const Json& value = part.json()[std::string(name)];
  const bool good = value.is_array() && value.size() == 2 && value[0].is_string() && is_id(value[1]);
  require(good, "{}: '{}' is {}; expected a token and its id", part.path(), name, dump(value));
  return value[1].get<int32_t>();
}

}  // namespace

PostProcessor::PostProcessor()
    : single_{{Item::Kind::a, 0, {}}}, pair_{{Item::Kind::a, 0, {}}, {Item::Kind::b, 1, {}}} {}

PostProcessor::PostProcessor(const JsonPart& part) : PostProcessor() { read(part); }

void PostProcessor::read(const JsonPart& part) {
  const std::string type = part.type();
  if (type == "ByteLevel") return;  // it only corrects offsets, which are not kept here
  if (type == "Sequence") {
    for (const JsonPart& item : part.parts("processors")) read(item);
    return;
  }
  require(!adds_, "{}: a second post_processor that adds tokens is not supported", part.path());
  adds_ = true;
  if (type == "TemplateProcessing") return read_template(part);
  const bool roberta = type == "RobertaProcessing";
  if (type != "BertProcessing" && !roberta)
    part.unsupported("post_processor type", type,
                     {"Sequence", "ByteLevel", "TemplateProcessing", "BertProcessing", "RobertaProcessing"});
  const Item cls{Item::Kind::special, 0, {read_token(part, "cls")}};
  const Item sep{Item::Kind::special, 0, {read_token(part, "sep")}};
  const Item a{Item::Kind::a, 0, {}};
  single_ = {cls, a, sep};
  if (roberta) {
    pair_ = {cls, a, sep, sep, {Item::Kind::b, 0, {}}, sep};
  } else {
    pair_ = {cls, a, sep, {Item::Kind::b, 1, {}}, {Item::Kind::special, 1, sep.ids}};
  }
}

void PostProcessor::read_template(const JsonPart& part) {
  const auto special_ids = [&](const JsonPart& item, const std::string& name) {
    const JsonPart specials = part.part("special_tokens");
    require(specials.has(name), "{}: '{}' is not among the special_tokens", item.path(), name);
    const JsonPart special = specials.part(name);
    require(special.has("ids") && special.json()["ids"].is_array(), "{}: 'ids' must be a list",
            special.path());
    std::vector<int32_t> ids;
    for (const Json& id : special.json()["ids"]) {
      require(is_id(id), "{}: {} is no id", special.path(), dump(id));
      ids.push_back(id.get<int32_t>());
    }
    return ids;
  };
  const auto read_items = [&](std::string_view name) {
    Template result;
    for (const JsonPart& item : part.parts(name)) {
      if (item.has("SpecialToken")) {
        const JsonPart special = item.part("SpecialToken");
        result.push_back({Item::Kind::special,
                          static_cast<int32_t>(special.integer("type_id", 0, 1 << 20, 0)),
                          special_ids(special, special.text("id"))});
        continue;
      }
      require(item.has("Sequence"), "{}: expected a SpecialToken or a Sequence, found {}", item.path(),
              dump(item.json()));
      const JsonPart sequence = item.part("Sequence");
      const std::string id = sequence.text("id");
      if (id != "A" && id != "B") sequence.unsupported("id", id, {"A", "B"});
      result.push_back({id == "A" ? Item::Kind::a : Item::Kind::b,
                        static_cast<int32_t>(sequence.integer("type_id", 0, 1 << 20, 0)),
                        {}});
    }
    return result;
  };
  single_ = read_items("single");
  pair_ = read_items("pair");
}

Encoding PostProcessor::apply(const Template& items, std::span<const int32_t> a, std::span<const int32_t> b,
                              bool add_special_tokens) {
  Encoding result;
  for (const Item& item : items) {
    if (item.kind == Item::Kind::special && !add_special_tokens) continue;
    const auto ids = item.kind == Item::Kind::a   ? a
                     : item.kind == Item::Kind::b ? b
                                                  : std::span<const int32_t>(item.ids);
    result.ids.insert(result.ids.end(), ids.begin(), ids.end());
    result.type_ids.resize(result.ids.size(), item.type_id);
  }
  return result;
}

Encoding PostProcessor::process(std::span<const int32_t> a, bool add_special_tokens) const {
  return apply(single_, a, {}, add_special_tokens);
}

Encoding PostProcessor::process(std::span<const int32_t> a, std::span<const int32_t> b,
                                bool add_special_tokens) const {
  return apply(pair_, a, b, add_special_tokens);
}

}  // namespace saccade
