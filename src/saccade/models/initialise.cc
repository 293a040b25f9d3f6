#include "saccade/models/initialise.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

#include "saccade/base/random.h"
#include "saccade/models/parameter_names.h"

namespace saccade {
namespace {

bool ends_with_any(const std::string& name, std::initializer_list<std::string_view> ends) {
  for (const std::string_view end : ends)
    if (name.ends_with(end)) return true;
  return false;
}

}  // namespace

void initialise(const Transformer& model, const InitialWeights& options) {
  const torch::NoGradGuard no_gradient;
  const double depth = std::sqrt(2.0 * static_cast<double>(model->architecture().layers));
  for (auto& item : model->named_parameters()) {
    const std::string& name = item.key();
    at::Tensor parameter = item.value();
    const bool of_formula = learned_by_formula(name);
    if (of_formula && !name.ends_with(".weight")) continue;
    if (!of_formula && parameter.dim() < 2) {
      parameter.fill_(name.ends_with("norm.weight") ? 1 : 0);
      continue;
    }
    const bool looked_up = ends_with_any(name, {"tokens", "positions", "types", "token_projection"});
    double deviation = options.deviation;
    if (deviation == 0) deviation = looked_up ? 0.02 : 1 / std::sqrt(static_cast<double>(parameter.size(-1)));
    if (ends_with_any(name, {".output.weight", ".down.weight"})) deviation /= depth;
    at::Generator random =
        at::detail::createCPUGenerator(RandomStream(options.seed, "initial weights").split(name).next());
    parameter.normal_(0, deviation, random);
  }
}

}  // namespace saccade
