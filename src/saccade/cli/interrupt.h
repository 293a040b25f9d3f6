// What signals do to the program.
#pragma once

namespace saccade {

/// From now on Ctrl-C ends the program at once with exit code 130, unless it was started with Ctrl-C ignored;
/// and a reader of its output who has seen enough (`saccade … | head -1`) ends it without a message.
void install_signal_handlers();

}  // namespace saccade
