// Random formulas for property tests and the fuzzer. Trees are grown by type from declared names, so that
// what comes out is right by construction and reaches deep into the analyses; `random_tree` grows any shape
// at all.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "saccade/base/random.h"
#include "saccade/formula/syntax.h"

namespace saccade {

// Small builders of syntax trees.
inline ExpressionPtr make_number(double value, bool integer) {
  Expression result{.kind = Expression::Kind::number, .span = {}};
  result.number = value;
  result.integer = integer;
  return std::make_shared<Expression>(std::move(result));
}

inline ExpressionPtr make_name(std::string name) {
  Expression result{.kind = Expression::Kind::name, .span = {}};
  result.name = std::move(name);
  return std::make_shared<Expression>(std::move(result));
}

inline ExpressionPtr make_call(std::string name, std::vector<ExpressionPtr> arguments,
                               Expression::Kind kind = Expression::Kind::call) {
  Expression result{.kind = kind, .span = {}};
  result.name = std::move(name);
  result.arguments = std::move(arguments);
  return std::make_shared<Expression>(std::move(result));
}

inline ExpressionPtr make_operation(Op op, std::vector<ExpressionPtr> arguments) {
  Expression result{.kind = Expression::Kind::call, .span = {}};
  result.name = operation(op).name;
  if (operation(op).precedence > 0) result.op = op;
  result.arguments = std::move(arguments);
  return std::make_shared<Expression>(std::move(result));
}

template <class T, size_t N>
const T& pick(RandomStream& random, const std::array<T, N>& choices) {
  return choices[random.below(N)];
}

// A tree of any shape, without regard to types: every operation and call over numbers and names.
inline ExpressionPtr random_tree(RandomStream& random, int depth) {
  static constexpr std::array<std::string_view, 8> kNames = {"s",     "i",       "d",        "alpha",
                                                             "param", "q_Long1", "__x9y__z", "softmax"};
  if (depth <= 0 || random.below(8) == 0) {
    if (random.below(2)) return make_name(std::string(pick(random, kNames)));
    const bool integer = random.below(2);
    const double digits = static_cast<double>(random.below(1000));
    return make_number(integer ? digits : digits / 64 * (random.below(4) ? 1 : 1e-9), integer);
  }
  const auto several = [&](uint64_t count) {
    std::vector<ExpressionPtr> result;
    for (uint64_t index = 0; index < count; ++index) result.push_back(random_tree(random, depth - 1));
    return result;
  };
  switch (random.below(6)) {
    case 0: {
      auto call = std::make_shared<Expression>(
          *make_call(std::string(pick(random, kNames)), several(random.below(4))));
      if (random.below(4) == 0) call->sink = random_tree(random, depth - 1);
      return call;
    }
    case 1:
      return make_call(std::string(pick(random, kNames)), several(1 + random.below(3)),
                       Expression::Kind::subscript);
    default: {
      const Operation& row = operations()[random.below(operations().size())];
      return make_operation(row.op, several(static_cast<uint64_t>(row.arity)));
    }
  }
}

class RandomFormula {
 public:
  struct Options {
    int depth = 4;                 // of expressions
    bool declarations = true;      // params, inputs, tokens, vectors and streams of random shapes
    bool length = true;            // may read n
    bool positions_input = false;  // declares `input pos[token]: int`
    bool smooth = false;           // real expressions without steps, kinks and poles
  };

  RandomFormula(RandomStream& random, const Options& options) : random_(random), options_(options) {}

  // A whole file that checks without errors.
  Syntax formula() {
    if (options_.positions_input) add_input("pos", {{Dimension::Kind::token}}, Type::integer);
    if (options_.declarations) declare();
    for (uint64_t count = random_.below(4); count > 0; --count) let();
    if (random_.below(6)) define("mask", boolean(options_.depth));
    with_streams([&] {
      for (uint64_t count = random_.below(3); count > 0; --count) let();
      if (random_.below(4)) define("score", real(options_.depth));
      scored_ = true;
      if (random_.below(3) == 0) define("weights", weights(3));
    });
    if (random_.below(6) == 0)
      define("scale", make_operation(Op::divide, {make_number(1, true), literal(random_.below(2))}));
    for (size_t last = statements_.size(); last > 1; --last)
      std::swap(statements_[last - 1], statements_[random_.below(last)]);
    return {.statements = statements_, .broken = {}};
  }

  // Expressions over the names declared so far. Only what is asked for `with_streams` reads a stream.
  ExpressionPtr boolean(int depth) {
    if (depth <= 0) return boolean_leaf();
    switch (random_.below(8)) {
      case 0:
        return boolean_leaf();
      case 1:
        return make_operation(Op::logical_not, {boolean(depth - 1)});
      case 2:
        return make_operation(Op::logical_or, {boolean(depth - 1), boolean(depth - 1)});
      case 3:
        return make_operation(Op::logical_and, {boolean(depth - 1), boolean(depth - 1)});
      case 4:
        return choice(boolean(depth - 1), boolean(depth - 1), depth);
      default:
        return comparison(depth);
    }
  }

  ExpressionPtr integer(int depth) {
    if (depth <= 0) return integer_leaf();
    static constexpr std::array<Op, 7> kBinary = {Op::add,    Op::subtract, Op::multiply, Op::floor_divide,
                                                  Op::modulo, Op::min,      Op::max};
    static constexpr std::array<Op, 4> kUnary = {Op::negate, Op::abs, Op::sign, Op::relu};
    switch (random_.below(8)) {
      case 0:
        return integer_leaf();
      case 1:
        return make_operation(pick(random_, kUnary), {integer(depth - 1)});
      case 2:
        return make_operation(Op::floor, {real(depth - 1)});
      case 3:
        return make_operation(Op::clamp, {integer(depth - 1), integer(depth - 1), integer(depth - 1)});
      case 4:
        return choice(integer(depth - 1), integer(depth - 1), depth);
      default:
        return make_operation(pick(random_, kBinary), {integer(depth - 1), integer(depth - 1)});
    }
  }

  ExpressionPtr real(int depth) {
    if (depth <= 0) return real_leaf();
    if (options_.smooth) return smooth(depth);
    static constexpr std::array<Op, 8> kBinary = {Op::add,    Op::subtract, Op::multiply, Op::divide,
                                                  Op::modulo, Op::power,    Op::min,      Op::max};
    static constexpr std::array<Op, 13> kUnary = {Op::negate, Op::abs,   Op::sign,    Op::sqrt, Op::exp,
                                                  Op::log,    Op::tanh,  Op::sigmoid, Op::relu, Op::sin,
                                                  Op::cos,    Op::log1p, Op::negate};
    switch (random_.below(8)) {
      case 0:
        return real_leaf();
      case 1:
        return integer(depth - 1);
      case 2:
        return choice(real(depth - 1), real(depth - 1), depth);
      case 3:
        return make_operation(Op::clamp, {real(depth - 1), real(depth - 1), real(depth - 1)});
      case 4:
      case 5:
        return make_operation(pick(random_, kUnary), {real(depth - 1)});
      default:
        return make_operation(pick(random_, kBinary), {real(depth - 1), real(depth - 1)});
    }
  }

  // A sum of terms with norms.
  ExpressionPtr weights(int depth) {
    if (depth <= 0) return norm();
    static constexpr std::array<Op, 2> kSums = {Op::add, Op::subtract};
    switch (random_.below(7)) {
      case 0:
        return make_operation(Op::negate, {weights(depth - 1)});
      case 1:
        return make_operation(Op::multiply, {real(depth), weights(depth - 1)});
      case 2:
        return make_operation(Op::divide, {weights(depth - 1), literal(false)});
      case 3:
        return choice(weights(depth - 1), norm(), depth);
      case 4:
        return make_operation(pick(random_, kSums), {weights(depth - 1), real(depth)});
      default:
        return make_operation(pick(random_, kSums), {weights(depth - 1), weights(depth - 1)});
    }
  }

  template <class F>
  void with_streams(F f) {
    const bool outer = std::exchange(streams_allowed_, true);
    f();
    streams_allowed_ = outer;
  }

 private:
  struct Named {
    std::string name;
    Type type;
    std::vector<Dimension> dimensions;
    bool stream = false;  // reads a stream
  };

  std::string fresh(std::string_view stem) { return std::string(stem) + std::to_string(serial_++); }

  Statement& add(Statement::Kind kind, std::string name) {
    Statement statement{.kind = kind, .span = {}, .name_span = {}};
    statement.name = std::move(name);
    statements_.push_back(std::move(statement));
    return statements_.back();
  }

  void define(std::string_view name, ExpressionPtr value) {
    add(Statement::Kind::let, std::string(name)).value = std::move(value);
  }

  void add_input(const std::string& name, std::vector<Dimension> dimensions, Type type) {
    Statement& statement = add(Statement::Kind::input, name);
    statement.dimensions = dimensions;
    statement.type = type;
    names_.push_back({name, type, std::move(dimensions)});
  }

  void declare() {
    using Kind = Dimension::Kind;
    for (uint64_t count = random_.below(3); count > 0; --count) {
      const bool whole = random_.below(2);
      const std::string name = fresh("c");
      add(Statement::Kind::constant, name).value = literal(whole);
      names_.push_back({name, whole ? Type::integer : Type::real, {}});
    }
    for (uint64_t count = random_.below(3); count > 0; --count) {
      static const std::array<std::vector<Dimension>, 5> kShapes = {{{},
                                                                     {{Kind::head}},
                                                                     {{Kind::head}, {Kind::fixed, 5}},
                                                                     {{Kind::fixed, 3}, {Kind::fixed, 4}},
                                                                     {{Kind::layer}, {Kind::fixed, 1}}}};
      const std::string name = fresh("p");
      Statement& statement = add(Statement::Kind::param, name);
      statement.dimensions = pick(random_, kShapes);
      statement.value = make_number(1, true);
      if (random_.below(2)) {
        statement.low = make_number(static_cast<double>(random_.below(10)) / 10, false);
        statement.high = make_number(1 + random_.uniform() * 4, false);
      }
      names_.push_back({name, Type::real, statement.dimensions});
    }
    for (uint64_t count = random_.below(4); count > 0; --count) {
      static const std::array<std::vector<Dimension>, 9> kShapes = {
          {{{Kind::token}},
           {{Kind::batch}, {Kind::token}},
           {{Kind::head}, {Kind::rel}},
           {{Kind::batch}},
           {{Kind::query}, {Kind::key}},
           {{Kind::any}, {Kind::any}},
           {{Kind::head}, {Kind::token}, {Kind::fixed, 4}},
           {{Kind::fixed, 2}, {Kind::any}, {Kind::rel}},
           {{Kind::key}}}};
      static constexpr std::array<Type, 3> kTypes = {Type::boolean, Type::integer, Type::real};
      add_input(fresh("t"), pick(random_, kShapes), pick(random_, kTypes));
    }
    if (random_.below(4) == 0) {
      const std::string name = fresh("F");
      add(Statement::Kind::token, name).value = make_call("project", {make_name("x")});
      names_.push_back({name, Type::real, {{Kind::head}, {Kind::token}}});
    }
    if (random_.below(3) == 0) {
      const std::string vector = fresh("v"), stream = fresh("u");
      add(Statement::Kind::vector, vector).value = make_call("linear", {make_name("q")});
      Statement& statement = add(Statement::Kind::stream, stream);
      statement.left = vector;
      statement.right = "k";
      names_.push_back({stream, Type::real, {}, true});
    }
  }

  void let() {
    static constexpr std::array<Type, 3> kTypes = {Type::boolean, Type::integer, Type::real};
    const Type type = pick(random_, kTypes);
    const std::string name = fresh("a");
    const ExpressionPtr value = type == Type::boolean   ? boolean(options_.depth - 1)
                                : type == Type::integer ? integer(options_.depth - 1)
                                                        : real(options_.depth - 1);
    define(name, value);
    names_.push_back({name, type, {}, streams_allowed_});
  }

  ExpressionPtr literal(bool whole) {
    static constexpr std::array<double, 7> kWhole = {1, 2, 3, 5, 8, 16, 64};
    static constexpr std::array<double, 7> kReal = {0.5, 1.5, 0.1, 2.25, 0.75, 1e-3, 3.0};
    return make_number(whole ? pick(random_, kWhole) : pick(random_, kReal), whole);
  }

  // A declared name of this type, subscripted as it needs; null when there is none.
  ExpressionPtr named(Type type) {
    std::vector<const Named*> fitting;
    for (const Named& candidate : names_)
      if (candidate.type == type && (streams_allowed_ || !candidate.stream)) fitting.push_back(&candidate);
    if (fitting.empty()) return nullptr;
    const Named chosen = *fitting[random_.below(fitting.size())];
    std::vector<ExpressionPtr> subscripts;
    for (const Dimension& dimension : chosen.dimensions) {
      using Kind = Dimension::Kind;
      if (dimension.kind == Kind::batch || dimension.kind == Kind::head || dimension.kind == Kind::layer)
        continue;
      if (dimension.kind == Kind::query)
        subscripts.push_back(make_name("i"));
      else if (dimension.kind == Kind::key)
        subscripts.push_back(make_name("j"));
      else if (nested_reads_ < 2) {
        ++nested_reads_;
        subscripts.push_back(integer(1));
        --nested_reads_;
      } else {
        subscripts.push_back(make_name("d"));
      }
    }
    if (subscripts.empty()) return make_name(chosen.name);
    return make_call(chosen.name, std::move(subscripts), Expression::Kind::subscript);
  }

  ExpressionPtr boolean_leaf() {
    if (random_.below(2))
      if (ExpressionPtr found = named(Type::boolean)) return found;
    static constexpr std::array<std::string_view, 3> kNames = {"causal", "causal", "full"};
    return make_name(std::string(pick(random_, kNames)));
  }

  ExpressionPtr integer_leaf() {
    if (random_.below(3) == 0)
      if (ExpressionPtr found = named(Type::integer)) return found;
    if (random_.below(3) == 0) return literal(true);
    static constexpr std::array<std::string_view, 8> kNames = {"i", "j", "d", "d", "d", "h", "H", "n"};
    return make_name(std::string(kNames[random_.below(options_.length ? 8 : 7)]));
  }

  ExpressionPtr real_leaf() {
    if (streams_allowed_ && random_.below(3) == 0) return make_name("s");
    if (random_.below(2))
      if (ExpressionPtr found = named(Type::real)) return found;
    return random_.below(2) ? literal(false) : integer_leaf();
  }

  ExpressionPtr smooth(int depth) {
    static constexpr std::array<Op, 3> kBinary = {Op::add, Op::subtract, Op::multiply};
    static constexpr std::array<Op, 5> kUnary = {Op::negate, Op::tanh, Op::sigmoid, Op::sin, Op::cos};
    const auto positive = [&] { return make_operation(Op::sigmoid, {real(depth - 1)}); };
    switch (random_.below(8)) {
      case 0:
        return real_leaf();
      case 1:
        return make_operation(pick(random_, kUnary), {real(depth - 1)});
      case 2:
        return make_operation(Op::divide, {real(depth - 1), positive()});
      case 3:
        return make_operation(Op::power, {positive(), make_operation(Op::tanh, {real(depth - 1)})});
      case 4: {
        static constexpr std::array<Op, 4> kOfPositive = {Op::sqrt, Op::log, Op::log1p, Op::exp};
        return make_operation(pick(random_, kOfPositive), {positive()});
      }
      case 5:
        return make_operation(Op::where, {boolean(1), real(depth - 1), real(depth - 1)});
      default:
        return make_operation(pick(random_, kBinary), {real(depth - 1), real(depth - 1)});
    }
  }

  ExpressionPtr comparison(int depth) {
    static constexpr std::array<Op, 6> kComparisons = {Op::less,          Op::less_equal, Op::greater,
                                                       Op::greater_equal, Op::equal,      Op::not_equal};
    const auto side = [&]() -> ExpressionPtr {
      if (random_.below(6) == 0) return make_number(0, true);
      return random_.below(4) ? integer(depth - 1) : real(depth - 1);
    };
    const ExpressionPtr left = side(), middle = side();
    ExpressionPtr first = make_operation(pick(random_, kComparisons), {left, middle});
    if (random_.below(4)) return first;
    const ExpressionPtr second = make_operation(pick(random_, kComparisons), {middle, side()});
    return make_operation(Op::logical_and, {first, second});
  }

  ExpressionPtr choice(ExpressionPtr yes, ExpressionPtr no, int depth) {
    return make_operation(Op::where, {boolean(depth - 1), std::move(yes), std::move(no)});
  }

  ExpressionPtr norm() {
    static constexpr std::array<std::string_view, 4> kNorms = {"softmax", "softmax", "l1", "softpick"};
    const std::string name(pick(random_, kNorms));
    // Norms are limited in number; equal ones count once.
    const ExpressionPtr argument = scored_ && random_.below(3) ? make_name("score") : real(1);
    auto result = std::make_shared<Expression>(*make_call(name, {argument}));
    if (name == "softmax" && random_.below(4) == 0) result->sink = literal(false);
    if (norms_.size() >= 4) return norms_[random_.below(norms_.size())];
    norms_.push_back(result);
    return result;
  }

  RandomStream& random_;
  Options options_;
  std::vector<Statement> statements_;
  std::vector<Named> names_;
  std::vector<ExpressionPtr> norms_;
  bool streams_allowed_ = false;
  bool scored_ = false;
  int nested_reads_ = 0;
  int serial_ = 0;
};

}  // namespace saccade
