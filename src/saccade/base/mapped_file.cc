// mmap with the same refusals as base/file.h: what is mapped must be a file and must not make the caller
// wait.
#include "saccade/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "saccade/base/error.h"

namespace saccade {
namespace {}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  // Without O_NONBLOCK, opening a pipe that nobody writes to would wait before its kind can be asked for.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  require(descriptor >= 0, "{}: cannot read: {}", path.string(), system_reason());
  struct stat status {};
  std::string problem;
  if (::fstat(descriptor, &status) != 0) {
    problem = system_reason();
  } else if (S_ISDIR(status.st_mode)) {
    problem = "it is a directory, not a file";
  } else if (!S_ISREG(status.st_mode)) {
    problem = "it is not a regular file";
  } else if (status.st_size > 0) {  // an empty file cannot be mapped, and needs no mapping
    const auto size = static_cast<std::size_t>(status.st_size);
    void* const start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (start == MAP_FAILED) {
      problem = system_reason();
    } else {
      bytes_ = {static_cast<const std::byte*>(start), size};
    }
  }
  ::close(descriptor);  // the mapping does without it
  require(problem.empty(), "{}: cannot read: {}", path.string(), problem);
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace saccade
