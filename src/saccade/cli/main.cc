// The program's entry.
#include "saccade/base/memory.h"
#include "saccade/cli/interrupt.h"
#include "saccade/cli/program.h"

int main(int count, char** words) {
  saccade::install_signal_handlers();
  saccade::keep_freed_memory();
  const std::vector<std::string> arguments(words + (count > 0 ? 1 : 0), words + count);
  return static_cast<int>(saccade::run_program(arguments, saccade::commands()));
}
