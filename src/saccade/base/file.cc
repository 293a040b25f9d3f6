// Files through the system's own calls, because those report why they failed and can be told not to wait.
#include "saccade/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "saccade/base/error.h"

namespace saccade {
namespace {

// A file descriptor that is closed with its scope.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (valid()) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }
  bool valid() const { return number_ >= 0; }

 private:
  int number_;
};

// What errno says, in words.
std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

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
  require(file.valid(), "{}: cannot read: {}", path.string(), system_reason());
  struct stat status {};
  require(::fstat(file.number(), &status) == 0, "{}: cannot read: {}", path.string(), system_reason());
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
    require(got >= 0, "{}: cannot read: {}", path.string(), system_reason());
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
    too_large(size);
  }
  content.resize(size);
  return content;
}

AtomicFile::AtomicFile(const std::filesystem::path& path) : path_(path) {
  require(path.has_filename(), "{}: cannot write: it names no file", path.string());
  target_ = resolve(path);
  struct stat existing {};
  const bool exists = ::stat(target_.c_str(), &existing) == 0;
  require(!exists || S_ISREG(existing.st_mode), "{}: cannot write: it is {}, not a file", path.string(),
          kind_of(existing.st_mode));

  constexpr int kAttempts = 1000;  // to find a name that no other process uses
  const std::string stem = "." + target_.filename().string() + "." + std::to_string(::getpid()) + ".";
  for (int attempt = 0; attempt < kAttempts && descriptor_ < 0; ++attempt) {
    temporary_ = target_.parent_path() / (stem + std::to_string(attempt));
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST) break;
  }
  require(descriptor_ >= 0, "{}: cannot write: {}", path.string(), system_reason());
  if (exists && ::fchmod(descriptor_, existing.st_mode & 07777) != 0) {
    const std::string why = system_reason();
    discard();  // a constructor that throws has no destructor
    fail("{}: cannot write: {}", path.string(), why);
  }
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  descriptor_ = -1;
  temporary_.clear();
}

void AtomicFile::append(std::string_view content) {
  invariant(descriptor_ >= 0, "nothing is appended to a file that has been committed");
  const bool written = write_all(descriptor_, content);  // before the reason is asked for
  require(written, "{}: cannot write: {}", path_.string(), system_reason());
}

void AtomicFile::commit() {
  invariant(descriptor_ >= 0, "a file is committed once");
  const bool synchronised = ::fsync(descriptor_) == 0;
  // Some file systems report a failed write only when the file is closed.
  const bool written = synchronised && ::close(std::exchange(descriptor_, -1)) == 0 &&
                       std::rename(temporary_.c_str(), target_.c_str()) == 0;
  require(written, "{}: cannot write: {}", path_.string(), system_reason());
  temporary_.clear();

  // The new name reaches the disk with its directory. The file is complete either way, so a file system that
  // cannot do this is no error.
  const auto parent = target_.parent_path();
  const Descriptor directory(
      ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.valid()) ::fsync(directory.number());
}

void write_atomic(const std::filesystem::path& path, std::string_view content) {
  AtomicFile file(path);
  file.append(content);
  file.commit();
}

void make_directories(const std::filesystem::path& path) {
  std::error_code problem;
  std::filesystem::create_directories(path, problem);
  require(!problem && std::filesystem::is_directory(path, problem), "{}: cannot make this directory: {}",
          path.string(), problem ? problem.message() : "there is a file of that name");
}

}  // namespace saccade
