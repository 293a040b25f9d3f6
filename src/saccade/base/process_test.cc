#include "saccade/base/process.h"

#include <gtest/gtest.h>

#include "saccade/base/error.h"

namespace saccade {
namespace {

TEST(Process, GivesOutputAndExitCode) {
  const ProcessResult result = run_process("sh", {"-c", "printf 'a b'; exit 3"});
  EXPECT_EQ(result.output, "a b");
  EXPECT_EQ(result.exit_code, 3);
}

TEST(Process, PassesArgumentsWithoutAShell) {
  EXPECT_EQ(run_process("printf", {"%s|", "a b", "$HOME", "*"}).output, "a b|$HOME|*|");
}

TEST(Process, ASignalIsAnExitCodeToo) { EXPECT_EQ(run_process("sh", {"-c", "kill -9 $$"}).exit_code, 137); }

TEST(Process, LongOutputArrivesWhole) {
  EXPECT_EQ(run_process("sh", {"-c", "head -c 300000 /dev/zero"}).output.size(), 300000U);
}

TEST(Process, NamesWhatCannotBeStarted) { EXPECT_THROW(run_process("no-such-program-here", {}), Error); }

}  // namespace
}  // namespace saccade
