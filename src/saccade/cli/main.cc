// The program's entry.
#include "saccade/cli/interrupt.h"
#include "saccade/cli/program.h"

int main(int count, char** words) {
  saccade::install_signal_handlers();
  const std::vector<std::string> arguments(words + (count > 0 ? 1 : 0), words + count);
  return static_cast<int>(saccade::run_program(arguments, saccade::commands()));
}
