// `saccade info`: what this build can do on this machine, for a person who wonders and for a report of a
// problem.
#include <ATen/Parallel.h>
#include <hwy/targets.h>
#include <torch/version.h>

#include "saccade/attention/tuner.h"
#include "saccade/base/json.h"
#include "saccade/base/text.h"
#include "saccade/cli/command.h"
#include "saccade/cli/output.h"
#include "saccade/formula/mechanisms.h"
#include "saccade/kernels/primitives.h"
#include "saccade/train/team.h"
#include "saccade/version.h"

namespace saccade {
namespace {

std::string compiler() {
#if defined(__clang__)
  return fmt::format("Clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#elif defined(__GNUC__)
  return fmt::format("GCC {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#else
  return "unknown";
#endif
}

// The instruction sets of this processor that Highway has code for, best first: its better ones have lower
// bits.
std::vector<std::string> simd() {
  std::vector<std::string> names;
  for (std::int64_t rest = hwy::SupportedTargets(); rest != 0; rest &= rest - 1) {
    names.emplace_back(hwy::TargetName(rest & -rest));
  }
  return names;
}

ExitCode info(bool as_json) {
  const std::vector<std::string> instructions = simd();
  const int threads = at::get_num_threads();
  const std::size_t mechanisms = embedded_mechanisms().size();
  const Tuner& tuner = Tuner::global();
  if (as_json) {
    const Json json = {{"version", SACCADE_VERSION},
                       {"compiler", compiler()},
                       {"simd", instructions},
                       {"kernels", kernels::target_name()},
                       {"torch", TORCH_VERSION},
                       {"threads", threads},
                       {"mpi", mpi_version()},
                       {"mechanisms", mechanisms},
                       {"tuning", {{"file", tuner.file().string()}, {"known", tuner.known()}}}};
    print("{}\n", dump(json, 2));
    return ExitCode::success;
  }
  print("saccade     {}\n", SACCADE_VERSION);
  print("compiler    {}\n", compiler());
  print("simd        {}\n", join(instructions, ", "));
  print("kernels     {}\n", kernels::target_name());
  print("torch       {}\n", TORCH_VERSION);
  print("threads     {}\n", threads);
  print("mpi         {}\n", mpi_version().empty() ? "none; training runs in one process" : mpi_version());
  print("tuning      {}\n",
        tuner.file().empty()
            ? "off"
            : fmt::format("{} measured, {}", plural(static_cast<int64_t>(tuner.known()), "choice"),
                          tuner.file().string()));
  print("mechanisms  {}\n", mechanisms);
  return ExitCode::success;
}

}  // namespace

Work declare_info(CLI::App& app) {
  const auto as_json = std::make_shared<bool>(false);
  app.add_flag("--json", *as_json, "Print JSON");
  return [as_json] { return info(*as_json); };
}

}  // namespace saccade
