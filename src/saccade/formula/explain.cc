// One function per section; the JSON holds the same facts under stable keys.
#include "saccade/formula/explain.h"

#include <algorithm>
#include <cmath>

#include "saccade/base/text.h"
#include "saccade/base/units.h"
#include "saccade/formula/bounds.h"
#include "saccade/formula/program.h"

namespace saccade {
namespace {

// Everything that runs for pairs, as one program: what a kernel would execute.
std::vector<NodeId> roots_of(const Plan& plan) {
  std::vector<NodeId> roots{plan.mask};
  for (const NormInfo& norm : plan.norms) {
    roots.push_back(norm.argument);
    if (norm.sink != kNoNode) roots.push_back(norm.sink);
  }
  for (const TermInfo& term : plan.terms) roots.push_back(term.coefficient);
  if (plan.scale != kNoNode) roots.push_back(plan.scale);
  return roots;
}

// Names for the nodes that the text itself names, so that a derivative reads like the formula.
std::map<NodeId, std::string> names_of(const Plan& plan) {
  std::map<NodeId, std::string> names;
  for (const auto& [name, node] : plan.lets)
    if (!is_leaf(plan.graph[node].op)) names.emplace(node, name);
  return names;
}

std::string print_without(const Plan& plan, NodeId node, std::map<NodeId, std::string> names) {
  names.erase(node);
  return plan.graph.print(node, names);
}

std::string number(double value) {
  return print_number(value, value == std::floor(value) && std::fabs(value) < 1e15);
}

std::string dimensions_text(const TableInfo& table) {
  std::vector<std::string> names;
  for (const Dimension& dimension : table.dimensions) names.push_back(to_string(dimension));
  return names.empty() ? "" : "[" + join(names, ", ") + "]";
}

std::string vector_name(const Plan& plan, int index, std::string_view own) {
  return index < 0 ? std::string(own) : plan.vectors[static_cast<size_t>(index)].name;
}

std::string table_text(const Plan& plan, const TableInfo& table) {
  if (table.source == TableInfo::Source::input)
    return fmt::format("given with each call, {}", table.type == Type::real      ? "real"
                                                   : table.type == Type::integer ? "integer"
                                                                                 : "Boolean");
  std::string text = "learned, starts at " + plan.graph.print(table.start, {});
  if (std::isfinite(table.low) || std::isfinite(table.high))
    text += fmt::format(", kept in [{}, {}]", number(table.low), number(table.high));
  return text;
}

std::string meaning(const Formula& formula) {
  const Plan& plan = formula.plan();
  const auto names = names_of(plan);
  std::vector<std::pair<std::string, std::string>> lines;  // what, and what it is
  lines.emplace_back("output[i]", "= sum over the allowed keys j of weights[i, j] * v[j]");
  lines.emplace_back("weights", "= " + print_without(plan, plan.weights, names));
  for (const auto& [name, node] : plan.lets)
    if (!is_leaf(plan.graph[node].op)) lines.emplace_back(name, "= " + print_without(plan, node, names));
  const bool everything = plan.graph.is_number(plan.mask, 1);
  lines.emplace_back("allowed", everything ? ": every pair" : ": " + print_without(plan, plan.mask, names));
  const std::string scale = plan.scale == kNoNode ? "1 / sqrt(d_k)" : print_without(plan, plan.scale, names);
  for (size_t index = 0; index < plan.streams.size(); ++index) {
    const StreamInfo& stream = plan.streams[index];
    if (plan.streams_used(static_cast<int>(index)))
      lines.emplace_back(stream.name, fmt::format("= ({}) * {}[i] . {}[j]", scale,
                                                  vector_name(plan, stream.query_vector, "q"),
                                                  vector_name(plan, stream.key_vector, "k")));
  }
  for (const Statement& statement : formula.syntax().statements) {
    if (statement.kind == Statement::Kind::vector)
      lines.emplace_back(statement.name, fmt::format("= {}, per token", print(*statement.value)));
    if (statement.kind == Statement::Kind::token)
      lines.emplace_back(statement.name, fmt::format("= {}, per token and head", print(*statement.value)));
  }
  for (const TableInfo& table : plan.tables)
    if (table.source != TableInfo::Source::token)
      lines.emplace_back(table.name + dimensions_text(table), ": " + table_text(plan, table));
  for (const auto& [name, value] : plan.constants)
    lines.emplace_back(name, fmt::format("= {}, a constant (--set {}=...)", number(value), name));
  size_t width = 0;
  for (const auto& [name, text] : lines) width = std::max(width, name.size());
  std::string result = "What it computes\n";
  for (const auto& [name, text] : lines) result += fmt::format("  {:<{}} {}\n", name, width, text);
  return result;
}

std::string derivatives(const Plan& plan) {
  const auto names = names_of(plan);
  std::map<NodeId, std::string> outputs;
  outputs[plan.score] = "score";
  std::string text = "Derivatives\n";
  for (const DerivativeInfo& derivative : plan.derivatives) {
    if (derivative.of == derivative.by) continue;  // d s / d s
    const std::string of =
        outputs.contains(derivative.of) ? outputs[derivative.of] : plan.graph.print(derivative.of, names, 60);
    text += fmt::format("  d({}) / d({}) = {}\n", of, plan.graph.print(derivative.by, {}, 60),
                        plan.graph.print(derivative.value, names));
  }
  const bool unit = std::ranges::all_of(plan.norms, [&](const NormInfo& norm) {
    return std::ranges::all_of(plan.derivatives, [&](const DerivativeInfo& derivative) {
      return derivative.of != norm.argument || plan.graph[derivative.by].op != Op::stream ||
             plan.graph.is_number(derivative.value, 1);
    });
  });
  if (unit && !plan.norms.empty())
    text += "  the derivative by every stream is 1, so the backward pass runs no program for it\n";
  return text;
}

constexpr std::pair<Rate, std::string_view> kRates[] = {{Rate::head, "once per head"},
                                                        {Rate::row, "once per query"},
                                                        {Rate::column, "once per key"},
                                                        {Rate::diagonal, "once per distance"},
                                                        {Rate::tile, "for every pair"}};

std::string rates(const Plan& plan, const Program& program) {
  std::string text = "Rates: how often each part is computed\n";
  for (const auto& [rate, title] : kRates) {
    std::vector<std::string> parts;
    const Stage& stage = program.stage(rate);
    for (const Instruction& instruction : stage.code)
      if (instruction.store >= 0 && plan.graph[instruction.node].op != Op::variable)
        parts.push_back(plan.graph.print(instruction.node, {}, 60));
    if (rate == Rate::tile)
      parts = {stage.code.empty() ? "nothing but the dot products"
                                  : plural(static_cast<int64_t>(stage.code.size()), "instruction")};
    if (!parts.empty()) text += fmt::format("  {:<18} {}\n", title, join(parts, "; "));
  }
  return text;
}

std::string skipping(const Plan& plan, const ExplainOptions& options, const TileCount& count) {
  const auto share = [&](int64_t part) {
    return 100.0 * static_cast<double>(part) / static_cast<double>(count.total());
  };
  return fmt::format(
             "Skipping at n = {0}, tiles of {1} x {1}\n  {2} of {3} tiles are skipped ({4:.1f} %), {5} need "
             "no mask ({6:.1f} %), {7} are looked at\n",
             options.length, options.tile, count.empty, count.total(), share(count.empty), count.full,
             share(count.full), count.mixed) +
         (std::ranges::any_of(plan.graph.reachable({plan.mask}),
                              [&](NodeId id) {
                                return plan.graph[id].op == Op::read &&
                                       plan.tables[static_cast<size_t>(plan.graph[id].symbol)].source ==
                                           TableInfo::Source::input;
                              })
              ? "  the mask reads inputs, whose values are known only at run time: more may be skipped then\n"
              : "");
}

std::vector<std::string> cached(const Plan& plan) {
  std::vector<std::string> tracks{"k", "v"};
  for (const VectorInfo& vector : plan.vectors)
    if (vector.used && vector.for_keys) tracks.push_back(vector.name);
  for (const TableInfo& table : plan.tables)
    if (table.rides_in_cache()) tracks.push_back(table.name);
  return tracks;
}

std::string decoding(const Plan& plan) {
  const Decoding& decoding = plan.decoding;
  std::string text = "Decoding with a KV cache\n";
  text += fmt::format("  {}: {}\n", decoding.possible ? "yes" : "no", decoding.reason);
  if (!decoding.possible) return text;
  text += fmt::format("  cached per token: {}\n", join(cached(plan), ", "));
  text += decoding.ring
              ? fmt::format("  a ring buffer of the last {} is enough: the mask is false from d = {} on\n",
                            plural(*decoding.ring, "token"), *decoding.ring)
              : "  every token stays in the cache: the mask allows any distance\n";
  return text;
}

struct Cost {
  double pairs, operations, map_bytes, table_bytes;
};

Cost cost_of(const Plan& plan, const Program& program, const ExplainOptions& options,
             const TileCount& count) {
  const auto n = static_cast<double>(options.length), width = static_cast<double>(options.width);
  const double share = 1 - static_cast<double>(count.empty) / static_cast<double>(count.total());
  int64_t streams = 0;
  for (size_t index = 0; index < plan.streams.size(); ++index)
    streams += plan.streams_used(static_cast<int>(index));
  Cost cost{};
  cost.pairs = n * n * share;
  cost.operations = cost.pairs * (2 * width * static_cast<double>(streams) + 2 * width +
                                  static_cast<double>(program.stage(Rate::tile).code.size()));
  cost.map_bytes = n * n * 4;
  for (Rate rate : program.slots)
    cost.table_bytes += 4 * (rate == Rate::diagonal                      ? 2 * n - 1
                             : rate == Rate::row || rate == Rate::column ? n
                                                                         : 1);
  return cost;
}

std::string costs(const Plan& plan, const Program& program, const ExplainOptions& options,
                  const TileCount& count) {
  const Cost cost = cost_of(plan, program, options, count);
  return fmt::format(
      "Cost at n = {}, d_k = d_v = {}, per head, forward\n  {:.3g} pairs in tiles that are not skipped, "
      "{:.3g} operations\n"
      "  one n x n map in single precision takes {}; rows, columns and diagonals take {}\n",
      options.length, options.width, cost.pairs, cost.operations, bytes_text(cost.map_bytes),
      bytes_text(cost.table_bytes));
}

}  // namespace

std::string explain(const Formula& formula, const ExplainOptions& options) {
  const Plan& plan = formula.plan();
  const Program program = compile(plan, roots_of(plan));
  const TileCount count = count_tiles(plan, options.length, options.tile);
  std::string text = formula.name();
  if (const std::string summary = formula.summary(); !summary.empty()) text += ": " + summary;
  text += "\n\n" + meaning(formula) + "\n" + derivatives(plan) + "\n" + rates(plan, program) + "\n" +
          skipping(plan, options, count) + "\n" + decoding(plan) + "\n" +
          costs(plan, program, options, count);
  if (!plan.warnings.empty()) {
    text += "\nWarnings\n";
    for (const std::string& warning : plan.warnings) text += "  " + warning + "\n";
  }
  if (options.program) text += "\nProgram\n" + list(program, plan);
  return text;
}

Json explain_json(const Formula& formula, const ExplainOptions& options) {
  const Plan& plan = formula.plan();
  const Program program = compile(plan, roots_of(plan));
  const TileCount count = count_tiles(plan, options.length, options.tile);
  const Cost cost = cost_of(plan, program, options, count);
  Json json{{"name", formula.name()}, {"summary", formula.summary()}, {"text", formula.print()}};
  json["mask"] = plan.graph.print(plan.mask, {});
  json["weights"] = plan.graph.print(plan.weights, {});
  json["derivatives"] = Json::array();
  for (const DerivativeInfo& derivative : plan.derivatives)
    json["derivatives"].push_back({{"of", plan.graph.print(derivative.of, {})},
                                   {"by", plan.graph.print(derivative.by, {})},
                                   {"value", plan.graph.print(derivative.value, {})}});
  json["instructions"] = Json::object();
  for (const auto& [rate, title] : kRates)
    json["instructions"][std::string(name_of(rate))] = program.stage(rate).code.size();
  json["tiles"] = {{"n", options.length},
                   {"side", options.tile},
                   {"skipped", count.empty},
                   {"full", count.full},
                   {"mixed", count.mixed}};
  json["decoding"] = {
      {"possible", plan.decoding.possible}, {"reason", plan.decoding.reason}, {"cached", cached(plan)}};
  json["decoding"]["ring"] = plan.decoding.ring ? Json(*plan.decoding.ring) : Json(nullptr);
  json["cost"] = {{"pairs", cost.pairs},
                  {"operations", cost.operations},
                  {"map_bytes", cost.map_bytes},
                  {"table_bytes", cost.table_bytes}};
  json["warnings"] = plan.warnings;
  return json;
}

}  // namespace saccade
