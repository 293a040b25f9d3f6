// `--path`, for every command that runs a formula.
#pragma once

#include <CLI/CLI.hpp>

#include "saccade/attention/attention.h"

namespace saccade {

// Declares the option; `path` holds the choice once the command line is read, and must outlive the app.
void declare_path(CLI::App& app, Path& path);

}  // namespace saccade
