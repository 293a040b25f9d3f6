// Precompiled once and shared by the rungs that work with tensors: tensors, operators and autograd.
//
// Not <torch/torch.h>: the templates that it leaves pending cost every file five more seconds, even with a
// precompiled header. A file that needs more of LibTorch includes it by name, for instance
// <torch/nn/module.h>.
#pragma once

#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>
#include <torch/types.h>
