// Tensors to files of weights and back, in single precision.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "saccade/weights/checkpoint.h"
#include "saccade/weights/safetensors_writer.h"

namespace saccade {

// For a writer, which may ask for the numbers later: what is kept is a copy only where the tensor is not
// contiguous or of another type.
TensorSource source_of(const std::string& name, const at::Tensor& tensor);

// The numbers of a file's tensor into one that has its shape already, on all threads. `where` names the file
// in the Error for another shape.
void read_tensor(const TensorView& view, at::Tensor target, const std::string& where);

}  // namespace saccade
