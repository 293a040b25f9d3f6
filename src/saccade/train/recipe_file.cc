// Three visitors over the one list of options: one reads a TOML table, one writes it, one lists the keys.
#include "saccade/train/recipe_file.h"

#include <toml++/toml.h>

#include <cmath>

#include "saccade/base/error.h"
#include "saccade/base/file.h"
#include "saccade/base/text.h"

namespace saccade {
namespace {

constexpr size_t kMostRecipeBytes = size_t{1} << 20;

std::string_view kind_of(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::string:
      return "text";
    case toml::node_type::integer:
      return "a whole number";
    case toml::node_type::floating_point:
      return "a number";
    case toml::node_type::boolean:
      return "true or false";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::table:
      return "a group of keys";
    default:
      return "a date or time";
  }
}

// Fills options from a table, and afterwards knows which keys nobody asked for.
class TableReader {
 public:
  TableReader(const toml::table& table, std::string where, std::string path)
      : table_(table), where_(std::move(where)), path_(std::move(path)) {}

  template <class Value>
  void operator()(std::string_view key, Value& value, std::string_view) {
    known_.emplace_back(key);
    if (const toml::node* node = table_.get(key)) read(*node, key, value);
  }

  template <class Visit>
  void group(std::string_view key, Visit visit_options) {
    known_.emplace_back(key);
    const toml::node* node = table_.get(key);
    if (!node) return;
    if (!node->is_table())
      wrong(*node, key, fmt::format("a group, such as {}.{}=...", key, key == "train" ? "steps" : "length"));
    TableReader reader(*node->as_table(), where_, path_ + std::string(key) + ".");
    visit_options(reader);
    reader.finish();
  }

  void finish() const {
    for (const auto& [key, node] : table_) {
      const std::string name(key.str());
      if (std::ranges::find(known_, name) != known_.end()) continue;
      fail("{}: there is no key '{}{}'{}", place(node), path_, printable(name), did_you_mean(name, known_));
    }
  }

 private:
  std::string place(const toml::node& node) const {
    // What came from the command line has no line in the file.
    if (node.source().path) return *node.source().path;
    const auto& begin = node.source().begin;
    return begin.line > 0 ? fmt::format("{}:{}", where_, begin.line) : where_;
  }
  [[noreturn]] void wrong(const toml::node& node, std::string_view key, std::string_view expected) const {
    fail("{}: {}{} is {}; expected {}", place(node), path_, key, kind_of(node), expected);
  }

  void read(const toml::node& node, std::string_view key, std::string& value) const {
    if (!node.is_string()) wrong(node, key, "text");
    value = node.as_string()->get();
  }
  void read(const toml::node& node, std::string_view key, bool& value) const {
    if (!node.is_boolean()) wrong(node, key, "true or false");
    value = node.as_boolean()->get();
  }
  void read(const toml::node& node, std::string_view key, double& value) const {
    if (node.is_integer())
      value = static_cast<double>(node.as_integer()->get());
    else if (node.is_floating_point())
      value = node.as_floating_point()->get();
    else
      wrong(node, key, "a number");
    require(std::isfinite(value), "{}: {}{} is {}; expected a finite number", place(node), path_, key, value);
  }
  void read(const toml::node& node, std::string_view key, int64_t& value) const {
    if (node.is_integer()) {
      value = node.as_integer()->get();
      return;
    }
    const double real = node.is_floating_point() ? node.as_floating_point()->get() : 0.5;
    if (std::floor(real) != real || std::fabs(real) > 9e15) wrong(node, key, "a whole number");
    value = static_cast<int64_t>(real);
  }
  void read(const toml::node& node, std::string_view key, uint64_t& value) const {
    int64_t number = 0;
    read(node, key, number);
    require(number >= 0, "{}: {}{} is {}; expected 0 or more", place(node), path_, key, number);
    value = static_cast<uint64_t>(number);
  }
  void read(const toml::node& node, std::string_view key, std::vector<std::string>& value) const {
    value.clear();
    if (node.is_string()) {
      value.push_back(node.as_string()->get());
      return;
    }
    if (!node.is_array()) wrong(node, key, "a list of texts");
    for (const toml::node& element : *node.as_array()) {
      if (!element.is_string()) wrong(element, key, "a list of texts");
      value.push_back(element.as_string()->get());
    }
  }
  void read(const toml::node& node, std::string_view key, std::map<std::string, double>& value) const {
    if (!node.is_table()) wrong(node, key, "a group of numbers, such as set = { w = 128 }");
    value.clear();
    for (const auto& [name, element] : *node.as_table()) {
      double number = 0;
      read(element, fmt::format("{}.{}", key, name.str()), number);
      value[std::string(name.str())] = number;
    }
  }

  void read(const toml::node& node, std::string_view key, AttentionChoice& value) const {
    value = {};
    if (node.is_string()) return read(node, key, value.all);
    if (!node.is_table()) wrong(node, key, "text, or a group such as { encoder = \"full\" }");
    TableReader slots(*node.as_table(), where_, path_ + std::string(key) + ".");
    slots("all", value.all, "");
    slots("encoder", value.encoder, "");
    slots("decoder", value.decoder, "");
    slots("cross", value.cross, "");
    slots.finish();
  }

  const toml::table& table_;
  std::string where_, path_;
  std::vector<std::string> known_;
};

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n')
      result += "\\n";
    else if (c == '\t')
      result += "\\t";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      result += fmt::format("\\u{:04X}", static_cast<int>(static_cast<unsigned char>(c)));
    else
      result += c;
  }
  return result + "\"";
}

std::string as_toml(const std::string& value) { return quoted(value); }
std::string as_toml(bool value) { return value ? "true" : "false"; }
std::string as_toml(int64_t value) { return std::to_string(value); }
std::string as_toml(uint64_t value) { return std::to_string(value); }
std::string as_toml(double value) {
  const std::string text = fmt::format("{}", value);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}
std::string as_toml(const std::vector<std::string>& values) {
  std::vector<std::string> parts;
  for (const std::string& value : values) parts.push_back(quoted(value));
  return "[" + join(parts, ", ") + "]";
}
std::string as_toml(const AttentionChoice& value) {
  if (value == AttentionChoice{.all = value.all}) return quoted(value.all);
  std::vector<std::string> parts;
  for (const auto& [key, name] : {std::pair{"all", &value.all},
                                  {"encoder", &value.encoder},
                                  {"decoder", &value.decoder},
                                  {"cross", &value.cross}})
    if (!name->empty()) parts.push_back(fmt::format("{} = {}", key, quoted(*name)));
  return "{ " + join(parts, ", ") + " }";
}
std::string as_toml(const std::map<std::string, double>& values) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : values)
    parts.push_back(fmt::format("{} = {}", quoted(name), as_toml(value)));
  return parts.empty() ? "{}" : "{ " + join(parts, ", ") + " }";
}

class KeyLister {
 public:
  template <class Value>
  void operator()(std::string_view key, const Value& value, std::string_view meaning) {
    keys.push_back({path_ + std::string(key), std::string(meaning), as_toml(value)});
  }
  template <class Visit>
  void group(std::string_view key, Visit visit_options) {
    path_ = std::string(key) + ".";
    visit_options(*this);
    path_.clear();
  }
  std::vector<RecipeKey> keys;

 private:
  std::string path_;
};

toml::table parse_toml(std::string_view text, const std::string& where) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    fail("{}:{}:{}: {}", where, error.source().begin.line, error.source().begin.column, error.description());
  }
}

// A plain word need not be quoted.
toml::table parse_value(const std::string& text, const std::string& where) {
  try {
    return toml::parse("value = " + text, where);
  } catch (const toml::parse_error&) {
    return toml::parse("value = " + quoted(text), where);
  }
}

void apply(toml::table& table, const std::string& override) {
  const size_t equals = override.find('=');
  require(equals != std::string::npos && equals > 0, "'{}' is no key=value, such as train.steps=500",
          printable(override));
  const std::string path(trim(override.substr(0, equals))), text(trim(override.substr(equals + 1)));
  toml::table parsed = parse_value(text, printable(override));
  require(parsed.size() == 1, "'{}' is no key=value, such as train.steps=500", printable(override));
  toml::table* at = &table;
  size_t begin = 0;
  for (size_t dot = path.find('.'); dot != std::string::npos; begin = dot + 1, dot = path.find('.', begin)) {
    const std::string key = path.substr(begin, dot - begin);
    if (!at->contains(key)) at->insert(key, toml::table{});
    // One mechanism for all slots becomes a group when a slot gets another.
    if (key == "attention" && at == &table && at->get(key)->is_string())
      at->insert_or_assign(key, toml::table{{"all", at->get(key)->as_string()->get()}});
    at = at->get(key)->as_table();
    require(at != nullptr, "{}: '{}' is no group of keys", printable(override), printable(key));
  }
  at->insert_or_assign(path.substr(begin), std::move(*parsed.get("value")));
}

Recipe read_table(const toml::table& table, const std::string& where) {
  Recipe recipe;
  TableReader reader(table, where, "");
  visit_recipe(recipe, reader);
  reader.finish();
  recipe.check();
  return recipe;
}

}  // namespace

Recipe parse_recipe(std::string_view text, const std::string& where, std::span<const std::string> overrides) {
  toml::table table = parse_toml(text, where);
  for (const std::string& override : overrides) apply(table, override);
  return read_table(table, where);
}

Recipe load_recipe(const std::filesystem::path& path, std::span<const std::string> overrides) {
  return parse_recipe(read_file(path, kMostRecipeBytes), path.string(), overrides);
}

Recipe changed(const Recipe& recipe, std::span<const std::string> overrides) {
  return parse_recipe(print_recipe(recipe), "recipe", overrides);
}

std::string print_recipe(const Recipe& recipe) {
  std::string text, group;
  for (const RecipeKey& key : recipe_values(recipe)) {
    const size_t dot = key.key.find('.');
    const std::string here = dot == std::string::npos ? "" : key.key.substr(0, dot);
    if (here != group) text += fmt::format("\n[{}]\n", group = here);
    const std::string line =
        fmt::format("{} = {}", dot == std::string::npos ? key.key : key.key.substr(dot + 1), key.otherwise);
    text += fmt::format("{:<40} # {}\n", line, key.meaning);
  }
  return text;
}

std::vector<RecipeKey> recipe_values(const Recipe& recipe) {
  KeyLister lister;
  visit_recipe(recipe, lister);
  return lister.keys;
}

std::vector<RecipeKey> recipe_keys() { return recipe_values(Recipe{}); }

}  // namespace saccade
