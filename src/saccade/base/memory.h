// How the process handles memory that it will need again.
#pragma once

#include <cstddef>

namespace saccade {

/// Keeps freed memory instead of giving it back to the system: a model's large temporaries come and go with
/// every layer, and fetching fresh pages for them costs more than what is computed on some. For commands that
/// run models; a library leaves this to its user, and a benchmark must not, since rivals with n x n maps gain
/// most.
void keep_freed_memory();

/// Gives freed memory back to the system, so that the next measurement does not count what this one held.
void release_freed_memory();

/// Asks for large pages behind memory that is about to be filled and will be read from end to end many times.
void prefer_large_pages(void* data, std::size_t bytes);

}  // namespace saccade
