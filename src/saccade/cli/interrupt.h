// What signals do to the program.
#pragma once

namespace saccade {

/// From now on Ctrl-C ends the program at once with exit code 130, unless it was started with Ctrl-C ignored;
/// and a reader of its output who has seen enough (`saccade … | head -1`) ends it without a message.
void install_signal_handlers();

/// From now on the first Ctrl-C only asks for an end, which interrupt_wanted() tells; the second ends the
/// program at once. For work that can be saved.
void watch_interrupts();
bool interrupt_wanted();

}  // namespace saccade
