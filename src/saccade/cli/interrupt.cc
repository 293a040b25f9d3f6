// A handler for SIGINT, because the exit code must be 130 for every caller and not only as shells count.
#include "saccade/cli/interrupt.h"

#include <unistd.h>

#include <csignal>

#include "saccade/cli/command.h"

namespace saccade {

void install_signal_handlers() {
  const auto previous = std::signal(SIGINT, [](int) { ::_exit(static_cast<int>(ExitCode::interrupted)); });
  if (previous == SIG_IGN) std::signal(SIGINT, SIG_IGN);
  // Some parents, Python among them, start programs with this signal ignored; then each write would fail
  // instead.
  std::signal(SIGPIPE, SIG_DFL);
}

namespace {
volatile std::sig_atomic_t wanted = 0;
}

void watch_interrupts() {
  for (const int signal : {SIGINT, SIGTERM}) {
    const auto previous = std::signal(signal, [](int) {
      if (wanted) ::_exit(static_cast<int>(ExitCode::interrupted));
      wanted = 1;
    });
    if (previous == SIG_IGN) std::signal(signal, SIG_IGN);
  }
}

bool interrupt_wanted() { return wanted != 0; }

}  // namespace saccade
