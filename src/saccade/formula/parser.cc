// The parser. Precedence climbs from `or` to `^`; each level is one short function.
#include "saccade/formula/parser.h"

#include "saccade/base/text.h"
#include "saccade/formula/lexer.h"

namespace saccade {
namespace {

struct SyntaxFailure {};  // unwinds to the statement loop; the diagnostic is already recorded

bool is_word_of_grammar(std::string_view name) {
  return name == "and" || name == "or" || name == "not" || name == "in";
}

class Parser {
 public:
  Parser(std::string_view text, Diagnostics& diagnostics)
      : diagnostics_(diagnostics), tokens_(tokenize(text, diagnostics)) {}

  Syntax file() {
    Syntax syntax;
    while (current().kind != Token::Kind::end) {
      if (current().kind == Token::Kind::newline) {
        ++at_;
        continue;
      }
      if (syntax.statements.size() >= Limits::statements) {
        diagnostics_.report(current().span, "a formula may have at most {} statements", Limits::statements);
        break;
      }
      name_.clear();
      try {
        syntax.statements.push_back(statement());
      } catch (const SyntaxFailure&) {
        if (!name_.empty()) syntax.broken.insert(name_);
        skip_line();
      }
      if (total_size_ > Limits::total_size) {
        diagnostics_.report(previous().span, "the formula has more than {} parts", Limits::total_size);
        break;
      }
    }
    return syntax;
  }

  ExpressionPtr lone_expression() {
    try {
      ExpressionPtr result = expression();
      expect_end_of_line();
      return result;
    } catch (const SyntaxFailure&) {
      return nullptr;
    }
  }

 private:
  const Token& current() const { return tokens_[at_]; }
  const Token& previous() const { return tokens_[at_ - 1]; }
  const Token& ahead(size_t count) const { return tokens_[std::min(at_ + count, tokens_.size() - 1)]; }
  bool is(std::string_view text) const {
    return (current().kind == Token::Kind::symbol || current().kind == Token::Kind::name) &&
           current().text == text;
  }
  bool accept(std::string_view text) {
    if (!is(text)) return false;
    ++at_;
    return true;
  }

  std::string found() const {
    switch (current().kind) {
      case Token::Kind::end:
        return "the end of the file";
      case Token::Kind::newline:
        return "the end of the line";
      case Token::Kind::name:
      case Token::Kind::number:
      case Token::Kind::symbol:
        break;
    }
    return fmt::format("'{}'", current().text.substr(0, 40));
  }

  template <class... A>
  [[noreturn]] void give_up(Span span, fmt::format_string<A...> format, A&&... arguments) {
    diagnostics_.report(span, format, std::forward<A>(arguments)...);
    throw SyntaxFailure{};
  }

  void expect(std::string_view text, std::string_view where) {
    if (!accept(text)) give_up(current().span, "expected '{}' {}, found {}", text, where, found());
  }

  std::string expect_name(std::string_view what) {
    if (current().kind != Token::Kind::name) give_up(current().span, "expected {}, found {}", what, found());
    ++at_;
    return std::string(previous().text);
  }

  void expect_end_of_line() {
    if (current().kind == Token::Kind::newline || current().kind == Token::Kind::end) return;
    if (is("=")) give_up(current().span, "'=' defines; to compare two numbers write '=='");
    if (is("&&") || is("&")) give_up(current().span, "write 'and' instead of '{}'", current().text);
    if (is("||") || is("|")) give_up(current().span, "write 'or' instead of '{}'", current().text);
    if (is("**")) give_up(current().span, "write '^' instead of '**'");
    give_up(current().span, "expected an operator or the end of the line, found {}", found());
  }

  void skip_line() {
    while (current().kind != Token::Kind::newline && current().kind != Token::Kind::end) ++at_;
  }

  // --- statements
  // -------------------------------------------------------------------------------------------------------

  Statement statement() {
    static constexpr struct {
      std::string_view word;
      Statement::Kind kind;
    } kKeywords[] = {{"const", Statement::Kind::constant}, {"param", Statement::Kind::param},
                     {"input", Statement::Kind::input},    {"vector", Statement::Kind::vector},
                     {"token", Statement::Kind::token},    {"stream", Statement::Kind::stream}};
    Statement result{.kind = Statement::Kind::let, .span = current().span, .name_span = {}};
    if (current().kind != Token::Kind::name)
      give_up(current().span, "expected a statement such as 'score = s', found {}", found());
    for (const auto& keyword : kKeywords)
      if (is(keyword.word) && ahead(1).kind == Token::Kind::name) result.kind = keyword.kind;
    if (result.kind != Statement::Kind::let) ++at_;
    if (is_word_of_grammar(current().text)) {
      if (result.kind == Statement::Kind::let)
        give_up(current().span,
                "a statement cannot start with '{}'; to go on with the line above, put its expression in "
                "parentheses",
                current().text);
      give_up(current().span, "'{}' is a word of the language and cannot be a name", current().text);
    }
    result.name_span = current().span;
    result.name = name_ = expect_name("a name");
    switch (result.kind) {
      case Statement::Kind::constant:
        definition(result);
        break;
      case Statement::Kind::param:
        param(result);
        break;
      case Statement::Kind::input:
        input(result);
        break;
      case Statement::Kind::vector:
      case Statement::Kind::token:
        definition(result);
        break;
      case Statement::Kind::stream:
        stream(result);
        break;
      case Statement::Kind::let:
        let(result);
        break;
    }
    result.span.end = previous().span.end;
    expect_end_of_line();
    for (const ExpressionPtr& part : {result.value, result.low, result.high})
      if (part) total_size_ += part->size;
    return result;
  }

  void definition(Statement& result) {
    expect("=", fmt::format("after '{}'", result.name));
    result.value = expression();
  }

  void let(Statement& result) {
    // The four outputs may be written like clauses: `mask causal`, `score s - d`.
    const bool output =
        result.name == "mask" || result.name == "score" || result.name == "weights" || result.name == "scale";
    if (!is("=") && !output) {
      static constexpr std::string_view kWords[] = {"const",  "param", "input", "vector",  "token",
                                                    "stream", "mask",  "score", "weights", "scale"};
      const auto near = current().kind == Token::Kind::name ? nearest(result.name, kWords) : std::nullopt;
      if (near) give_up(result.name_span, "unknown statement '{}'; did you mean '{}'?", result.name, *near);
      give_up(current().span, "expected '=' after '{}', found {}", result.name, found());
    }
    accept("=");
    result.value = expression();
  }

  void param(Statement& result) {
    if (is("[")) dimensions(result);
    expect("=", "and a start value, such as 'param alpha[head] = 1'");
    result.value = expression();
    if (!accept("in")) return;
    expect("[", "after 'in'");
    result.low = expression();
    expect(",", "between the bounds");
    result.high = expression();
    expect("]", "after the bounds");
  }

  void input(Statement& result) {
    if (!is("["))
      give_up(current().span,
              "expected '[' and the input's dimensions, such as 'input doc[token]: int', found {}", found());
    dimensions(result);
    if (!accept(":")) return;
    const Span span = current().span;
    const std::string type = expect_name("'int', 'bool' or 'real'");
    if (type == "int")
      result.type = Type::integer;
    else if (type == "bool")
      result.type = Type::boolean;
    else if (type != "real")
      give_up(span, "unknown type '{}'; expected 'int', 'bool' or 'real'", type);
  }

  void dimensions(Statement& result) {
    expect("[", "before the dimensions");
    do {
      result.dimensions.push_back(dimension());
    } while (accept(","));
    expect("]", "after the dimensions");
  }

  Dimension dimension() {
    using Kind = Dimension::Kind;
    static constexpr std::string_view kNames[] = {"batch", "head", "layer", "token", "query", "key", "rel"};
    static constexpr Kind kKinds[] = {Kind::batch, Kind::head, Kind::layer, Kind::token,
                                      Kind::query, Kind::key,  Kind::rel};
    if (accept("*")) return {Kind::any};
    const Token& token = current();
    if (token.kind == Token::Kind::number) {
      ++at_;
      if (!token.integer || token.number < 1 || token.number > Limits::fixed_dimension)
        give_up(token.span, "a dimension is a whole number from 1 to {}, not {}", Limits::fixed_dimension,
                token.text.substr(0, 40));
      return {Kind::fixed, static_cast<int64_t>(token.number)};
    }
    const std::string name =
        expect_name("a dimension (batch, head, layer, token, query, key, rel, a number or *)");
    for (size_t index = 0; index < std::size(kNames); ++index)
      if (name == kNames[index]) return {kKinds[index]};
    const auto near = nearest(name, kNames);
    give_up(token.span, "unknown dimension '{}'; {}", name,
            near ? fmt::format("did you mean '{}'?", *near)
                 : "expected batch, head, layer, token, query, key, rel, a number or *");
  }

  void stream(Statement& result) {
    expect("=", fmt::format("after '{}'", result.name));
    result.left_span = current().span;
    result.left = expect_name("a query vector");
    expect(".", "between the two vectors, such as 'stream t = q2 . k'");
    result.right_span = current().span;
    result.right = expect_name("a key vector");
  }

  // --- expressions
  // ------------------------------------------------------------------------------------------------------

  struct Deeper {
    explicit Deeper(Parser& p) : parser(p) {
      if (++parser.depth_ > Limits::expression_depth) {
        --parser.depth_;  // the destructor does not run when the constructor throws
        parser.give_up(parser.current().span, "an expression may be nested at most {} deep",
                       Limits::expression_depth);
      }
    }
    ~Deeper() { --parser.depth_; }
    Parser& parser;
  };

  // Chains such as a + b + c grow the tree without recursion here; later passes recurse over it, so its depth
  // is bounded too. So is its size, because a chained comparison shares its inner operands: nested chains are
  // short to write and endless to walk.
  ExpressionPtr finish(Expression expression) {
    const auto contain = [&](const Expression& part) {
      expression.depth = std::max(expression.depth, part.depth + 1);
      expression.size += part.size;
    };
    for (const ExpressionPtr& argument : expression.arguments) contain(*argument);
    if (expression.sink) contain(*expression.sink);
    if (expression.size > Limits::tree_size)
      give_up(expression.span,
              "this expression has more than {} parts, counting the inner operands of chained comparisons "
              "twice; use a let for one of them",
              Limits::tree_size);
    if (expression.depth > Limits::tree_depth)
      give_up(expression.span, "this expression is more than {} operations deep; use a let for a part of it",
              Limits::tree_depth);
    return std::make_shared<Expression>(std::move(expression));
  }

  ExpressionPtr operator_call(Op op, std::vector<ExpressionPtr> arguments, Span span) {
    Expression result{.kind = Expression::Kind::call, .span = span};
    result.op = op;
    result.name = operation(op).name;
    result.arguments = std::move(arguments);
    return finish(std::move(result));
  }

  ExpressionPtr binary(Op op, ExpressionPtr left, ExpressionPtr right) {
    const Span span{left->span.begin, right->span.end};
    return operator_call(op, {std::move(left), std::move(right)}, span);
  }

  struct Symbol {
    std::string_view text;
    Op op;
  };

  template <size_t N>
  const Symbol* match(const Symbol (&symbols)[N]) const {
    for (const Symbol& symbol : symbols)
      if (is(symbol.text)) return &symbol;
    return nullptr;
  }

  // One level of left-associative operators.
  template <size_t N, class Next>
  ExpressionPtr left_associative(const Symbol (&symbols)[N], Next next) {
    ExpressionPtr left = next();
    while (const Symbol* symbol = match(symbols)) {
      ++at_;
      left = binary(symbol->op, left, next());
    }
    return left;
  }

  ExpressionPtr expression() {
    Deeper deeper(*this);
    static constexpr Symbol kOr[] = {{"or", Op::logical_or}};
    return left_associative(kOr, [this] { return conjunction(); });
  }

  ExpressionPtr conjunction() {
    static constexpr Symbol kAnd[] = {{"and", Op::logical_and}};
    return left_associative(kAnd, [this] { return negation(); });
  }

  ExpressionPtr negation() {
    if (!is("not")) return comparison();
    Deeper deeper(*this);
    const size_t begin = current().span.begin;
    ++at_;
    ExpressionPtr operand = negation();
    return operator_call(Op::logical_not, {operand}, {begin, operand->span.end});
  }

  ExpressionPtr comparison() {
    static constexpr Symbol kSymbols[] = {{"<", Op::less},    {"<=", Op::less_equal},
                                          {">", Op::greater}, {">=", Op::greater_equal},
                                          {"==", Op::equal},  {"!=", Op::not_equal}};
    ExpressionPtr left = sum();
    ExpressionPtr result;
    while (const Symbol* symbol = match(kSymbols)) {
      ++at_;
      ExpressionPtr right = sum();
      ExpressionPtr comparison = binary(symbol->op, left, right);
      // A chain a < b < c means a < b and b < c.
      result = result ? binary(Op::logical_and, result, comparison) : comparison;
      left = right;
    }
    return result ? result : left;
  }

  ExpressionPtr sum() {
    static constexpr Symbol kSymbols[] = {{"+", Op::add}, {"-", Op::subtract}};
    return left_associative(kSymbols, [this] { return product(); });
  }

  ExpressionPtr product() {
    static constexpr Symbol kSymbols[] = {
        {"*", Op::multiply}, {"/", Op::divide}, {"//", Op::floor_divide}, {"%", Op::modulo}};
    return left_associative(kSymbols, [this] { return unary(); });
  }

  ExpressionPtr unary() {
    if (is("+")) give_up(current().span, "a leading '+' is not needed");
    if (is("!")) give_up(current().span, "write 'not' instead of '!'");
    if (!is("-")) return power();
    Deeper deeper(*this);
    const size_t begin = current().span.begin;
    ++at_;
    ExpressionPtr operand = unary();
    return operator_call(Op::negate, {operand}, {begin, operand->span.end});
  }

  ExpressionPtr power() {
    ExpressionPtr base = primary();
    if (!accept("^")) return base;
    Deeper deeper(*this);
    return binary(Op::power, base, unary());  // right-associative; 2 ^ -d needs no parentheses
  }

  ExpressionPtr primary() {
    const Token& token = current();
    if (token.kind == Token::Kind::number) {
      ++at_;
      Expression result{.kind = Expression::Kind::number, .span = token.span};
      result.number = token.number;
      result.integer = token.integer;
      return std::make_shared<Expression>(result);
    }
    if (accept("(")) {
      ExpressionPtr inner = expression();
      expect(")", "to close the parenthesis");
      return inner;
    }
    if (token.kind != Token::Kind::name || is_word_of_grammar(token.text))
      give_up(token.span, "expected a number, a name or '(', found {}", found());
    ++at_;
    Expression result{.kind = Expression::Kind::name, .span = token.span};
    result.name = token.text;
    if (accept("(")) {
      result.kind = Expression::Kind::call;
      if (!is(")")) arguments(result, ")");
      expect(")", fmt::format("to close the call of '{}'", result.name));
    } else if (accept("[")) {
      result.kind = Expression::Kind::subscript;
      arguments(result, "]");
      expect("]", fmt::format("to close the subscript of '{}'", result.name));
    }
    result.span.end = previous().span.end;
    return finish(std::move(result));
  }

  void arguments(Expression& call, std::string_view closing) {
    do {
      if (current().kind == Token::Kind::name && ahead(1).kind == Token::Kind::symbol &&
          ahead(1).text == "=") {
        const Span span = current().span;
        const std::string name = expect_name("a name");
        ++at_;
        if (closing != ")" || name != "sink")
          give_up(span, "unknown keyword argument '{}'; only softmax has one: sink = z", name);
        if (call.sink) give_up(span, "sink is given twice");
        call.sink = expression();
        continue;
      }
      if (call.sink) give_up(current().span, "sink = z comes last");
      if (call.arguments.size() >= 64) give_up(current().span, "too many arguments");
      call.arguments.push_back(expression());
    } while (accept(","));
  }

  Diagnostics& diagnostics_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  int64_t total_size_ = 0;  // of the expressions so far
  std::string name_;        // what the current statement defines
};

}  // namespace

Syntax parse_syntax(std::string_view text, Diagnostics& diagnostics) {
  return Parser(text, diagnostics).file();
}

ExpressionPtr parse_expression(std::string_view text, Diagnostics& diagnostics) {
  return Parser(text, diagnostics).lone_expression();
}

}  // namespace saccade
