// The cold half of error.h: wording of internal errors and of the system's.
#include "saccade/base/error.h"

#include <system_error>

namespace saccade {

std::string system_reason(int code) { return std::generic_category().message(code); }

void invariant(bool ok, std::string_view what, SourceLocation where) {
  if (ok) return;
  // A path from the build machine tells a reader less than the file's place in the project.
  std::string_view file = where.file;
  if (const auto project = file.rfind("src/saccade/"); project != file.npos) file.remove_prefix(project);
  throw std::logic_error(fmt::format("internal error: {} ({}:{})", what, file, where.line));
}

}  // namespace saccade
