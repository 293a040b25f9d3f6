// A pipe and posix_spawn, which is safe in a process that has threads.
#include "saccade/base/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "saccade/base/error.h"

namespace saccade {
namespace {

std::string read_all(int file) {
  std::string text;
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t count = read(file, buffer.data(), buffer.size());
    if (count > 0)
      text.append(buffer.data(), static_cast<size_t>(count));
    else if (count == 0 || errno != EINTR)
      return text;
  }
}

}  // namespace

ProcessResult run_process(const std::string& program, const std::vector<std::string>& arguments,
                          bool capture) {
  std::vector<std::string> words{program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);

  std::array<int, 2> ends{-1, -1};
  require(!capture || pipe2(ends.data(), O_CLOEXEC) == 0, "process: cannot make a pipe: {}",
          system_reason(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (capture) posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, program.c_str(), &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ProcessResult result;
  if (capture) {
    close(ends[1]);
    if (failed == 0) result.output = read_all(ends[0]);
    close(ends[0]);
  }
  require(failed == 0, "process: '{}' cannot be started: {}", program, system_reason(failed));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace saccade
