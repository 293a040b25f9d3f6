#include "saccade/models/tensor_files.h"

#include <ATen/Parallel.h>

#include "saccade/attention/shapes.h"
#include "saccade/base/error.h"
#include "saccade/weights/dequantise.h"

namespace saccade {

using at::Tensor;

TensorSource source_of(const std::string& name, const Tensor& tensor) {
  const Tensor numbers = tensor.detach().to(torch::kFloat).contiguous();
  return {.name = name,
          .type = ElementType::F32,
          .shape = numbers.sizes().vec(),
          .write = [numbers](const ByteSink& sink) {
            sink({static_cast<const std::byte*>(numbers.data_ptr()), numbers.nbytes()});
          }};
}

void read_tensor(const TensorView& view, Tensor target, const std::string& where) {
  require(view.shape == target.sizes().vec(), "{}: the tensor '{}' has shape {}; expected {}", where,
          view.name, print_shape(view.shape), shape_text(target));
  float* out = target.data_ptr<float>();
  // A row is a whole number of quantised blocks.
  const int64_t columns = view.shape.empty() ? 1 : view.shape.back(),
                rows = view.elements() / std::max<int64_t>(columns, 1);
  at::parallel_for(0, rows, std::max<int64_t>(1, 65536 / std::max<int64_t>(columns, 1)),
                   [&](int64_t begin, int64_t end) {
                     to_floats(view, begin * columns, (end - begin) * columns, out + begin * columns);
                   });
}

}  // namespace saccade
