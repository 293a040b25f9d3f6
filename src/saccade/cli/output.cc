// Standard output through C's stdio, whose buffer torch and other libraries share.
#include "saccade/cli/output.h"

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "saccade/base/error.h"

namespace saccade {
namespace {

[[noreturn]] void fail_to_write() { fail("standard output: cannot write: {}", system_reason()); }

}  // namespace

void write_output(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) fail_to_write();
}

void flush_output() {
  if (std::fflush(stdout) != 0) fail_to_write();
}

}  // namespace saccade
