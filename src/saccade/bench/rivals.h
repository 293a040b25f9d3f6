// The rivals: torch's own ways to compute a formula's attention. Each is a row of one table: its name, when
// it can compute what the formula says, and how it is set up on a scene.
#pragma once

#include <span>

#include "saccade/bench/scene.h"

namespace saccade::bench {

// What a formula looks like to scaled_dot_product_attention (SDPA).
struct Form {
  bool unmasked = false, causal = false;  // neither: the mask is another one
  bool single = false;   // one softmax of s, or of s plus something that does not depend on it
  bool biased = false;   // single, with something added
  bool learned = false;  // biased, and what is added is learned
  bool mixed = false;    // several softmaxes of bare dot products, with a factor each that no pair changes
  bool plain() const { return single && !biased; }
};
Form form_of(const Plan& plan);

struct Rival {
  std::string_view name;
  std::string_view what;
  // Whether it computes what the formula says, and is worth looking at for this scene.
  bool (*fits)(const Scene& scene, const Form& form);
  // About how many maps of batch x heads x n x n numbers it holds at once in a training step.
  double maps;
  Contestant (*make)(const std::shared_ptr<Scene>& scene, const Form& form);
};
std::span<const Rival> rivals();
// Throws Error for a name that is not in the table.
const Rival& find_rival(std::string_view name);

// A contestant by name on a scene: "saccade" or a rival. Throws Error when it does not compute what the
// formula says, or when its maps would not fit into this machine's memory.
Contestant make_contestant(std::string_view name, const std::shared_ptr<Scene>& scene);

// SDPA without mask or with its causal one, whatever the formula: how long plain attention would take. Its
// name is "plain sdpa", and it is compared with nothing.
Contestant yardstick(const std::shared_ptr<Scene>& scene);

}  // namespace saccade::bench
