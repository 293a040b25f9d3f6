// Values that a person tries for what a formula learns, put into an attention for as long as one looks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "saccade/attention/attention.h"
#include "saccade/base/json.h"
#include "saccade/report/field.h"

namespace saccade {

// By name: one value for all, or one for each element.
using ParameterValues = std::map<std::string, std::vector<double>>;

// What the formula learns, for the page: [{"name", "dimensions", "by_head": one value for each head, "low",
// "high": null without a bound, "values"}].
Json learned_json(const Attention& attention);

// An object of numbers and lists of numbers.
ParameterValues read_values(const Field& field);

// Throws Error for a name that the formula does not learn, and for a number of values that does not fit.
// Values outside a parameter's bounds are brought to the nearest inside.
void set_parameters(Attention attention, const ParameterValues& values);

class TriedParameters {
 public:
  TriedParameters(Attention attention, const ParameterValues& values);
  ~TriedParameters();
  TriedParameters(const TriedParameters&) = delete;
  TriedParameters& operator=(const TriedParameters&) = delete;

 private:
  void restore();

  Attention attention_;
  std::map<std::string, at::Tensor> own_;
};

}  // namespace saccade
