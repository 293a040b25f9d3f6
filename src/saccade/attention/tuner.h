// How a call with key lists runs fastest on this machine: picking the listed keys, or walking over all of
// them and hiding the others. Which is better hangs on the machine, the density and the shape, so it is
// measured, once for each kind of call, and remembered in a file.
//
// Without lists there is nothing to measure: the fused kernels are faster than the reference from one token
// on
// (`saccade bench causal prior --lengths 1,4,16,64 --rivals naive`).
#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <string>

#include "saccade/attention/reference.h"
#include "saccade/formula/formula.h"

namespace saccade {

// What was measured of a kind of call.
struct TunedChoice {
  bool gather = true;
  double gather_seconds = 0, hide_seconds = 0;
};

class Tuner {
 public:
  // Remembers in `file`, as far as it can be read and written; what another machine measured is left alone.
  explicit Tuner(std::filesystem::path file);
  // The one that `Attention` asks. Its file lies in $XDG_CACHE_HOME or ~/.cache; the environment variable
  // SACCADE_TUNING names another, or is "off": then lists of more than half of the keys are hidden,
  // unmeasured.
  static Tuner& global();

  // Whether to pick the listed keys of this call. Calls of a kind that is not known yet are run a few times
  // both ways first.
  TunedChoice choose(const Formula& formula, const PairInputs& inputs);

  const std::filesystem::path& file() const { return file_; }
  size_t known() const;

  // Calls of one kind have the same name: sizes and density are rounded.
  static std::string kind_of(const Formula& formula, const PairInputs& inputs);
  // The share of keys that the lists name.
  static double density(const PairInputs& inputs);

 private:
  void load();
  void save() const;

  std::filesystem::path file_;  // empty: measures nothing
  mutable std::mutex mutex_;
  std::map<std::string, TunedChoice> choices_;
};

}  // namespace saccade
