// Names and types of expressions: what is refused, and in which words.
#include "saccade/formula/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "saccade/formula/check_testing.h"

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// --- how errors look ---

TEST(CheckErrors, ShowPlaceLineAndCaret) {
  EXPECT_EQ(shown("param alpha[head] = 1\nmask = causal\n\nscore = s - aplha * d\n"),
            "my.attn:4:13: unknown name 'aplha'; did you mean 'alpha'?\n"
            "    score = s - aplha * d\n"
            "                ^^^^^");
}

TEST(CheckErrors, ComeAllAtOnceInTheOrderOfTheText) {
  EXPECT_EQ(
      shown("weights = softmax(s) ^ 2\n"
            "score = ths + 1\n"
            "mask = d\n"
            "const w = (\n"
            "y = abs(1, 2)\n"),
      "my.attn:1:11: a norm may be added, subtracted, scaled or chosen by where, not used as in 'softmax(s) "
      "^ 2'\n"
      "    weights = softmax(s) ^ 2\n"
      "              ^^^^^^^^^^^^^^\n"
      "my.attn:2:9: unknown name 'ths'\n"
      "    score = ths + 1\n"
      "            ^^^\n"
      "my.attn:3:8: mask needs a condition such as 'd >= 0', but 'd' is an integer\n"
      "    mask = d\n"
      "           ^\n"
      "my.attn:4:12: expected a number, a name or '(', found the end of the line\n"
      "    const w = (\n"
      "               ^\n"
      "my.attn:5:5: 'abs' takes 1 argument, not 2; for example 'abs(d)'\n"
      "    y = abs(1, 2)\n"
      "        ^^^^^^^^^");
}

TEST(CheckErrors, DoNotFollowFromOtherErrors) {
  EXPECT_THAT(errors("a = (\nscore = s + a"), ElementsAre(HasSubstr("expected a number")));
  EXPECT_THAT(errors("param a = \nvector v = a * q\nstream t = v . k\nscore = t"),
              ElementsAre(HasSubstr("expected a number")));
  EXPECT_THAT(errors("vector v = \nstream t = v . k\nscore = t"),
              ElementsAre(HasSubstr("expected a number")));
  EXPECT_THAT(errors("const w = (\nmask = d < w", {{"w", 3}}), ElementsAre(HasSubstr("expected a number")));
  EXPECT_THAT(errors("y = foo + 1\nscore = y * y + y"), ElementsAre("unknown name 'foo'"));
  EXPECT_THAT(errors("const w = foo\nvector v = w * q\nstream t = v . k\nscore = t"),
              ElementsAre("unknown name 'foo'"));
}

// --- names ---

TEST(CheckNames, SuggestsWhatWasMeant) {
  EXPECT_THAT(errors("mask = cusal"), ElementsAre("unknown name 'cusal'; did you mean 'causal'?"));
  EXPECT_THAT(errors("score = sofmax(s)"), ElementsAre("unknown function 'sofmax'; did you mean 'softmax'?"));
  EXPECT_THAT(errors("score = gelu(s)"), ElementsAre("unknown function 'gelu'; did you mean 'relu'?"));
  EXPECT_THAT(errors("score = erfinverse(s)"),
              ElementsAre(HasSubstr("unknown function 'erfinverse'; the functions are abs, ")));
  EXPECT_THAT(errors("score = s + zzz"), ElementsAre("unknown name 'zzz'"));
  EXPECT_THAT(errors("stream t = q . kk\nscore = t"), ElementsAre(HasSubstr("unknown vector 'kk'; ")));
  EXPECT_THAT(errors("vector quux = linear(q)\nstream t = quxx . k\nscore = t"),
              ElementsAre("unknown vector 'quxx'; did you mean 'quux'?"));
  EXPECT_THAT(errors("param alpha = 1\nvector v = aplha * q\nscore = s"),
              ElementsAre("unknown name 'aplha' in a vector; did you mean 'alpha'?"));
  EXPECT_THAT(errors("vector v = foo * q"),
              ElementsAre("unknown name 'foo' in a vector; it may use x, q, k, constants and params"));
  EXPECT_THAT(errors("vector v = linar(q)"),
              ElementsAre("unknown function 'linar' in a vector; did you mean 'linear'?"));
}

TEST(CheckNames, SaysWhatAMisusedNameIs) {
  EXPECT_THAT(errors("maxs = 3\nscore = s + max"), ElementsAre("'max' is a function; write max(...)"));
  EXPECT_THAT(errors("score = s + softmax"), ElementsAre("'softmax' is a function; write softmax(...)"));
  EXPECT_THAT(errors("score = s + q"),
              ElementsAre("'q' is a tensor of the layer; only vector, token and stream can use it"));
  EXPECT_THAT(errors("vector v = linear(q)\nscore = v"),
              ElementsAre("'v' is a vector; a stream makes a number of it: 'stream t = v . k'"));
  EXPECT_THAT(errors("score = project(x)"),
              testing::Contains("unknown function 'project'; it belongs to vector and token definitions"));
  for (const char* text : {"score = s[i]", "a = d\nscore = a[i]", "const a = 3\nscore = a[i]",
                           "vector a = linear(q)\nscore = a[i]", "stream a = q . k\nscore = a[i]"})
    EXPECT_THAT(errors(text), ElementsAre(HasSubstr("is not a table and cannot be subscripted"))) << text;
}

TEST(CheckNames, RefusesRedefinition) {
  EXPECT_THAT(errors("a = 1\na = 2"), ElementsAre("'a' is defined twice"));
  EXPECT_THAT(errors("param a = 1\nconst a = 2"), ElementsAre("'a' is defined twice"));
  EXPECT_THAT(errors("mask = causal\nmask causal"), ElementsAre("'mask' is defined twice"));
  EXPECT_THAT(errors("s = 3"), ElementsAre("'s' is built in and cannot be defined"));
  EXPECT_THAT(errors("causal = full"), ElementsAre("'causal' is built in and cannot be defined"));
  EXPECT_THAT(errors("n = 3"),
              ElementsAre("'n' is built in and cannot be defined; 'const n = 2048' pins it"));
  EXPECT_THAT(errors("abs = 3"), ElementsAre("'abs' is a function and cannot be defined"));
  EXPECT_THAT(errors("param l1 = 3"), ElementsAre("'l1' is a function and cannot be defined"));
  EXPECT_THAT(errors("param mask = 3"), ElementsAre("'mask' is an output; define it with 'mask = ...'"));
  EXPECT_THAT(errors("param q = 3"), ElementsAre("'q' already is one of the layer's own tensors"));
}

TEST(CheckNames, StatementsMayStandInAnyOrder) {
  EXPECT_EQ(score_of("score = b * 2\nb = c + s\nc = w\nconst w = v + 1\nconst v = 3"), "(4 + s) * 2");
}

TEST(CheckNames, RefusesCyclesOnceAndNamesThem) {
  EXPECT_EQ(shown("a = b + 1\nb = 2 * c\nc = a\nscore = s + a"),
            "my.attn:3:5: 'a' is defined by itself: a -> b -> c -> a\n"
            "    c = a\n"
            "        ^");
  EXPECT_THAT(errors("a = a"), ElementsAre("'a' is defined by itself: a -> a"));
  EXPECT_THAT(errors("const a = a + 1\nscore = s + a"), ElementsAre("'a' is defined by itself: a -> a"));
  EXPECT_THAT(errors("const n = n"), ElementsAre("'n' is defined by itself: n -> n"));
  EXPECT_THAT(errors("score = softmax(weights)\nweights = score"),
              testing::Contains(HasSubstr("is defined by itself")));
  EXPECT_THAT(errors("mask = mask and causal"), ElementsAre("'mask' is defined by itself: mask -> mask"));
}

TEST(CheckNames, OutputsHaveDefaultsThatMayBeRead) {
  const Plan plan = plan_of("score = where(mask, score0, 0)\nscore0 = s");
  EXPECT_EQ(plan.graph.print(plan.score, {}), "s") << "mask is full";
  EXPECT_EQ(plan.scale, kNoNode);
  EXPECT_EQ(plan_of("").graph.print(plan_of("").weights, {}), "softmax(s)");
  EXPECT_EQ(plan_of("weights = softmax(score)").graph.print(plan_of("weights = softmax(score)").weights, {}),
            "softmax(s)");
}

// --- types ---

TEST(CheckTypes, ABooleanIsNotANumber) {
  EXPECT_THAT(errors("score = s + causal"),
              ElementsAre("'+' needs a number here, but 'causal' is a condition"));
  EXPECT_THAT(errors("score = abs(d > 0)"),
              ElementsAre("'abs' needs a number here, but 'd > 0' is a condition"));
  EXPECT_THAT(errors("mask = causal and d"),
              ElementsAre("'and' needs a condition here, but 'd' is an integer"));
  EXPECT_THAT(errors("mask = not s"), ElementsAre("'not' needs a condition here, but 's' is a number"));
  EXPECT_THAT(errors("mask = causal == full"),
              ElementsAre("'==' needs a number here, but 'causal' is a condition",
                          "'==' needs a number here, but 'full' is a condition"));
  EXPECT_THAT(errors("mask = 0 < d > 0 > 1 < causal"),
              ElementsAre("'<' needs a number here, but 'causal' is a condition"));
  EXPECT_THAT(errors("score = where(d, 1, 2)"),
              ElementsAre("'where' needs a condition here, but 'd' is an integer"));
  EXPECT_THAT(
      errors("score = where(causal, 1, full)"),
      ElementsAre(
          "the two branches of where must be of one kind; '1' is an integer and 'full' is a condition"));
  EXPECT_THAT(errors("score = causal"), ElementsAre("score needs a number, but 'causal' is a condition"));
  EXPECT_THAT(errors("weights = causal"), ElementsAre("weights needs a number, but 'causal' is a condition"));
  EXPECT_THAT(errors("scale = full"), ElementsAre("scale needs a number, but 'full' is a condition"));
  EXPECT_THAT(errors("const a = causal"), ElementsAre("expected a number, but 'causal' is a condition"));
  EXPECT_THAT(errors("input b[token]: bool\nscore = s + b[j]"),
              ElementsAre("'+' needs a number here, but 'b[j]' is a condition"));
  EXPECT_THAT(errors("weights = softmax(causal)"),
              ElementsAre("expected a number, but 'causal' is a condition"));
}

TEST(CheckTypes, CallsHaveAFixedNumberOfArguments) {
  EXPECT_THAT(errors("score = clamp(s, 1)"),
              ElementsAre("'clamp' takes 3 arguments, not 2; for example 'clamp(d, 0, 31)'"));
  EXPECT_THAT(errors("score = abs()"), ElementsAre("'abs' takes 1 argument, not 0; for example 'abs(d)'"));
  EXPECT_THAT(errors("score = min(s)"),
              ElementsAre("'min' takes 2 arguments, not 1; for example 'min(d, 31)'"));
  EXPECT_THAT(errors("weights = softmax(s, s)"),
              ElementsAre("'softmax' takes 1 argument, not 2; for example 'softmax(s, sink = 0)'"));
  EXPECT_EQ(score_of("score = min(s, d, h, 3)"), "min(min(min(s, d), h), 3)");
}

TEST(CheckTypes, SubscriptsAreIntegersOfTheRightNumber) {
  const std::string b = "param b[head, 4, 5] = 0\n";
  EXPECT_EQ(score_of(b + "score = b[i, floor(s)]"), "b[i, floor(s)]");
  EXPECT_THAT(errors(b + "score = b"),
              ElementsAre("'b' takes 2 subscripts here, by 4, 5; batch and head are implied"));
  EXPECT_THAT(errors(b + "score = b[i]"),
              ElementsAre("'b' takes 2 subscripts here, by 4, 5; batch and head are implied"));
  EXPECT_THAT(errors(b + "score = b[i, j, i]"), ElementsAre(HasSubstr("'b' takes 2 subscripts here")));
  EXPECT_THAT(
      errors(b + "score = b[i, s]"),
      ElementsAre("a subscript must be an integer, but 's' is a real number; floor(...) makes it one"));
  EXPECT_THAT(errors(b + "score = b[i, causal]"),
              ElementsAre("expected a number, but 'causal' is a condition"));
  EXPECT_THAT(errors("param a[head] = 0\nscore = a[h]"),
              ElementsAre("'a' takes no subscript; batch and head are implied"));
  EXPECT_THAT(errors("input m[query, key]\nscore = m[j, i]"),
              ElementsAre("the dimension 'query' is subscripted by i alone, not by 'j'",
                          "the dimension 'key' is subscripted by j alone, not by 'i'"));
  EXPECT_THAT(errors("input m[query, key]\nscore = m[i, j - 1]"),
              ElementsAre("the dimension 'key' is subscripted by j alone, not by 'j - 1'"));
}

TEST(CheckTypes, ADivisionIsRealAndADividedIntegerIsNot) {
  const std::string b = "param b[4] = 0\n";
  EXPECT_THAT(errors(b + "score = b[d / 2]"), ElementsAre(HasSubstr("a subscript must be an integer")));
  EXPECT_THAT(errors(b + "score = b[d // 2 % 3 + abs(i) * max(j, 2) - clamp(d, 0, 3)]"), IsEmpty());
  EXPECT_THAT(errors(b + "score = b[d ^ 2]"), ElementsAre(HasSubstr("a subscript must be an integer")));
  EXPECT_THAT(errors(b + "score = b[d * 1.0]"), ElementsAre(HasSubstr("a subscript must be an integer")));
  EXPECT_THAT(errors(b + "score = b[where(causal, 1, 2.0)]"),
              ElementsAre(HasSubstr("a subscript must be an integer")));
  EXPECT_THAT(errors(b + "const w = 2.0\nscore = b[w]"), IsEmpty()) << "a whole constant is an integer";
  EXPECT_THAT(errors(b + "const w = 2\nscore = b[w]", {{"w", 1.5}}),
              ElementsAre(HasSubstr("a subscript must be an integer")));
  EXPECT_THAT(errors(b + "score = b[inf]"), ElementsAre(HasSubstr("a subscript must be an integer")));
}

// --- norms ---

TEST(CheckNorms, BelongToWeights) {
  EXPECT_THAT(errors("score = softmax(s)"),
              ElementsAre("norms such as softmax belong to weights; 'softmax(s)' has one"));
  EXPECT_THAT(errors("mask = softmax(s) > 0"), ElementsAre(HasSubstr("a norm may be added")));
  EXPECT_THAT(errors("y = l1(s)\nscale = y"), testing::Contains(HasSubstr("belong to weights")));
  EXPECT_THAT(errors("param a = softmax(s)"),
              ElementsAre(HasSubstr("norms such as softmax belong to weights")));
  EXPECT_THAT(errors("weights = softmax(l1(s))"),
              ElementsAre("norms such as softmax belong to weights; 'l1(s)' has one"));
  EXPECT_THAT(errors("param b[4] = 0\nweights = b[softmax(s)]"), ElementsAre(HasSubstr("belong to weights")));
}

TEST(CheckNorms, EnterWeightsLinearly) {
  for (const char* text :
       {"-softmax(s)", "2 * softmax(s) - s * l1(s) / 3", "where(causal, softmax(s), softpick(s))",
        "sign(s) * softmax(abs(s))", "softmax(s) + s", "relu(s) ^ 2"})
    EXPECT_THAT(errors(std::string("weights = ") + text), IsEmpty()) << text;
  EXPECT_THAT(errors("weights = softmax(s) * l1(s)"),
              ElementsAre("a product may have at most one norm; 'softmax(s) * l1(s)' has two"));
  for (const char* text : {"1 / softmax(s)", "softmax(s) ^ 2", "exp(softmax(s))", "max(softmax(s), 0)",
                           "softmax(s) % 2", "where(softmax(s) > 0, s, 0)"})
    EXPECT_THAT(errors(std::string("weights = ") + text),
                ElementsAre(HasSubstr("a norm may be added, subtracted")))
        << text;
}

TEST(CheckNorms, ASinkBelongsToAWholeRow) {
  for (const char* sink : {"0", "z", "h + 1", "F[i]", "log(i + 1)", "n"})
    EXPECT_THAT(
        errors(std::string("param z[head] = 0\ninput F[token]\nweights = softmax(s, sink = ") + sink + ")"),
        IsEmpty())
        << sink;
  for (const char* sink : {"s", "j", "d", "F[j]", "i - j", "i + j"})
    EXPECT_THAT(errors(std::string("input F[token]\nweights = softmax(s, sink = ") + sink + ")"),
                ElementsAre(HasSubstr("a sink belongs to a whole row: ")))
        << sink;
  EXPECT_THAT(errors("weights = l1(s, sink = 0)"), ElementsAre("only softmax has a sink, not l1"));
  EXPECT_THAT(errors("score = abs(s, sink = 0)"), ElementsAre("only softmax has a sink"));
  EXPECT_THAT(errors("weights = softmax(s, sink = causal)"),
              ElementsAre("expected a number, but 'causal' is a condition"));
}

TEST(CheckNorms, AreBoundedInNumber) {
  std::string text = "weights = softmax(s)";
  for (int count = 2; count < 9; ++count) text += " + softmax(" + std::to_string(count) + " * s)";
  EXPECT_THAT(errors(text), ElementsAre()) << text;
  EXPECT_THAT(errors(text + " + softmax(s)"), IsEmpty()) << "equal norms are one";
  EXPECT_THAT(errors(text + " + l1(s)"), ElementsAre("a formula may have at most 8 norms; this one has 9"));
}

}  // namespace
}  // namespace saccade
