// The cold half of error.h: wording of internal errors.
#include "saccade/base/error.h"

namespace saccade {

void invariant(bool ok, std::string_view what, SourceLocation where) {
  if (ok) return;
  // A path from the build machine tells a reader less than the file's place in the project.
  std::string_view file = where.file;
  if (const auto project = file.rfind("src/saccade/"); project != file.npos) file.remove_prefix(project);
  throw std::logic_error(fmt::format("internal error: {} ({}:{})", what, file, where.line));
}

}  // namespace saccade
