// Angles are computed in double, because position times frequency needs more digits than a float has.
#include "saccade/attention/rotary.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <mutex>

#include "saccade/attention/shapes.h"
#include "saccade/base/error.h"
#include "saccade/kernels/row_passes.h"

namespace saccade {

namespace {

int64_t turned_dims(int64_t width, const RotaryOptions& options) {
  const int64_t dims = options.dims > 0 ? options.dims : width;
  require(dims <= width && dims % 2 == 0,
          "rotary: {} of {} numbers cannot be turned in pairs; expected an even number up to {}", dims, width,
          width);
  const auto given = static_cast<int64_t>(options.frequencies.size());
  require(given == 0 || given == dims / 2, "rotary: {} frequencies are given; expected one per pair, {}",
          given, dims / 2);
  return dims;
}

torch::Tensor frequencies_of(int64_t dims, const RotaryOptions& options) {
  if (!options.frequencies.empty()) return torch::tensor(options.frequencies, torch::kDouble);
  return torch::pow(options.base, torch::arange(0, dims, 2, torch::kDouble) / -static_cast<double>(dims));
}

// Cosines and sines of the first positions, [positions, pairs] each. A model's layers turn alike, so the last
// few tables are kept; they grow by doubling.
struct AngleTable {
  RotaryOptions options;
  int64_t dims = 0;
  torch::Tensor cosine, sine;
};

AngleTable angle_table(int64_t dims, int64_t positions, const RotaryOptions& options) {
  constexpr size_t kKept = 8;
  static std::mutex mutex;
  static std::vector<AngleTable> tables;
  const std::lock_guard lock(mutex);
  const auto found = std::ranges::find_if(
      tables, [&](const AngleTable& table) { return table.dims == dims && table.options == options; });
  if (found != tables.end() && found->cosine.size(0) >= positions) return *found;
  int64_t length = 64;
  while (length < positions) length *= 2;
  const auto angles = torch::arange(length, torch::kDouble).unsqueeze(-1) * frequencies_of(dims, options);
  const AngleTable table{options, dims, angles.cos().to(torch::kFloat), angles.sin().to(torch::kFloat)};
  if (found != tables.end()) {
    *found = table;
  } else {
    if (tables.size() == kKept) tables.erase(tables.begin());
    tables.push_back(table);
  }
  return table;
}

// Turns by the angles, or back by them. The result is laid out by tokens, as projections give and want it.
at::Tensor turn(const at::Tensor& vectors, int64_t first, const RotaryOptions& options, float direction) {
  const int64_t batch = vectors.size(0), heads = vectors.size(1), tokens = vectors.size(2),
                width = vectors.size(3);
  const int64_t dims = turned_dims(width, options), pairs = dims / 2;
  const AngleTable table = angle_table(dims, first + tokens, options);
  at::Tensor result = torch::empty({batch, tokens, heads, width}, vectors.options());
  const float* cosines = table.cosine.data_ptr<float>();
  const float* sines = table.sine.data_ptr<float>();
  const float* from = vectors.data_ptr<float>();
  float* to = result.data_ptr<float>();
  const auto turn_heads = kernels::row_passes<float>().turn_heads;
  at::parallel_for(0, batch * tokens, std::max<int64_t>(1, 32768 / std::max<int64_t>(heads * width, 1)),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t row = begin; row < end; ++row) {
                       const int64_t token = row % tokens, sequence = row / tokens;
                       const int64_t angle = (first + token) * pairs;
                       turn_heads(from + sequence * vectors.stride(0) + token * vectors.stride(2),
                                  vectors.stride(1), heads, width, cosines + angle, sines + angle, pairs,
                                  direction, to + row * heads * width);
                     }
                   });
  return result.transpose(1, 2);
}

at::Tensor turned(const at::Tensor& vectors, int64_t first, const RotaryOptions& options, double direction);

// A gradient is turned back.
struct Rotation : torch::autograd::Function<Rotation> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& vectors,
                            int64_t first, const RotaryOptions& options, double direction) {
    context->saved_data["direction"] = direction;
    context->saved_data["first"] = first;
    context->saved_data["base"] = options.base;
    context->saved_data["dims"] = options.dims;
    context->saved_data["frequencies"] = options.frequencies;
    return turn(vectors, first, options, static_cast<float>(direction));
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto& saved = context->saved_data;
    const RotaryOptions options{.base = saved.at("base").toDouble(),
                                .dims = saved.at("dims").toInt(),
                                .frequencies = saved.at("frequencies").toDoubleVector()};
    const at::Tensor gradient = gradients[0].stride(3) == 1 ? gradients[0] : gradients[0].contiguous();
    const double back = -saved.at("direction").toDouble();
    return {turned(gradient, saved.at("first").toInt(), options, back), at::Tensor(), at::Tensor(),
            at::Tensor()};
  }
};

at::Tensor turned(const at::Tensor& vectors, int64_t first, const RotaryOptions& options, double direction) {
  if (torch::GradMode::is_enabled() && vectors.requires_grad())
    return Rotation::apply(vectors, first, options, direction);
  return turn(vectors, first, options, static_cast<float>(direction));
}

}  // namespace

at::Tensor rotate_from(const at::Tensor& vectors, int64_t first, const RotaryOptions& options) {
  if (vectors.scalar_type() != torch::kFloat || !vectors.device().is_cpu() || vectors.stride(3) != 1 ||
      options.interleaved)
    return rotate(vectors, torch::arange(first, first + vectors.size(2), torch::kLong), options);
  return turned(vectors, first, options, 1);
}

at::Tensor rotate(const at::Tensor& vectors, const at::Tensor& positions, const RotaryOptions& options) {
  const int64_t width = vectors.size(-1), dims = turned_dims(width, options);
  const auto dtype = compute_dtype(vectors);
  const auto frequencies = frequencies_of(dims, options).to(vectors.device());
  auto angles = positions.to(torch::kDouble).unsqueeze(-1) *
                frequencies;                                  // [tokens, dims/2] or [batch, tokens, dims/2]
  angles = angles.dim() == 3 ? angles.unsqueeze(1) : angles;  // the heads turn alike
  const auto cosine = angles.cos().to(dtype), sine = angles.sin().to(dtype);
  const auto turned = vectors.narrow(-1, 0, dims).to(dtype);
  torch::Tensor first, second, result;
  if (options.interleaved) {
    const auto pairs = turned.unflatten(-1, {dims / 2, 2});
    first = pairs.select(-1, 0);
    second = pairs.select(-1, 1);
    result = torch::stack({first * cosine - second * sine, second * cosine + first * sine}, -1).flatten(-2);
  } else {
    first = turned.narrow(-1, 0, dims / 2);
    second = turned.narrow(-1, dims / 2, dims / 2);
    result = torch::cat({first * cosine - second * sine, second * cosine + first * sine}, -1);
  }
  result = result.to(vectors.scalar_type());
  return dims == width ? result : torch::cat({result, vectors.narrow(-1, dims, width - dims)}, -1);
}

}  // namespace saccade
