#include "saccade/cli/program.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "saccade/base/error.h"
#include "saccade/base/log.h"
#include "saccade/cli/interrupt.h"
#include "saccade/cli/output.h"

namespace saccade {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// A command that does what it is told, so that each way to end can be seen.
Work declare_echo(CLI::App& app) {
  struct Options {
    std::string text;
    int times = 1;
    std::string ending = "success";
  };
  const auto options = std::make_shared<Options>();
  app.add_option("TEXT", options->text, "What to print")->required();
  app.add_option("--times", options->times, "How often");
  app.add_option("--ending", options->ending, "How to end");
  return [options] {
    for (int i = 0; i < options->times; ++i) print("{}\n", options->text);
    log::debug("printed");
    if (options->ending == "error") fail("n is {}", -1);
    if (options->ending == "memory") throw std::bad_alloc();
    TORCH_CHECK(options->ending != "torch", "sizes do not match");
    invariant(options->ending != "invariant", "two is odd");
    return options->ending == "no" ? ExitCode::check_failed : ExitCode::success;
  };
}

constexpr Command kCommands[] = {{"echo", "Print a text", "saccade echo hello", declare_echo}};

struct Result {
  ExitCode code;
  std::string out, err;
};

Result run(const std::vector<std::string>& arguments) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const ExitCode code = run_program(arguments, kCommands);
  log::set_level(log::Level::info);
  const std::string out = testing::internal::GetCapturedStdout();
  return {code, out, testing::internal::GetCapturedStderr()};
}

TEST(Program, RunsACommandWithItsOptions) {
  const Result result = run({"echo", "hello", "--times", "2"});
  EXPECT_EQ(result.code, ExitCode::success);
  EXPECT_EQ(result.out, "hello\nhello\n");
  EXPECT_EQ(result.err, "");
}

TEST(Program, ReturnsTheCommandsAnswer) {
  EXPECT_EQ(run({"echo", "x", "--ending=no"}).code, ExitCode::check_failed);
}

TEST(Program, ToldNothingItHelps) {
  for (const auto& arguments : std::vector<std::vector<std::string>>{{}, {"--help"}, {"-h"}, {"help"}}) {
    const Result result = run(arguments);
    EXPECT_EQ(result.code, ExitCode::success);
    EXPECT_THAT(result.out, AllOf(HasSubstr("saccade echo hello"), HasSubstr("Print a text")));
  }
}

TEST(Program, HelpOfACommandShowsItsExampleFirst) {
  for (const auto& arguments : std::vector<std::vector<std::string>>{{"echo", "--help"}, {"help", "echo"}}) {
    const Result result = run(arguments);
    EXPECT_EQ(result.code, ExitCode::success);
    EXPECT_THAT(result.out, StartsWith("Example:\n  saccade echo hello\n"));
    EXPECT_THAT(result.out,
                AllOf(HasSubstr("Usage: saccade echo"), HasSubstr("--times"), HasSubstr("--quiet")));
  }
}

TEST(Program, SuggestsTheNearestCommand) {
  const Result result = run({"ecoh", "x"});
  EXPECT_EQ(result.code, ExitCode::wrong_input);
  EXPECT_EQ(result.err, "error: unknown command 'ecoh'; did you mean 'echo'?\n");
  EXPECT_EQ(result.out, "");
}

TEST(Program, PointsToTheListWhenNothingIsNear) {
  EXPECT_EQ(run({"frobnicate"}).err, "error: unknown command 'frobnicate'; `saccade --help` lists all\n");
}

TEST(Program, SuggestsTheNearestOption) {
  EXPECT_EQ(run({"echo", "x", "--tmies", "2"}).err,
            "error: echo: unknown option '--tmies'; did you mean '--times'?\n");
  EXPECT_EQ(run({"echo", "x", "--tmies=2"}).err,
            "error: echo: unknown option '--tmies'; did you mean '--times'?\n");
  EXPECT_EQ(run({"--verison"}).err, "error: unknown option '--verison'; did you mean '--version'?\n");
}

TEST(Program, TellsOfAnUnknownOptionBeforeAMissingArgument) {
  const Result result = run({"echo", "--frobnicate"});
  EXPECT_EQ(result.code, ExitCode::wrong_input);
  EXPECT_EQ(result.err, "error: echo: unknown option '--frobnicate'; see `saccade echo --help`\n");
}

TEST(Program, RefusesWrongArguments) {
  EXPECT_THAT(run({"echo"}).err,
              AllOf(HasSubstr("echo: TEXT is required"), HasSubstr("`saccade echo --help`")));
  EXPECT_THAT(run({"echo", "a", "b"}).err, HasSubstr("unexpected argument 'b'"));
  EXPECT_THAT(run({"echo", "a", "--times", "many"}).err, HasSubstr("--times"));
  EXPECT_THAT(run({"echo", "a", "-v", "-q"}).err, HasSubstr("--verbose"));
  for (const auto& arguments : std::vector<std::vector<std::string>>{{"echo"},
                                                                     {"echo", "a", "b"},
                                                                     {"echo", "a", "--times", "many"},
                                                                     {"echo", "a", "-v", "-q"},
                                                                     {""},
                                                                     {"-"}}) {
    EXPECT_EQ(run(arguments).code, ExitCode::wrong_input);
  }
}

TEST(Program, TellsUsersMistakesFromItsOwn) {
  const Result users = run({"echo", "x", "--ending=error"});
  EXPECT_EQ(users.code, ExitCode::wrong_input);
  EXPECT_EQ(users.err, "error: n is -1\n");
  const Result memory = run({"echo", "x", "--ending=memory"});
  EXPECT_EQ(memory.code, ExitCode::wrong_input);
  EXPECT_EQ(memory.err, "error: out of memory\n");
  const Result ours = run({"echo", "x", "--ending=invariant"});
  EXPECT_EQ(ours.code, ExitCode::internal);
  EXPECT_THAT(ours.err, StartsWith("error: internal error: two is odd"));
  const Result torch = run({"echo", "x", "--ending=torch"});
  EXPECT_EQ(torch.code, ExitCode::internal);
  EXPECT_EQ(torch.err, "error: internal error: LibTorch: sizes do not match\n") << "without the stack";
}

TEST(Program, VerboseShowsMoreAndQuietLess) {
  EXPECT_EQ(run({"echo", "x", "--verbose"}).err, "debug: printed\n");
  EXPECT_EQ(run({"echo", "x", "--quiet"}).err, "");
  EXPECT_EQ(run({"echo", "x", "--quiet", "--ending=error"}).err, "error: n is -1\n");
}

TEST(Interrupt, EndsWithItsOwnExitCode) {
  const auto interrupt = [] {
    install_signal_handlers();
    std::raise(SIGINT);
  };
  EXPECT_EXIT(interrupt(), testing::ExitedWithCode(130), "");
}

TEST(Interrupt, StaysIgnoredWhenTheParentWishes) {
  const auto interrupt = [] {
    std::signal(SIGINT, SIG_IGN);
    install_signal_handlers();
    std::raise(SIGINT);
    std::_Exit(0);
  };
  EXPECT_EXIT(interrupt(), testing::ExitedWithCode(0), "");
}

TEST(Commands, AreCompleteAndInTheTableOnce) {
  std::set<std::string_view> names;
  for (const Command& command : commands()) {
    EXPECT_TRUE(names.insert(command.name).second) << command.name;
    EXPECT_THAT(std::string(command.example), StartsWith(fmt::format("saccade {}", command.name)));
    EXPECT_FALSE(command.summary.empty() || command.summary.ends_with('.')) << command.name;
  }
}

}  // namespace
}  // namespace saccade
