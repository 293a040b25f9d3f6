// Precompiled once and shared by every rung that uses LibTorch: reading it takes most of a minute.
#pragma once

#include <torch/torch.h>
