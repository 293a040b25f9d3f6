#include "saccade/formula/parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// An expression with every operator in parentheses.
std::string explicit_text(const Expression& expression) {
  if (expression.kind != Expression::Kind::call || !expression.op) {
    std::string result = expression.name;
    if (expression.kind == Expression::Kind::number) return print(expression);
    if (expression.kind == Expression::Kind::name) return result;
    const bool call = expression.kind == Expression::Kind::call;
    result += call ? "(" : "[";
    for (const ExpressionPtr& argument : expression.arguments)
      result += (result.back() == '(' || result.back() == '[' ? "" : ", ") + explicit_text(*argument);
    return result + (call ? ")" : "]");
  }
  if (expression.arguments.size() == 1)
    return "(" + expression.name + " " + explicit_text(*expression.arguments[0]) + ")";
  return "(" + explicit_text(*expression.arguments[0]) + " " + expression.name + " " +
         explicit_text(*expression.arguments[1]) + ")";
}

std::string grouping(std::string_view text) {
  Diagnostics diagnostics;
  const ExpressionPtr expression = parse_expression(text, diagnostics);
  return expression && !diagnostics.any() ? explicit_text(*expression) : diagnostics.take()[0].message;
}

std::vector<std::string> syntax_errors(std::string_view text) {
  Diagnostics diagnostics;
  parse_syntax(text, diagnostics);
  std::vector<std::string> result;
  for (const Diagnostic& diagnostic : diagnostics.take()) result.push_back(diagnostic.message);
  return result;
}

Syntax parsed(std::string_view text) {
  Diagnostics diagnostics;
  Syntax result = parse_syntax(text, diagnostics);
  EXPECT_FALSE(diagnostics.any()) << text << "\n" << FormulaError(diagnostics.take(), "test", text).what();
  return result;
}

std::string repeated(std::string_view piece, int times) {
  std::string result;
  for (int count = 0; count < times; ++count) result += piece;
  return result;
}

TEST(Parser, BindsFromOrToPower) {
  EXPECT_EQ(grouping("a or b and not c < d + e * -f ^ g"),
            "(a or (b and (not (c < (d + (e * (- (f ^ g))))))))");
  EXPECT_EQ(grouping("f ^ g * e + d > c and b or a"), "((((((f ^ g) * e) + d) > c) and b) or a)");
}

TEST(Parser, AssociatesToTheLeft) {
  EXPECT_EQ(grouping("a - b + c - d"), "(((a - b) + c) - d)");
  EXPECT_EQ(grouping("a / b * c // d % e"), "((((a / b) * c) // d) % e)");
  EXPECT_EQ(grouping("a or b or c"), "((a or b) or c)");
  EXPECT_EQ(grouping("a and b and c"), "((a and b) and c)");
}

TEST(Parser, AssociatesPowerToTheRight) { EXPECT_EQ(grouping("a ^ b ^ c"), "(a ^ (b ^ c))"); }

TEST(Parser, BindsMinusLooserThanPowerButAllowsItInTheExponent) {
  EXPECT_EQ(grouping("-x^2"), "(- (x ^ 2))");
  EXPECT_EQ(grouping("2^-d"), "(2 ^ (- d))");
  EXPECT_EQ(grouping("2 ^ -d ^ 2"), "(2 ^ (- (d ^ 2)))");
  EXPECT_EQ(grouping("(-x)^2"), "((- x) ^ 2)");
  EXPECT_EQ(grouping("a - -b"), "(a - (- b))");
  EXPECT_EQ(grouping("--a"), "(- (- a))");
  EXPECT_EQ(grouping("-a * b"), "((- a) * b)");
}

TEST(Parser, ReadsChainsAsConjunctions) {
  EXPECT_EQ(grouping("0 <= d < w"), "((0 <= d) and (d < w))");
  EXPECT_EQ(grouping("a < b == c > e"), "(((a < b) and (b == c)) and (c > e))");
  EXPECT_EQ(grouping("a < b and c < d"), "((a < b) and (c < d))");
  EXPECT_EQ(grouping("(a < b) < c"), "((a < b) < c)");
  EXPECT_EQ(grouping("not a < b < c"), "(not ((a < b) and (b < c)))");
}

TEST(Parser, ReadsCallsAndSubscripts) {
  EXPECT_EQ(grouping("where(a, b[i, j - 1], f())"), "where(a, b[i, (j - 1)], f())");
  EXPECT_EQ(grouping("b[i] ^ 2"), "(b[i] ^ 2)");
}

TEST(Parser, OutputsNeedNoEqualsSign) {
  EXPECT_TRUE(same(parsed("mask causal\nscore -d\nweights softmax(s)\nscale (1)"),
                   parsed("mask = causal; score = -d; weights = softmax(s); scale = (1)")));
}

TEST(Parser, ReadsEveryKindOfStatement) {
  const Syntax syntax = parsed(
      "const w = 128\n"
      "param a[head, 32] = h / H in [0, 4]\n"
      "input doc[batch, token]: int; input keep[head, *, *]: bool; input b[rel]; input r[key]: real\n"
      "vector q2 = linear(relu(q))\n"
      "token F = cumsum(project(x))\n"
      "stream t = q2 . k\n"
      "y = t + 1\n");
  using Kind = Statement::Kind;
  const std::vector<Kind> kinds = {Kind::constant, Kind::param,  Kind::input, Kind::input,  Kind::input,
                                   Kind::input,    Kind::vector, Kind::token, Kind::stream, Kind::let};
  ASSERT_EQ(syntax.statements.size(), kinds.size());
  for (size_t index = 0; index < kinds.size(); ++index)
    EXPECT_EQ(syntax.statements[index].kind, kinds[index]);
  const Statement& param = syntax.statements[1];
  EXPECT_EQ(param.name, "a");
  EXPECT_THAT(param.dimensions,
              ElementsAre(Dimension{Dimension::Kind::head}, Dimension{Dimension::Kind::fixed, 32}));
  EXPECT_EQ(print(*param.high), "4");
  EXPECT_EQ(syntax.statements[2].type, Type::integer);
  EXPECT_EQ(syntax.statements[3].type, Type::boolean);
  EXPECT_EQ(syntax.statements[4].type, Type::real);
  EXPECT_EQ(syntax.statements[8].left, "q2");
  EXPECT_EQ(syntax.statements[8].right, "k");
}

TEST(Parser, AKeywordIsOneOnlyBeforeAName) {
  const Syntax syntax = parsed("param = 3\ntoken token = project(x)\nscore = s * param + token[i]");
  EXPECT_EQ(syntax.statements[0].kind, Statement::Kind::let);
  EXPECT_EQ(syntax.statements[1].kind, Statement::Kind::token);
  EXPECT_EQ(syntax.statements[1].name, "token");
}

TEST(Parser, SpansCoverWhatTheyName) {
  const std::string text = "  score = s - abs(d) ^ 2 # why\n";
  const Syntax syntax = parsed(text);
  const auto cut = [&](Span span) { return text.substr(span.begin, span.end - span.begin); };
  const Statement& statement = syntax.statements[0];
  EXPECT_EQ(cut(statement.span), "score = s - abs(d) ^ 2");
  EXPECT_EQ(cut(statement.name_span), "score");
  EXPECT_EQ(cut(statement.value->span), "s - abs(d) ^ 2");
  EXPECT_EQ(cut(statement.value->arguments[1]->span), "abs(d) ^ 2");
}

TEST(Parser, TellsHowToWriteWhatOtherLanguagesWrite) {
  EXPECT_THAT(syntax_errors("mask = a && b"), ElementsAre("write 'and' instead of '&&'"));
  EXPECT_THAT(syntax_errors("mask = a | b"), ElementsAre("write 'or' instead of '|'"));
  EXPECT_THAT(syntax_errors("mask = !a"), ElementsAre("write 'not' instead of '!'"));
  EXPECT_THAT(syntax_errors("score = d ** 2"), ElementsAre("write '^' instead of '**'"));
  EXPECT_THAT(syntax_errors("score = +d"), ElementsAre("a leading '+' is not needed"));
  EXPECT_THAT(syntax_errors("mask = d = 3"), ElementsAre("'=' defines; to compare two numbers write '=='"));
}

TEST(Parser, SaysWhatItExpected) {
  EXPECT_THAT(syntax_errors("score ="),
              ElementsAre("expected a number, a name or '(', found the end of the line"));
  EXPECT_THAT(syntax_errors("score = (s"),
              ElementsAre("expected ')' to close the parenthesis, found the end of the line"));
  EXPECT_THAT(syntax_errors("score = abs(s"),
              ElementsAre("expected ')' to close the call of 'abs', found the end of the line"));
  EXPECT_THAT(syntax_errors("score = b[i"),
              ElementsAre("expected ']' to close the subscript of 'b', found the end of the line"));
  EXPECT_THAT(syntax_errors("score = b[]"), ElementsAre("expected a number, a name or '(', found ']'"));
  EXPECT_THAT(syntax_errors("score = s s"),
              ElementsAre("expected an operator or the end of the line, found 's'"));
  EXPECT_THAT(syntax_errors("score = s + and"), ElementsAre("expected a number, a name or '(', found 'and'"));
  EXPECT_THAT(syntax_errors("score = s + not"), ElementsAre("expected a number, a name or '(', found 'not'"));
  EXPECT_THAT(syntax_errors("3 = s"), ElementsAre("expected a statement such as 'score = s', found '3'"));
  EXPECT_THAT(syntax_errors("alpha 3"), ElementsAre("expected '=' after 'alpha', found '3'"));
  EXPECT_THAT(syntax_errors("parm alpha = 3"),
              ElementsAre("unknown statement 'parm'; did you mean 'param'?"));
  EXPECT_THAT(
      syntax_errors("param a"),
      ElementsAre(
          "expected '=' and a start value, such as 'param alpha[head] = 1', found the end of the line"));
  EXPECT_THAT(syntax_errors("param a = 1 in 3"), ElementsAre("expected '[' after 'in', found '3'"));
  EXPECT_THAT(syntax_errors("param a = 1 in [0 1]"),
              ElementsAre("expected ',' between the bounds, found '1'"));
  EXPECT_THAT(syntax_errors("param a = 1 in [0, 1"),
              ElementsAre("expected ']' after the bounds, found the end of the line"));
  EXPECT_THAT(syntax_errors("input doc: int"),
              ElementsAre(HasSubstr("expected '[' and the input's dimensions")));
  EXPECT_THAT(syntax_errors("input doc[token]: flag"),
              ElementsAre("unknown type 'flag'; expected 'int', 'bool' or 'real'"));
  EXPECT_THAT(syntax_errors("input doc[tokn]"),
              ElementsAre("unknown dimension 'tokn'; did you mean 'token'?"));
  EXPECT_THAT(
      syntax_errors("input doc[rows]"),
      ElementsAre(
          "unknown dimension 'rows'; expected batch, head, layer, token, query, key, rel, a number or *"));
  EXPECT_THAT(syntax_errors("input doc[1.5]"),
              ElementsAre("a dimension is a whole number from 1 to 65536, not 1.5"));
  EXPECT_THAT(syntax_errors("stream t = q + k"),
              ElementsAre("expected '.' between the two vectors, such as 'stream t = q2 . k', found '+'"));
  EXPECT_THAT(syntax_errors("stream t = 3 . k"), ElementsAre("expected a query vector, found '3'"));
  EXPECT_THAT(syntax_errors("w = softmax(s, sin = 0)"),
              ElementsAre("unknown keyword argument 'sin'; only softmax has one: sink = z"));
  EXPECT_THAT(syntax_errors("w = softmax(s, sink = 0, sink = 1)"), ElementsAre("sink is given twice"));
  EXPECT_THAT(syntax_errors("w = softmax(sink = 0, s)"), ElementsAre("sink = z comes last"));
  EXPECT_THAT(syntax_errors("w = b[sink = 0]"), ElementsAre(HasSubstr("unknown keyword argument 'sink'")));
}

TEST(Parser, KeepsTheWordsOfTheGrammarToItself) {
  EXPECT_THAT(
      syntax_errors("mask = causal\n  and d < 3"),
      ElementsAre("a statement cannot start with 'and'; to go on with the line above, put its expression "
                  "in parentheses"));
  EXPECT_THAT(syntax_errors("param in = 3"),
              ElementsAre("'in' is a word of the language and cannot be a name"));
}

TEST(Parser, GoesOnAtTheNextStatementAfterAnError) {
  EXPECT_THAT(
      syntax_errors("a = (\nb = 3\nc = )\nscore = s +"),
      ElementsAre(HasSubstr("expected a number"), HasSubstr("found ')'"), HasSubstr("expected a number")));
}

TEST(Parser, RemembersTheNamesOfBrokenStatements) {
  Diagnostics diagnostics;
  const Syntax syntax = parse_syntax("a = (\nparam b = \nscore = s", diagnostics);
  EXPECT_THAT(syntax.broken, ElementsAre("a", "b"));
  EXPECT_EQ(syntax.statements.size(), 1u);
}

TEST(ParserLimits, NestedBracketsAreBounded) {
  const auto nested = [](std::string_view open, std::string_view close, int depth) {
    return "score = " + repeated(open, depth) + "s" + repeated(close, depth);
  };
  EXPECT_THAT(syntax_errors(nested("(", ")", 99)), ElementsAre());
  for (int depth : {100, 1000, 20'000}) {
    EXPECT_THAT(syntax_errors(nested("(", ")", depth)),
                ElementsAre("an expression may be nested at most 100 deep"));
    EXPECT_THAT(syntax_errors(nested("abs(", ")", depth)),
                ElementsAre("an expression may be nested at most 100 deep"));
    EXPECT_THAT(syntax_errors(nested("b[", "]", depth)),
                ElementsAre("an expression may be nested at most 100 deep"));
    EXPECT_THAT(syntax_errors(nested("-", "", depth)),
                ElementsAre("an expression may be nested at most 100 deep"));
    EXPECT_THAT(syntax_errors(nested("not ", "", depth)),
                ElementsAre("an expression may be nested at most 100 deep"));
    EXPECT_THAT(syntax_errors(nested("2^", "", depth)),
                ElementsAre("an expression may be nested at most 100 deep"));
  }
}

TEST(ParserLimits, AStatementThatIsTooDeepDoesNotBurdenTheNext) {
  const std::string deep = "a = " + repeated("(", 200) + "s\n",
                    fine = repeated("(", 99) + "s" + repeated(")", 99);
  EXPECT_THAT(syntax_errors(repeated(deep, 5) + "score = " + fine),
              testing::Each("an expression may be nested at most 100 deep"));
  EXPECT_EQ(syntax_errors(repeated(deep, 5) + "score = " + fine).size(), 5u);
}

TEST(ParserLimits, LongChainsOfOperatorsAreBounded) {
  EXPECT_THAT(syntax_errors("score = s" + repeated(" + s", 199)), ElementsAre());
  EXPECT_THAT(syntax_errors("score = s" + repeated(" + s", 200)),
              ElementsAre("this expression is more than 200 operations deep; use a let for a part of it"));
  EXPECT_THAT(syntax_errors("score = s" + repeated("<s", 20'000)),
              ElementsAre(HasSubstr("more than 200 operations deep")));
}

// Each level of a chain stands in two comparisons, so that a tree of depth 50 would have 2^50 nodes.
TEST(ParserLimits, NestedChainsAreBounded) {
  const auto nested = [](int depth) {
    return "mask = " + repeated("0 < (", depth) + "d" + repeated(") < 2", depth);
  };
  EXPECT_THAT(syntax_errors(nested(8)), ElementsAre());
  EXPECT_THAT(syntax_errors(nested(60)),
              ElementsAre("this expression has more than 20000 parts, counting the inner "
                          "operands of chained comparisons twice; use a let for one of them"));
}

TEST(ParserLimits, TheSizeOfAllStatementsTogetherIsBounded) {
  std::string text;
  const std::string chain = repeated("0 < (", 11) + "d" + repeated(") < 2", 11);
  for (int count = 0; count < 100; ++count) text += "a" + std::to_string(count) + " = " + chain + "\n";
  EXPECT_THAT(syntax_errors(text), ElementsAre("the formula has more than 100000 parts"));
}

TEST(ParserLimits, StatementsAndArgumentsAreBounded) {
  EXPECT_THAT(syntax_errors(repeated("a = 1\n", 500)), ElementsAre());
  EXPECT_THAT(syntax_errors(repeated("a = 1\n", 501)),
              ElementsAre("a formula may have at most 500 statements"));
  EXPECT_THAT(syntax_errors("score = max(1" + repeated(", 1", 63) + ")"), ElementsAre());
  EXPECT_THAT(syntax_errors("score = max(1" + repeated(", 1", 64) + ")"), ElementsAre("too many arguments"));
  EXPECT_THAT(syntax_errors("input a[65536]"), ElementsAre());
  EXPECT_THAT(syntax_errors("input a[65537]"),
              ElementsAre("a dimension is a whole number from 1 to 65536, not 65537"));
  EXPECT_THAT(syntax_errors("input a[0]"),
              ElementsAre("a dimension is a whole number from 1 to 65536, not 0"));
}

TEST(Parser, ALoneExpressionMustBeAll) {
  EXPECT_EQ(grouping("x ^ y * log(x)"), "((x ^ y) * log(x))");
  EXPECT_EQ(grouping("x y"), "expected an operator or the end of the line, found 'y'");
  EXPECT_EQ(grouping(""), "expected a number, a name or '(', found the end of the line");
}

}  // namespace
}  // namespace saccade
