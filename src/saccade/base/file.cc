// Files through the system's own calls, because those report why they failed and can be told not to wait.
#include "saccade/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "saccade/base/error.h"

namespace saccade {
namespace {

// A file descriptor that is closed with its scope.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }
  bool valid() const { return number_ >= 0; }

  // Some file systems report a failed write only here.
  int close() {
    const int result = valid() ? ::close(number_) : 0;
    number_ = -1;
    return result;
  }

 private:
  int number_;
};

// What errno says, in words.
std::string reason(int code = errno) { return std::generic_category().message(code); }

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

// A name beside `target` that no other process uses; the file at it is deleted unless it is kept.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& target) {
    constexpr int kAttempts = 1000;
    const std::string stem = "." + target.filename().string() + "." + std::to_string(::getpid()) + ".";
    for (int attempt = 0; attempt < kAttempts && descriptor_ < 0; ++attempt) {
      path_ = target.parent_path() / (stem + std::to_string(attempt));
      descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (descriptor_ < 0 && errno != EEXIST) break;
    }
    require(descriptor_ >= 0, "{}: cannot write: {}", target.string(), reason());
  }
  ~TemporaryFile() {
    if (!kept_) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  void keep() { kept_ = true; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  bool kept_ = false;
};

bool write_all(int descriptor, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(descriptor, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// The file that a chain of symbolic links ends at, which need not exist.
std::filesystem::path resolve(const std::filesystem::path& path) {
  std::filesystem::path target = path;
  std::error_code error;
  for (int links = 0; std::filesystem::is_symlink(target, error); ++links) {
    require(links < 40, "{}: cannot write: too many symbolic links", path.string());
    const auto next = std::filesystem::read_symlink(target, error);
    require(!error, "{}: cannot write: {}", path.string(), error.message());
    target = target.parent_path() / next;
  }
  return target;
}

}  // namespace

std::string read_file(const std::filesystem::path& path, std::size_t max_bytes) {
  // Without O_NONBLOCK, opening a pipe that nobody writes to would wait before its kind can be asked for.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  require(file.valid(), "{}: cannot read: {}", path.string(), reason());
  struct stat status {};
  require(::fstat(file.number(), &status) == 0, "{}: cannot read: {}", path.string(), reason());
  require(S_ISREG(status.st_mode), "{}: cannot read: it is {}, not a file", path.string(),
          kind_of(status.st_mode));

  const auto too_large = [&](std::size_t size) {
    require(size <= max_bytes, "{}: cannot read: it has more than the {} bytes allowed here", path.string(),
            max_bytes);
  };
  const auto stated = static_cast<std::size_t>(status.st_size);
  too_large(stated);

  // The stated size is only a first guess: a file may grow meanwhile, and those of /proc claim to be empty.
  std::string content;
  std::size_t size = 0;
  while (true) {
    if (size == content.size()) content.resize(std::max<std::size_t>({4096, stated + 1, size * 2}));
    const ssize_t got = ::read(file.number(), content.data() + size, content.size() - size);
    if (got < 0 && errno == EINTR) continue;
    require(got >= 0, "{}: cannot read: {}", path.string(), reason());
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
    too_large(size);
  }
  content.resize(size);
  return content;
}

void write_atomic(const std::filesystem::path& path, std::string_view content) {
  require(path.has_filename(), "{}: cannot write: it names no file", path.string());
  const std::filesystem::path target = resolve(path);
  struct stat existing {};
  const bool exists = ::stat(target.c_str(), &existing) == 0;
  require(!exists || S_ISREG(existing.st_mode), "{}: cannot write: it is {}, not a file", path.string(),
          kind_of(existing.st_mode));

  TemporaryFile temporary(target);
  Descriptor file(temporary.descriptor());
  const bool written = (!exists || ::fchmod(file.number(), existing.st_mode & 07777) == 0) &&
                       write_all(file.number(), content) && ::fsync(file.number()) == 0 &&
                       file.close() == 0 && std::rename(temporary.path().c_str(), target.c_str()) == 0;
  require(written, "{}: cannot write: {}", path.string(), reason());
  temporary.keep();

  // The new name reaches the disk with its directory. The file is complete either way, so a file system that
  // cannot do this is no error.
  const auto parent = target.parent_path();
  const Descriptor directory(
      ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.valid()) ::fsync(directory.number());
}

}  // namespace saccade
