// Reading `--set name=value`.
#include "saccade/cli/formula_options.h"

#include <charconv>

#include "saccade/base/error.h"

namespace saccade {

void FormulaOptions::declare(CLI::App& app, bool many) {
  auto* option = app.add_option("file", files, "A formula file, or the name of a shipped mechanism");
  option->type_name("FORMULA");
  if (!many) option->required()->expected(1);
  app.add_option(
         "--set", set,
         "Give a constant of the formula another value, or a param another start; n pins the number of keys")
      ->type_name("NAME=VALUE");
}

Formula FormulaOptions::load(const std::string& file) const {
  return Formula::load(file, parse_overrides(set));
}

Overrides parse_overrides(const std::vector<std::string>& pairs) {
  Overrides result;
  for (const std::string& pair : pairs) {
    const size_t equals = pair.find('=');
    double value = 0;
    const char* begin = pair.data() + equals + 1;
    const char* end = pair.data() + pair.size();
    const bool readable = equals != std::string::npos && equals > 0 && begin != end &&
                          std::from_chars(begin, end, value).ptr == end;
    require(readable, "--set: cannot read '{}'; expected a name and a number, such as w=128", pair);
    result[pair.substr(0, equals)] = value;
  }
  return result;
}

}  // namespace saccade
