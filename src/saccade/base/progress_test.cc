#include "saccade/base/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <functional>

#include "saccade/base/text.h"

namespace saccade {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

// Runs `work` with a terminal of 60 columns as standard error and returns all that was written to it.
std::string on_a_terminal(const std::function<void()>& work) {
  winsize size{};
  size.ws_col = 60;
  size.ws_row = 24;
  int controller = -1, terminal = -1;
  EXPECT_EQ(::openpty(&controller, &terminal, nullptr, nullptr, &size), 0);
  const int saved = ::dup(STDERR_FILENO);
  ::dup2(terminal, STDERR_FILENO);
  work();
  ::dup2(saved, STDERR_FILENO);
  ::close(saved);
  // Once nobody holds the terminal, reading ends after what was written.
  ::close(terminal);
  std::string written;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(controller, buffer, sizeof buffer)) > 0;) {
    written.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(controller);
  return written;
}

int times_drawn(const std::string& written) {
  int count = 0;
  for (auto at = written.find("train"); at != written.npos; at = written.find("train", at + 1)) ++count;
  return count;
}

TEST(ClockTime, LooksLikeAClock) {
  EXPECT_EQ(clock_time(7.4), "0:07");
  EXPECT_EQ(clock_time(59.6), "1:00");
  EXPECT_EQ(clock_time(3 * 3600 + 20 * 60 + 9), "3:20:09");
  EXPECT_EQ(clock_time(1.0 / 0.0), "--:--");
  EXPECT_EQ(clock_time(-1), "--:--");
}

TEST(ProgressLine, ShowsCountPercentRateTimeLeftAndNote) {
  const auto line = progress_line("train", 25, 100, 10, "loss 2.31", 200);
  EXPECT_THAT(line, AllOf(testing::StartsWith("train ━━━━━━──"),
                          EndsWith("25/100 25%, 2.5/s, 0:30 left, loss 2.31")));
}

TEST(ProgressLine, CountsByTheMinuteWhatTakesSeconds) {
  EXPECT_THAT(progress_line("train", 1, 4, 20, "", 200), EndsWith("1/4 25%, 3.0/min, 1:00 left"));
  EXPECT_THAT(progress_line("train", 250, 1000, 1, "", 200), EndsWith("25%, 250/s, 0:03 left"));
}

TEST(ProgressLine, SaysNoTimeLeftBeforeTheFirstStepAndAfterTheLast) {
  EXPECT_THAT(progress_line("train", 0, 100, 10, "", 200), Not(HasSubstr("left")));
  EXPECT_THAT(progress_line("train", 100, 100, 10, "", 200),
              AllOf(HasSubstr("100%"), Not(HasSubstr("left"))));
  EXPECT_THAT(progress_line("train", 999, 1000, 10, "", 200), HasSubstr("99%"));
}

TEST(ProgressLine, WorksWithoutATotal) {
  EXPECT_EQ(progress_line("read", 12, 0, 65, "", 200), "read 12, 1:05");
}

TEST(ProgressLine, NeverFillsTheTerminalsLine) {
  for (int width = 1; width < 70; ++width) {
    const auto line = progress_line("trainieren – 注意", 3, 9, 1, "note", width);
    EXPECT_LT(display_width(line), width);
    EXPECT_EQ(line.find('\xEF'), line.npos);
    EXPECT_TRUE(std::string("trainieren – 注意").starts_with(line) || width > 15) << line;
  }
}

TEST(Progress, IsSilentWithoutATerminal) {
  testing::internal::CaptureStderr();
  {
    Progress progress(10, "train");
    progress.update(5, "note");
    progress.finish();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Progress, DrawsAtOnceThenRarelyAndErasesItself) {
  const auto written = on_a_terminal([] {
    Progress progress(100'000, "train");
    for (int i = 1; i <= 2000; ++i) progress.update(i, "loss");
  });
  EXPECT_GE(times_drawn(written), 1);
  EXPECT_LT(times_drawn(written), 100) << "2000 steps within a moment";
  EXPECT_THAT(written, EndsWith("\r\x1b[K"));
}

TEST(Progress, DrawsNothingAfterTheEnd) {
  const auto written = on_a_terminal([] {
    Progress progress(10, "train");
    progress.finish();
    progress.update(5);
  });
  EXPECT_EQ(written, "");
}

}  // namespace
}  // namespace saccade
