#include "saccade/models/bfloat16.h"

#include <ATen/Parallel.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "saccade/base/log.h"

namespace saccade {
namespace {

constexpr const char* kVariable = "ONEDNN_MAX_CPU_ISA";

// Small products take another way and prove nothing.
[[noreturn]] void try_product() {
  for (const int signal : {SIGILL, SIGSEGV, SIGBUS}) std::signal(signal, SIG_DFL);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::alarm(30);             // whatever happens, the parent must not wait forever
  at::set_num_threads(1);  // the parent's threads do not exist here
  const at::Tensor matrix = torch::ones({256, 256}, torch::kBFloat16);
  const double sum = matrix.matmul(matrix).to(torch::kFloat).sum().item<double>();
  ::_exit(sum == 256.0 * 256 * 256 ? 0 : 1);
}

}  // namespace

void prepare_bfloat16() {
  if (std::getenv(kVariable)) return;
  const pid_t child = ::fork();
  if (child == 0) try_product();
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
    return;
  ::setenv(kVariable, "AVX512_CORE_BF16", 1);
  log::info("bfloat16: this machine's tile instructions do not work; it goes on without them");
}

}  // namespace saccade
