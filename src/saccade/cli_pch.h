// What all commands include, compiled once: LibTorch and the reader of command lines.
#pragma once

#include <CLI/CLI.hpp>

#include "saccade/torch_pch.h"
