// What the standard streams are connected to, which decides between plain lines and colour or redrawing.
#pragma once

namespace saccade {

/// The streams that the program writes: results go to `out`, messages and progress to `err`.
enum class Stream { out, err };

/// Whether a person watches the stream.
bool is_terminal(Stream stream);

/// Whether colour may be used: on a terminal that is not TERM=dumb, and unless NO_COLOR is set and not empty.
bool colour_allowed(Stream stream);

/// The columns of the terminal behind the stream; otherwise those that COLUMNS states, otherwise 80.
int terminal_width(Stream stream);

}  // namespace saccade
