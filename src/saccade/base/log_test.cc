#include "saccade/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/base/error.h"

namespace saccade {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Standard error is not a terminal while it is captured, so messages are plain.
class Log : public testing::Test {
 protected:
  ~Log() override { log::set_level(log::Level::info); }

  template <class Function>
  static std::string written_by(Function function) {
    testing::internal::CaptureStderr();
    function();
    return testing::internal::GetCapturedStderr();
  }
};

TEST_F(Log, WritesPlainLinesToStandardError) {
  log::set_level(log::Level::debug);
  EXPECT_EQ(written_by([] {
              log::debug("n = {}", 8);
              log::info("step");
              log::warn("slow");
              log::error("{{}} stays");
            }),
            "debug: n = 8\ninfo: step\nwarning: slow\nerror: {} stays\n");
}

TEST_F(Log, HidesWhatIsBelowItsLevel) {
  log::set_level(log::Level::warn);
  EXPECT_EQ(written_by([] {
              log::info("hidden");
              log::warn("shown");
            }),
            "warning: shown\n");
  log::set_level(log::Level::off);
  EXPECT_EQ(written_by([] { log::error("hidden"); }), "");
}

TEST_F(Log, ReadsLevelsByName) {
  EXPECT_EQ(log::parse_level("debug"), log::Level::debug);
  EXPECT_EQ(log::parse_level("off"), log::Level::off);
  try {
    log::parse_level("debgu");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("debug, info, warn, error, off"), HasSubstr("did you mean 'debug'?")));
  }
}

}  // namespace
}  // namespace saccade
