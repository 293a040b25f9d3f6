// The one table of operations of the formula language. A row says everything the project knows about an
// operation: its name, its type rule, its value, its interval, its derivatives (written in the language
// itself) and its documentation. The parser, the evaluator, the bounds, the derivatives, the tensor reference
// and the language manual all read this table.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string_view>

#include "saccade/formula/interval.h"

namespace saccade {

// Leaves first, then the scalar operations of the table, then the norms, which act on a whole row of keys.
enum class Op : uint8_t {
  number,    // a literal, also the Booleans 0 and 1
  variable,  // i, j, d, h, H, n
  stream,    // a scaled dot product: s and the declared streams
  read,      // an element of a param, input or token table
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  negate,
  power,
  less,
  less_equal,
  greater,
  greater_equal,
  equal,
  not_equal,
  logical_and,
  logical_or,
  logical_not,
  abs,
  sign,
  min,
  max,
  clamp,
  floor,
  sqrt,
  exp,
  log,
  log1p,
  tanh,
  sigmoid,
  relu,
  sin,
  cos,
  where,
  softmax,
  l1,
  softpick,
};

// A Boolean is not a number; an integer is a number that may subscript a table.
enum class Type : uint8_t { boolean, integer, real };

// How the type of the result follows from the types of the operands.
enum class TypeRule : uint8_t {
  keep,        // numbers in; integer if all are integers, otherwise real
  to_real,     // numbers in, real out
  to_integer,  // numbers in, integer out
  compare,     // numbers in, Boolean out
  logic,       // Booleans in, Boolean out
  select,      // a Boolean, then two of one kind
};

struct Operation {
  Op op;
  std::string_view name;
  int arity;
  TypeRule type;
  // Whether floating-point evaluation gives the mathematically exact result, so that a bound needs no safety
  // margin.
  bool exact;
  Interval (*bound)(Interval x, Interval y, Interval z);
  // Derivative by the first, second and third operand, in terms of x, y and z; empty where it is zero
  // everywhere.
  std::array<std::string_view, 3> derivative;
  std::string_view doc;
  std::string_view example;
  // Binding strength when written as an operator; 0 when written as a call.
  int precedence = 0;
};

// Precedence levels of the grammar, from loosest to tightest.
inline constexpr int kOrLevel = 1, kAndLevel = 2, kNotLevel = 3, kCompareLevel = 4, kAddLevel = 5,
                     kMultiplyLevel = 6, kNegateLevel = 7, kPowerLevel = 8, kPrimaryLevel = 9;

// All scalar operations, in the order of Op.
std::span<const Operation> operations();

// The row of a scalar operation; `op` must not be a leaf or a norm.
const Operation& operation(Op op);

// The row with this name as a call (`abs`), or null. Operators such as `+` are not calls.
const Operation* find_call(std::string_view name);

// A norm turns the scores of one row of keys into weights.
struct NormOperation {
  Op op;
  std::string_view name;
  bool has_sink;
  std::string_view doc;
  std::string_view example;
};
std::span<const NormOperation> norm_operations();
const NormOperation* find_norm(std::string_view name);

inline bool is_norm(Op op) { return op == Op::softmax || op == Op::l1 || op == Op::softpick; }
inline bool is_leaf(Op op) { return op <= Op::read; }

// The value of a scalar operation: the one definition, for float and double. Booleans are 0 and 1.
template <Op op, class Real>
inline Real apply(Real x, [[maybe_unused]] Real y, [[maybe_unused]] Real z) {
  if constexpr (op == Op::add) return x + y;
  if constexpr (op == Op::subtract) return x - y;
  if constexpr (op == Op::multiply) return x * y;
  if constexpr (op == Op::divide) return x / y;
  if constexpr (op == Op::floor_divide) return std::floor(x / y);
  if constexpr (op == Op::modulo) return x - y * std::floor(x / y);
  if constexpr (op == Op::negate) return -x;
  if constexpr (op == Op::power) return std::pow(x, y);
  if constexpr (op == Op::less) return x < y;
  if constexpr (op == Op::less_equal) return x <= y;
  if constexpr (op == Op::greater) return x > y;
  if constexpr (op == Op::greater_equal) return x >= y;
  if constexpr (op == Op::equal) return x == y;
  if constexpr (op == Op::not_equal) return x != y;
  if constexpr (op == Op::logical_and) return x != 0 && y != 0;
  if constexpr (op == Op::logical_or) return x != 0 || y != 0;
  if constexpr (op == Op::logical_not) return x == 0;
  if constexpr (op == Op::abs) return std::fabs(x);
  if constexpr (op == Op::sign) return x > 0 ? Real(1) : x < 0 ? Real(-1) : x;
  if constexpr (op == Op::min) return y < x || std::isnan(y) ? y : x;
  if constexpr (op == Op::max) return y > x || std::isnan(y) ? y : x;
  if constexpr (op == Op::clamp) return apply<Op::min>(apply<Op::max>(x, y, z), z, z);
  if constexpr (op == Op::floor) return std::floor(x);
  if constexpr (op == Op::sqrt) return std::sqrt(x);
  if constexpr (op == Op::exp) return std::exp(x);
  if constexpr (op == Op::log) return std::log(x);
  if constexpr (op == Op::log1p) return std::log1p(x);
  if constexpr (op == Op::tanh) return std::tanh(x);
  if constexpr (op == Op::sigmoid) return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
  if constexpr (op == Op::relu) return x > 0 || std::isnan(x) ? x : Real(0);
  if constexpr (op == Op::sin) return std::sin(x);
  if constexpr (op == Op::cos) return std::cos(x);
  if constexpr (op == Op::where) return x != 0 ? y : z;
}

// Calls `f.template operator()<op>()` for a scalar operation known at run time: the dispatch happens once,
// outside the loop. A switch without default, so that a new operation does not compile until it is listed
// here.
template <class F>
decltype(auto) dispatch(Op op, F&& f) {
  switch (op) {
    case Op::add:
      return f.template operator()<Op::add>();
    case Op::subtract:
      return f.template operator()<Op::subtract>();
    case Op::multiply:
      return f.template operator()<Op::multiply>();
    case Op::divide:
      return f.template operator()<Op::divide>();
    case Op::floor_divide:
      return f.template operator()<Op::floor_divide>();
    case Op::modulo:
      return f.template operator()<Op::modulo>();
    case Op::negate:
      return f.template operator()<Op::negate>();
    case Op::power:
      return f.template operator()<Op::power>();
    case Op::less:
      return f.template operator()<Op::less>();
    case Op::less_equal:
      return f.template operator()<Op::less_equal>();
    case Op::greater:
      return f.template operator()<Op::greater>();
    case Op::greater_equal:
      return f.template operator()<Op::greater_equal>();
    case Op::equal:
      return f.template operator()<Op::equal>();
    case Op::not_equal:
      return f.template operator()<Op::not_equal>();
    case Op::logical_and:
      return f.template operator()<Op::logical_and>();
    case Op::logical_or:
      return f.template operator()<Op::logical_or>();
    case Op::logical_not:
      return f.template operator()<Op::logical_not>();
    case Op::abs:
      return f.template operator()<Op::abs>();
    case Op::sign:
      return f.template operator()<Op::sign>();
    case Op::min:
      return f.template operator()<Op::min>();
    case Op::max:
      return f.template operator()<Op::max>();
    case Op::clamp:
      return f.template operator()<Op::clamp>();
    case Op::floor:
      return f.template operator()<Op::floor>();
    case Op::sqrt:
      return f.template operator()<Op::sqrt>();
    case Op::exp:
      return f.template operator()<Op::exp>();
    case Op::log:
      return f.template operator()<Op::log>();
    case Op::log1p:
      return f.template operator()<Op::log1p>();
    case Op::tanh:
      return f.template operator()<Op::tanh>();
    case Op::sigmoid:
      return f.template operator()<Op::sigmoid>();
    case Op::relu:
      return f.template operator()<Op::relu>();
    case Op::sin:
      return f.template operator()<Op::sin>();
    case Op::cos:
      return f.template operator()<Op::cos>();
    case Op::where:
      return f.template operator()<Op::where>();
    case Op::number:
    case Op::variable:
    case Op::stream:
    case Op::read:
    case Op::softmax:
    case Op::l1:
    case Op::softpick:
      break;
  }
  throw std::logic_error("dispatch: not a scalar operation");
}

// The value of a scalar operation chosen at run time. For one value at a time; loops should `dispatch`
// outside.
inline double evaluate(Op op, double x, double y = 0, double z = 0) {
  return dispatch(op, [&]<Op chosen>() { return static_cast<double>(apply<chosen>(x, y, z)); });
}

}  // namespace saccade
