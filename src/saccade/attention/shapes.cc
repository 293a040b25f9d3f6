// The checks that every call of attention passes through.
#include "saccade/attention/shapes.h"

#include "saccade/base/error.h"

namespace saccade {

std::string shape_text(const at::Tensor& tensor) {
  if (!tensor.defined()) return "nothing";
  std::string text = "[";
  for (int64_t place = 0; place < tensor.dim(); ++place)
    text += (place ? ", " : "") + std::to_string(tensor.size(place));
  return text + "]";
}

at::ScalarType compute_dtype(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

void check_query_key_value(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  const std::pair<const char*, const at::Tensor*> all[] = {
      {"query", &query}, {"key", &key}, {"value", &value}};
  for (const auto& [name, tensor] : all) {
    require(tensor->defined(), "attention: {} is missing", name);
    require(tensor->dim() == 4, "attention: {} has shape {}; expected [batch, heads, tokens, width]", name,
            shape_text(*tensor));
    const auto dtype = tensor->scalar_type();
    require(dtype == at::kFloat || dtype == at::kDouble || dtype == at::kBFloat16 || dtype == at::kHalf,
            "attention: {} has dtype {}; expected float, double, bfloat16 or half", name,
            c10::toString(dtype));
    require(dtype == query.scalar_type(), "attention: {} has dtype {}, query has {}; expected one dtype",
            name, c10::toString(dtype), c10::toString(query.scalar_type()));
    require(tensor->device() == query.device(), "attention: {} is on {}, query on {}; expected one device",
            name, tensor->device().str(), query.device().str());
    require(tensor->size(0) == query.size(0), "attention: {} has batch size {}, query has {}", name,
            tensor->size(0), query.size(0));
    require(tensor->size(1) > 0, "attention: {} has no heads", name);
  }
  require(key.size(3) == query.size(3), "attention: key has width {}, query has {}; expected the same",
          key.size(3), query.size(3));
  require(key.size(3) > 0, "attention: query and key have width 0; expected at least 1");
  require(value.size(2) == key.size(2), "attention: value has {} tokens, key has {}; expected the same",
          value.size(2), key.size(2));
  require(value.size(1) == key.size(1), "attention: value has {} heads, key has {}; expected the same",
          value.size(1), key.size(1));
  require(query.size(1) % key.size(1) == 0,
          "attention: key has {} heads, query has {}; {} is not a multiple of {}", key.size(1), query.size(1),
          query.size(1), key.size(1));
}

}  // namespace saccade
