// `saccade mechanisms`: the shipped formulas, one line each, or the text of one.
#include "saccade/formula/mechanisms.h"

#include "saccade/base/error.h"
#include "saccade/base/json.h"
#include "saccade/base/text.h"
#include "saccade/cli/command.h"
#include "saccade/cli/output.h"
#include "saccade/formula/explain.h"
#include "saccade/formula/formula.h"

namespace saccade {
namespace {

struct MechanismsRequest {
  std::string name;
  bool json = false;
};

Json json_of(const EmbeddedMechanism& mechanism, const Formula& formula) {
  return {{"name", mechanism.name},
          {"decodes", formula.plan().decoding.possible},
          {"summary", formula.summary()},
          {"text", mechanism.text}};
}

ExitCode run(const MechanismsRequest& options) {
  if (!options.name.empty()) {
    std::vector<std::string_view> names;
    for (const EmbeddedMechanism& mechanism : embedded_mechanisms()) {
      names.push_back(mechanism.name);
      if (mechanism.name != options.name) continue;
      if (options.json)
        print("{}\n", dump(json_of(mechanism, Formula::load(options.name)), 2));
      else
        write_output(mechanism.text);
      return ExitCode::success;
    }
    fail("mechanisms: there is no '{}'{}", options.name, did_you_mean(options.name, names));
  }
  Json list = Json::array();
  // What it means and costs at a glance; `saccade explain NAME` tells the rest.
  Table table({"name", "decodes", "skipped", "per pair", "what it is"});
  for (const EmbeddedMechanism& mechanism : embedded_mechanisms()) {
    const Formula formula = Formula::load(std::string(mechanism.name));
    const bool decodes = formula.plan().decoding.possible;
    const Json facts = explain_json(formula, {});
    const double skipped = facts["tiles"]["skipped"].get<double>();
    const double tiles =
        skipped + facts["tiles"]["full"].get<double>() + facts["tiles"]["mixed"].get<double>();
    table.add({std::string(mechanism.name), decodes ? "yes" : "no",
               fmt::format("{:.0f} %", 100 * skipped / tiles),
               std::to_string(facts["instructions"]["tile"].get<int64_t>()), formula.summary()});
    list.push_back(json_of(mechanism, formula));
  }
  if (options.json)
    print("{}\n", dump(list, 2));
  else
    write_output(table.print() +
                 "\nskipped: share of the 64 x 64 tiles of a map of 4096 tokens that the mask empties, "
                 "before inputs are known\n"
                 "per pair: instructions that run for every pair, besides dot products and norms\n");
  return ExitCode::success;
}

}  // namespace

Work declare_mechanisms(CLI::App& app) {
  const auto options = std::make_shared<MechanismsRequest>();
  app.add_option("name", options->name, "Print the text of this one")->type_name("FORMULA");
  app.add_flag("--json", options->json, "Print JSON");
  return [options] { return run(*options); };
}

}  // namespace saccade
