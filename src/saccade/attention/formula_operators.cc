// Formulas for Python: what follows from a text, as JSON. Strings in and strings out, so that nothing but
// torch's own way of calling operators is needed. A formula's errors are part of the answer, since the
// exceptions that pass through torch have no type for them.
#include <torch/library.h>

#include <algorithm>

#include "saccade/attention/python_errors.h"
#include "saccade/base/json.h"
#include "saccade/formula/augment.h"
#include "saccade/formula/explain.h"
#include "saccade/formula/manual.h"
#include "saccade/formula/mechanisms.h"
#include "saccade/formula/parser.h"

namespace saccade {
namespace {

const char* name_of_type(Type type) {
  return type == Type::boolean ? "bool" : type == Type::integer ? "int" : "real";
}

Json table_json(const TableInfo& table) {
  Json json{{"name", table.name}, {"type", name_of_type(table.type)}, {"dimensions", Json::array()}};
  for (const Dimension& dimension : table.dimensions) json["dimensions"].push_back(to_string(dimension));
  if (table.learned()) {
    json["low"] = table.low;  // infinities are written as null
    json["high"] = table.high;
  } else {
    json["rides_in_cache"] = table.rides_in_cache();
  }
  return json;
}

Json description(const Formula& formula) {
  const Plan& plan = formula.plan();
  Json json{{"name", formula.name()},
            {"summary", formula.summary()},
            {"text", formula.text()},
            {"resolved", formula.resolved()},
            {"mask", plan.graph.print(plan.mask, {})},
            {"weights", plan.graph.print(plan.weights, {})},
            {"params", Json::array()},
            {"inputs", Json::array()},
            {"constants", Json::object()}};
  for (const TableInfo& table : plan.tables)
    if (table.source != TableInfo::Source::token)
      json[table.learned() ? "params" : "inputs"].push_back(table_json(table));
  for (const auto& [name, value] : plan.constants) json["constants"][name] = value;
  json["decoding"] = {{"possible", plan.decoding.possible}, {"reason", plan.decoding.reason}};
  json["decoding"]["ring"] = plan.decoding.ring ? Json(*plan.decoding.ring) : Json(nullptr);
  json["needs_layer_input"] = plan.needs_layer_input();
  json["keeps_running_sums"] = plan.keeps_running_sums();
  json["uses_length"] = plan.uses_length();
  json["uses_positions"] = plan.uses_positions();
  json["uses_places"] = plan.uses_places();
  json["has_scale"] = plan.scale != kNoNode;
  json["warnings"] = plan.warnings;
  return json;
}

// The text with a declaration for each name that is offered and that it neither declares nor defines. They go
// to the end, so that the places in error messages stay those of the text.
std::string with_declarations(std::string text, const Json& offered) {
  if (offered.empty()) return text;
  Diagnostics ignored;  // the text is parsed again, and its errors are shown then
  const Syntax syntax = parse_syntax(text, ignored);
  for (const auto& [name, declaration] : offered.items()) {
    const auto named = [&](const Statement& statement) { return statement.name == name; };
    if (std::ranges::none_of(syntax.statements, named) && !syntax.broken.contains(name))
      text += "\n" + declaration.get<std::string>();
  }
  return text;
}

// `options` may hold: set, the values of constants; declare, a statement for each name that may be missing;
// load, whether the text is the name of a mechanism or file; without_causal; pair_mask, "allowed" or "added";
// explain, the length to explain it for.
Json describe(const std::string& text, const std::string& name, const Json& options) {
  ParseOptions parse{.name = name};
  const Json set = options.value("set", Json::object()), declare = options.value("declare", Json::object());
  for (const auto& [constant, value] : set.items()) parse.set[constant] = value.get<double>();
  Formula formula = options.value("load", false) ? Formula::load(text, parse.set)
                                                 : Formula::parse(with_declarations(text, declare), parse);
  if (options.value("without_causal", false)) formula = without_causal(formula);
  std::string mask_input;
  if (const std::string kind = options.value("pair_mask", ""); !kind.empty()) {
    const MaskedFormula masked =
        with_pair_mask(formula, kind == "allowed" ? PairMask::allowed : PairMask::added);
    formula = masked.formula;
    mask_input = masked.input;
  }
  Json json = description(formula);
  json["mask_input"] = mask_input;
  if (const int64_t length = options.value("explain", int64_t{0}); length > 0)
    json["explanation"] = explain(formula, {.length = length});
  return json;
}

std::string describe_formula(c10::string_view text, c10::string_view name, c10::string_view options) {
  return with_python_errors([&] {
    try {
      return dump(describe(std::string(text), std::string(name), parse_json(options, "options")));
    } catch (const FormulaError& error) {
      Json places = Json::array();
      for (const Diagnostic& diagnostic : error.diagnostics())
        places.push_back({{"begin", diagnostic.span.begin},
                          {"end", diagnostic.span.end},
                          {"message", diagnostic.message}});
      return dump(Json{{"error", error.what()}, {"diagnostics", places}});
    }
  });
}

std::string mechanisms() {
  Json list = Json::array();
  for (const EmbeddedMechanism& mechanism : embedded_mechanisms())
    list.push_back({{"name", mechanism.name}, {"text", mechanism.text}});
  return dump(list);
}

TORCH_LIBRARY_FRAGMENT(saccade, library) {
  library.def("describe_formula(str text, str name, str options) -> str", describe_formula);
  library.def("mechanisms() -> str", mechanisms);
  library.def("language() -> str", language_manual);
}

}  // namespace
}  // namespace saccade
