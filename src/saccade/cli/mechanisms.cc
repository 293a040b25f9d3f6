// `saccade mechanisms`: the shipped formulas, one line each, or the text of one.
#include "saccade/formula/mechanisms.h"

#include "saccade/base/error.h"
#include "saccade/base/json.h"
#include "saccade/base/text.h"
#include "saccade/cli/command.h"
#include "saccade/cli/output.h"
#include "saccade/formula/formula.h"

namespace saccade {
namespace {

struct Options {
  std::string name;
  bool json = false;
};

ExitCode run(const Options& options) {
  if (!options.name.empty()) {
    std::vector<std::string_view> names;
    for (const EmbeddedMechanism& mechanism : embedded_mechanisms()) {
      names.push_back(mechanism.name);
      if (mechanism.name != options.name) continue;
      write_output(mechanism.text);
      return ExitCode::success;
    }
    fail("mechanisms: there is no '{}'{}", options.name, did_you_mean(options.name, names));
  }
  Json list = Json::array();
  Table table({"name", "decodes", "what it is"});
  for (const EmbeddedMechanism& mechanism : embedded_mechanisms()) {
    const Formula formula = Formula::load(std::string(mechanism.name));
    const bool decodes = formula.plan().decoding.possible;
    table.add({std::string(mechanism.name), decodes ? "yes" : "no", formula.summary()});
    list.push_back({{"name", mechanism.name},
                    {"decodes", decodes},
                    {"summary", formula.summary()},
                    {"text", mechanism.text}});
  }
  if (options.json)
    print("{}\n", dump(list, 2));
  else
    write_output(table.print());
  return ExitCode::success;
}

}  // namespace

Work declare_mechanisms(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  app.add_option("name", options->name, "Print the text of this one")->type_name("NAME");
  app.add_flag("--json", options->json, "Print JSON");
  return [options] { return run(*options); };
}

}  // namespace saccade
