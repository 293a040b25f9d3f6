#include "saccade/base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace saccade {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

template <class Exception = Error, class Function>
std::string message_of(Function function) {
  try {
    function();
  } catch (const Exception& exception) {
    return exception.what();
  }
  return "nothing was thrown";
}

TEST(Error, FailFormatsItsMessage) {
  EXPECT_EQ(message_of([] { fail("key has {} heads, query has {}", 3, 8); }), "key has 3 heads, query has 8");
}

TEST(Error, RequireThrowsOnlyWhenTheConditionIsFalse) {
  EXPECT_NO_THROW(require(true, "never {}", 1));
  EXPECT_EQ(message_of([] { require(false, "n is {}", -1); }), "n is -1");
}

TEST(WithContext, PutsTheContextBeforeTheMessage) {
  const auto nested = [] {
    with_context("recipe.toml", [] { with_context("heads", [] { fail("{} is not positive", 0); }); });
  };
  EXPECT_EQ(message_of(nested), "recipe.toml: heads: 0 is not positive");
}

TEST(WithContext, ReturnsTheResultAndKeepsReferences) {
  int value = 1;
  with_context("set", [&]() -> int& { return value; }) = 7;
  EXPECT_EQ(value, 7);
}

TEST(WithContext, LeavesOtherExceptionsAlone) {
  const auto inner = [] { with_context("context", [] { throw std::out_of_range("mine"); }); };
  EXPECT_EQ(message_of<std::out_of_range>(inner), "mine");
}

TEST(Invariant, SaysWhatAndWhere) {
  EXPECT_NO_THROW(invariant(true, "fine"));
  const auto line = __LINE__ + 1;
  const auto message = message_of<std::logic_error>([] { invariant(false, "two is odd"); });
  EXPECT_THAT(message, AllOf(StartsWith("internal error: two is odd (src/saccade/base/error_test.cc:"),
                             HasSubstr(fmt::format(":{})", line))));
}

TEST(Invariant, IsNotTakenForAUsersError) {
  const auto inner = [] { with_context("context", [] { invariant(false, "two is odd"); }); };
  EXPECT_THAT(message_of<std::logic_error>(inner), StartsWith("internal error: two is odd"));
}

}  // namespace
}  // namespace saccade
