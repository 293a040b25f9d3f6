// The syntax tree of a formula file: what was written, with places, before names and types are looked at.
// Operators are calls of the operation with that name, so that the tree has only four kinds of node.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "saccade/formula/diagnostic.h"
#include "saccade/formula/operations.h"

namespace saccade {

struct Expression;
using ExpressionPtr = std::shared_ptr<const Expression>;

struct Expression {
  enum class Kind {
    number,
    name,
    call,      // name(arguments), or an operator when `op` is one
    subscript  // name[arguments]
  };
  Kind kind;
  Span span;
  double number = 0;
  bool integer = false;  // number written as an integer
  std::string name;      // name, call, subscript
  std::optional<Op> op;  // call of an operator such as + or `and`
  std::vector<ExpressionPtr> arguments;
  ExpressionPtr sink;  // the keyword argument of softmax
  int depth = 1;       // of the tree below; bounded, so that recursion over it is safe
  int size = 1;        // of that tree in nodes, shared ones counted each time a walk would meet them
};

struct Dimension {
  enum class Kind { batch, head, layer, token, query, key, rel, fixed, any };
  Kind kind;
  int64_t size = 0;  // of a fixed dimension
  bool operator==(const Dimension&) const = default;
};
std::string to_string(const Dimension& dimension);

struct Statement {
  enum class Kind { constant, param, input, vector, token, stream, let };
  Kind kind;
  Span span;  // the whole statement
  Span name_span;
  std::string name;
  std::vector<Dimension> dimensions;  // param, input
  Type type = Type::real;             // input
  ExpressionPtr value;                // constant, param (start value), vector, token, let
  ExpressionPtr low, high;            // param ... in [low, high]
  std::string left, right;            // stream
  Span left_span, right_span;
};

struct Syntax {
  std::vector<Statement> statements;
  // Names whose statement did not parse. They are not unknown, and using them is not another error.
  std::set<std::string> broken;
};

// Same structure, wherever it was written.
bool same(const ExpressionPtr& a, const ExpressionPtr& b);
bool same(const Syntax& a, const Syntax& b);

// The canonical text; it parses back to the same tree.
std::string print(const Expression& expression);
std::string print(const Statement& statement);
std::string print(const Syntax& syntax);

// How a number is written so that it reads back as the same double (`integer`: without point or exponent).
std::string print_number(double value, bool integer);

}  // namespace saccade
