// Text in, formula out: parse, check, analyse.
#include "saccade/formula/formula.h"

#include <cmath>

#include "saccade/base/file.h"
#include "saccade/base/text.h"
#include "saccade/formula/analysis.h"
#include "saccade/formula/mechanisms.h"
#include "saccade/formula/parser.h"

namespace saccade {
namespace {

// The canonical text with the values that constants really have.
std::string resolve(const Syntax& syntax, Overrides left) {
  std::vector<std::string> lines;
  for (const Statement& statement : syntax.statements) {
    const auto override = left.find(statement.name);
    if (override == left.end()) {
      lines.push_back(saccade::print(statement));
      continue;
    }
    Statement changed = statement;
    changed.value =
        std::make_shared<Expression>(Expression{.kind = Expression::Kind::number,
                                                .number = override->second,
                                                .integer = std::floor(override->second) == override->second});
    lines.push_back(saccade::print(changed));
    left.erase(override);
  }
  // What is set without a statement is a built-in number: n.
  for (const auto& [name, value] : left)
    lines.push_back(fmt::format("const {} = {}", name, print_number(value, std::floor(value) == value)));
  return join(lines, "\n") + "\n";
}

}  // namespace

Formula Formula::parse(std::string_view text, const ParseOptions& options) {
  Diagnostics diagnostics;
  auto data = std::make_shared<Data>();
  data->name = options.name;
  data->text = text;
  data->overrides = options.set;
  if (text.size() > Limits::text_bytes) {
    diagnostics.report({0, 0}, "a formula may have at most {} bytes; this one has {}", Limits::text_bytes,
                       text.size());
    throw FormulaError(diagnostics.take(), options.name, text.substr(0, 80));
  }
  data->syntax = parse_syntax(data->text, diagnostics);
  data->plan = check(data->syntax, data->overrides, diagnostics);
  if (diagnostics.any()) throw FormulaError(diagnostics.take(), options.name, data->text);
  analyse(data->plan);
  data->resolved = resolve(data->syntax, data->overrides);
  return Formula(std::move(data));
}

Formula Formula::load(const std::string& file_or_name, const Overrides& set) {
  const bool is_path = file_or_name.find('/') != std::string::npos || file_or_name.ends_with(".attn");
  std::vector<std::string_view> names;
  for (const EmbeddedMechanism& mechanism : embedded_mechanisms()) {
    if (mechanism.name == file_or_name) return parse(mechanism.text, {.name = file_or_name, .set = set});
    names.push_back(mechanism.name);
  }
  std::error_code ignored;  // a name that no file can have is not the name of one
  if (is_path || std::filesystem::is_regular_file(file_or_name, ignored))
    return parse(read_file(file_or_name, Limits::text_bytes), {.name = file_or_name, .set = set});
  const auto near = nearest(file_or_name, names);
  fail("'{}' is neither a file nor a shipped mechanism; {}", file_or_name,
       near ? fmt::format("did you mean '{}'?", *near) : "'saccade mechanisms' lists them");
}

std::string Formula::summary() const {
  for (std::string_view line : split_lines(text())) {
    line = trim(line);
    if (line.empty()) continue;
    if (!line.starts_with('#')) break;
    return std::string(trim(line.substr(1)));
  }
  return "";
}

bool operator==(const Formula& a, const Formula& b) {
  return same(a.syntax(), b.syntax()) && a.plan().constants == b.plan().constants &&
         a.overrides() == b.overrides();
}

}  // namespace saccade
