// The oracle's gradients against differences of its outputs: what the kernels are held to is held to the
// definition of a derivative.
#include "saccade/kernels/cases_testing.h"

namespace saccade::kernels::testing {
namespace {

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t k = 0; k < a.size(); ++k) sum += a[k] * b[k];
  return sum;
}

// Moves every number of an array along a direction.
template <class F>
void for_numbers(const Array& array, int64_t batch, int64_t heads, int64_t tokens, F f) {
  auto* data = static_cast<double*>(array.data);
  for (int64_t k = 0; array && k < batch * heads * tokens * array.width; ++k) f(data[k], k);
}

class Probe {
 public:
  explicit Probe(const Case& given) : problem_(given), random_(given.seed, "direction") {
    const Inputs& inputs = problem_.inputs();
    const Shape& shape = inputs.shape;
    for (const Array& array : inputs.queries) along(array, shape.heads, shape.queries);
    for (const Array& array : inputs.keys) along(array, shape.key_heads, shape.keys);
    along(inputs.value, shape.key_heads, shape.keys);
    move(0.1, false);  // away from the round numbers, on which kinks and steps lie
  }

  // The slope of the sum of output times its gradient, by a difference and by the oracle's gradients.
  std::pair<double, double> slopes() {
    constexpr double kStep = 1e-5;
    const Expected expected = problem_.expected();
    double slope = 0;
    size_t place = 0;
    for (const auto* list : {&expected.queries, &expected.keys})
      for (const Sums& sums : *list) slope += dot(sums.value, directions_[place++]);
    slope += dot(expected.value.value, directions_[place]);
    for (size_t index = 0; index < expected.tables.size(); ++index)
      slope += table_slope(index, expected.tables[index]);
    move(kStep, true);
    const double above = loss();
    move(-2 * kStep, true);
    const double below = loss();
    move(kStep, true);
    return {(above - below) / (2 * kStep), slope};
  }

 private:
  void along(const Array& array, int64_t heads, int64_t tokens) {
    std::vector<double>& direction = directions_.emplace_back();
    for_numbers(array, problem_.inputs().shape.batch, heads, tokens,
                [&](double&, int64_t) { direction.push_back(random_.normal()); });
  }

  // Tables move by the sine of their place in memory.
  static double of_place(int64_t place) { return std::sin(static_cast<double>(place) + 0.5); }

  template <class F>
  void for_elements(size_t index, F f) const {
    const Shape& shape = problem_.inputs().shape;
    const Table& table = problem_.inputs().tables[index];
    int64_t number = 0;
    for (int64_t batch = 0; batch < (table.batch_stride ? shape.batch : 1); ++batch)
      for (int64_t head = 0; head < (table.head_stride ? shape.heads : 1); ++head)
        for (int64_t a = 0; a < table.size[0]; ++a)
          for (int64_t b = 0; b < table.size[1]; ++b)
            for (int64_t c = 0; c < table.size[2]; ++c)
              f(batch * table.batch_stride + head * table.head_stride + a * table.stride[0] +
                    b * table.stride[1] + c * table.stride[2],
                number++);
  }

  double table_slope(size_t index, const Sums& sums) const {
    double slope = 0;
    if (problem_.differentiable(index))
      for_elements(index, [&](int64_t place, int64_t number) {
        slope += of_place(place) * sums.value[static_cast<size_t>(number)];
      });
    return slope;
  }

  void move(double step, bool tables) {
    const Inputs& inputs = problem_.inputs();
    const Shape& shape = inputs.shape;
    size_t place = 0;
    const auto go = [&](const Array& array, int64_t heads, int64_t tokens) {
      const std::vector<double>& direction = directions_[place++];
      for_numbers(array, shape.batch, heads, tokens,
                  [&](double& number, int64_t k) { number += step * direction[static_cast<size_t>(k)]; });
    };
    for (const Array& array : inputs.queries) go(array, shape.heads, shape.queries);
    for (const Array& array : inputs.keys) go(array, shape.key_heads, shape.keys);
    go(inputs.value, shape.key_heads, shape.keys);
    for (size_t index = 0; index < inputs.tables.size(); ++index)
      if (tables && problem_.differentiable(index))
        for_elements(index, [&](int64_t at, int64_t) {
          const_cast<double*>(static_cast<const double*>(inputs.tables[index].data))[at] +=
              step * of_place(at);
        });
  }

  double loss() const {
    const Expected expected = problem_.expected(false);
    double sum = dot(expected.output.value, problem_.output_gradient().numbers());
    for (size_t k = 0; k < expected.log_sums.value.size(); ++k)
      if (std::isfinite(expected.log_sums.value[k]) && problem_.given().log_sum_gradients)
        sum += expected.log_sums.value[k] * problem_.log_sum_gradients()[k];
    return sum;
  }

  Problem<double> problem_;
  RandomStream random_;
  std::vector<std::vector<double>> directions_;
};

TEST(Oracle, GradientsAreSlopes) {
  uint64_t seed = 0;
  for (const std::string& text : all_formulas()) {
    const Case given{.formula = text,
                     .queries = 7,
                     .keys = 9,
                     .width = 3,
                     .value_width = 2,
                     .batch = 2,
                     .group = 2,
                     .offset = 4,
                     .first_key = 1,
                     .log_sum_gradients = true,
                     .seed = ++seed};
    SCOPED_TRACE(given.text());
    const auto [difference, slope] = Probe(given).slopes();
    EXPECT_NEAR(difference, slope, 1e-6 * (1 + std::fabs(slope)));
  }
}

}  // namespace
}  // namespace saccade::kernels::testing
