#include "saccade/base/terminal.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace saccade {
namespace {

// Sets a variable of the environment for one scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
  }
  ~Variable() { old_ ? ::setenv(name_, old_->c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

// Puts a terminal of `columns` columns in the place of standard error for one scope.
class StandardError {
 public:
  explicit StandardError(unsigned short columns) {
    winsize size{};
    size.ws_col = columns;
    EXPECT_EQ(::openpty(&controller_, &other_, nullptr, nullptr, &size), 0);
    saved_ = ::dup(STDERR_FILENO);
    ::dup2(other_, STDERR_FILENO);
  }
  ~StandardError() {
    ::dup2(saved_, STDERR_FILENO);
    for (const int descriptor : {saved_, controller_, other_}) ::close(descriptor);
  }
  StandardError(const StandardError&) = delete;
  StandardError& operator=(const StandardError&) = delete;

 private:
  int controller_ = -1, other_ = -1, saved_ = -1;
};

TEST(Terminal, IsRecognisedAndMeasured) {
  const StandardError terminal(57);
  EXPECT_TRUE(is_terminal(Stream::err));
  EXPECT_EQ(terminal_width(Stream::err), 57);
}

TEST(Terminal, AFileIsNone) {
  testing::internal::CaptureStderr();
  EXPECT_FALSE(is_terminal(Stream::err));
  EXPECT_FALSE(colour_allowed(Stream::err));
  {
    const Variable columns("COLUMNS", "132");
    EXPECT_EQ(terminal_width(Stream::err), 132);
  }
  for (const char* nonsense : {"", "wide", "-3", "99999999999999999999"}) {
    const Variable columns("COLUMNS", nonsense);
    EXPECT_EQ(terminal_width(Stream::err), 80) << nonsense;
  }
  testing::internal::GetCapturedStderr();
}

TEST(Colour, NeedsATerminalThatCanAndAUserWhoWants) {
  const StandardError terminal(80);
  const Variable kind("TERM", "xterm"), wish("NO_COLOR", nullptr);
  EXPECT_TRUE(colour_allowed(Stream::err));
  {
    const Variable no("NO_COLOR", "1");
    EXPECT_FALSE(colour_allowed(Stream::err));
  }
  const Variable dumb("TERM", "dumb");
  EXPECT_FALSE(colour_allowed(Stream::err));
}

}  // namespace
}  // namespace saccade
