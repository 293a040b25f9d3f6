// Comparing and printing syntax trees. The printer writes only the parentheses that the grammar needs, and
// folds `a < b and b < c` back into a chain.
#include "saccade/formula/syntax.h"

#include <charconv>

#include "saccade/base/text.h"

namespace saccade {
namespace {

bool is_operator(const Expression& expression, Op op) {
  return expression.kind == Expression::Kind::call && expression.op == op;
}

bool is_comparison(const Expression& expression) {
  return expression.kind == Expression::Kind::call && expression.op &&
         operation(*expression.op).precedence == kCompareLevel;
}

// The last operand of a chain such as a < b < c, or null when the expression is not one.
const Expression* chain_end(const Expression& expression) {
  if (is_comparison(expression)) return expression.arguments[1].get();
  if (!is_operator(expression, Op::logical_and) || !is_comparison(*expression.arguments[1])) return nullptr;
  const Expression* end = chain_end(*expression.arguments[0]);
  if (!end) return nullptr;
  const auto& next = expression.arguments[1]->arguments;
  return same(std::make_shared<Expression>(*end), next[0]) ? next[1].get() : nullptr;
}

bool is_chain(const Expression& expression) {
  return is_operator(expression, Op::logical_and) && chain_end(expression) != nullptr;
}

int level(const Expression& expression) {
  if (expression.kind != Expression::Kind::call || !expression.op) return kPrimaryLevel;
  if (is_chain(expression)) return kCompareLevel;
  return operation(*expression.op).precedence;
}

std::string print_at(const Expression& expression, int least_level) {
  const std::string text = print(expression);
  return level(expression) < least_level ? "(" + text + ")" : text;
}

std::string print_list(const std::vector<ExpressionPtr>& arguments) {
  std::vector<std::string> parts;
  for (const ExpressionPtr& argument : arguments) parts.push_back(print(*argument));
  return join(parts, ", ");
}

std::string print_operator(const Expression& expression) {
  const Operation& row = operation(*expression.op);
  const Expression& first = *expression.arguments[0];
  if (*expression.op == Op::negate) return "-" + print_at(first, kNegateLevel);
  if (*expression.op == Op::logical_not) return "not " + print_at(first, kNotLevel);
  const Expression& second = *expression.arguments[1];
  if (*expression.op == Op::power)
    return print_at(first, kPrimaryLevel) + " ^ " + print_at(second, kNegateLevel);
  if (is_chain(expression))
    return fmt::format("{} {} {}", print(first), operation(*second.op).name,
                       print_at(*second.arguments[1], kAddLevel));
  // Comparisons do not associate; the others do, to the left.
  const int left_level = row.precedence == kCompareLevel ? kAddLevel : row.precedence;
  return fmt::format("{} {} {}", print_at(first, left_level), row.name, print_at(second, row.precedence + 1));
}

std::string print_dimensions(const std::vector<Dimension>& dimensions) {
  if (dimensions.empty()) return "";
  std::vector<std::string> parts;
  for (const Dimension& dimension : dimensions) parts.push_back(to_string(dimension));
  return "[" + join(parts, ", ") + "]";
}

bool same(const std::vector<ExpressionPtr>& a, const std::vector<ExpressionPtr>& b) {
  if (a.size() != b.size()) return false;
  for (size_t index = 0; index < a.size(); ++index)
    if (!saccade::same(a[index], b[index])) return false;
  return true;
}

}  // namespace

std::string to_string(const Dimension& dimension) {
  switch (dimension.kind) {
    case Dimension::Kind::batch:
      return "batch";
    case Dimension::Kind::head:
      return "head";
    case Dimension::Kind::layer:
      return "layer";
    case Dimension::Kind::token:
      return "token";
    case Dimension::Kind::query:
      return "query";
    case Dimension::Kind::key:
      return "key";
    case Dimension::Kind::rel:
      return "rel";
    case Dimension::Kind::fixed:
      return std::to_string(dimension.size);
    case Dimension::Kind::any:
      return "*";
  }
  return "?";
}

bool same(const ExpressionPtr& a, const ExpressionPtr& b) {
  if (!a || !b) return !a && !b;
  if (a == b) return true;
  return a->kind == b->kind && a->number == b->number && a->integer == b->integer && a->name == b->name &&
         a->op == b->op && same(a->arguments, b->arguments) && same(a->sink, b->sink);
}

bool same(const Syntax& a, const Syntax& b) {
  if (a.statements.size() != b.statements.size()) return false;
  for (size_t index = 0; index < a.statements.size(); ++index) {
    const Statement &x = a.statements[index], &y = b.statements[index];
    if (x.kind != y.kind || x.name != y.name || x.dimensions != y.dimensions || x.type != y.type ||
        !same(x.value, y.value) || !same(x.low, y.low) || !same(x.high, y.high) || x.left != y.left ||
        x.right != y.right)
      return false;
  }
  return true;
}

std::string print_number(double value, bool integer) {
  char buffer[320];  // the largest double has 309 digits
  if (integer) {
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed).ptr;
    return {buffer, end};
  }
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string result(buffer, end);
  const bool looks_integer = result.find_first_of(".en") == std::string::npos;  // also inf and nan
  return looks_integer ? result + ".0" : result;
}

std::string print(const Expression& expression) {
  switch (expression.kind) {
    case Expression::Kind::number:
      return print_number(expression.number, expression.integer);
    case Expression::Kind::name:
      return expression.name;
    case Expression::Kind::subscript:
      return fmt::format("{}[{}]", expression.name, print_list(expression.arguments));
    case Expression::Kind::call:
      break;
  }
  if (expression.op) return print_operator(expression);
  std::string list = print_list(expression.arguments);
  if (expression.sink) list += (list.empty() ? "sink = " : ", sink = ") + print(*expression.sink);
  return fmt::format("{}({})", expression.name, list);
}

std::string print(const Statement& statement) {
  const std::string name = statement.name + print_dimensions(statement.dimensions);
  switch (statement.kind) {
    case Statement::Kind::constant:
      return fmt::format("const {} = {}", name, print(*statement.value));
    case Statement::Kind::param: {
      const std::string start = fmt::format("param {} = {}", name, print(*statement.value));
      return statement.low
                 ? fmt::format("{} in [{}, {}]", start, print(*statement.low), print(*statement.high))
                 : start;
    }
    case Statement::Kind::input: {
      const char* type = statement.type == Type::integer   ? ": int"
                         : statement.type == Type::boolean ? ": bool"
                                                           : "";
      return fmt::format("input {}{}", name, type);
    }
    case Statement::Kind::vector:
      return fmt::format("vector {} = {}", name, print(*statement.value));
    case Statement::Kind::token:
      return fmt::format("token {} = {}", name, print(*statement.value));
    case Statement::Kind::stream:
      return fmt::format("stream {} = {} . {}", name, statement.left, statement.right);
    case Statement::Kind::let:
      return fmt::format("{} = {}", name, print(*statement.value));
  }
  return "";
}

std::string print(const Syntax& syntax) {
  std::string result;
  for (const Statement& statement : syntax.statements) result += print(statement) + "\n";
  return result;
}

}  // namespace saccade
