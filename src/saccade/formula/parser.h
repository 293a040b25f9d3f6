// Text to syntax tree: a recursive-descent parser, one function per rule of the grammar. It goes on at the
// next statement after an error, so that one run reports all of them.
#pragma once

#include <string_view>

#include "saccade/formula/syntax.h"

namespace saccade {

// Bounds on what is read, so that hostile text costs little. Exceeding one is an ordinary error.
struct Limits {
  static constexpr size_t text_bytes = 64 * 1024;
  static constexpr int expression_depth = 100;  // brackets and prefix operators
  static constexpr int tree_depth = 200;        // of the tree that results, chains included
  static constexpr int tree_size = 20000;       // of one expression, by Expression::size
  static constexpr int total_size = 100000;     // of all expressions of a file
  static constexpr int statements = 500;
  static constexpr int64_t fixed_dimension = 65536;
  static constexpr int64_t param_elements = 1 << 20;
  static constexpr int subscripts = 3;
  static constexpr int graph_depth = 400;
  static constexpr int graph_nodes = 20000;
  static constexpr int norms = 8;
  static constexpr int streams = 8;
  static constexpr int tables = 64;
};

Syntax parse_syntax(std::string_view text, Diagnostics& diagnostics);

// One expression and nothing else, such as a derivative of the operation table.
ExpressionPtr parse_expression(std::string_view text, Diagnostics& diagnostics);

}  // namespace saccade
