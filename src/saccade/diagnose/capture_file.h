// Captured weights as the file that reports and pages read.
#pragma once

#include "saccade/diagnose/capture.h"
#include "saccade/report/attention_map.h"

namespace saccade {

// `tokens` are the texts of the captured tokens. Throws Error for a capture in cells: a file has every
// weight.
AttentionCapture to_file(const Capture& capture, std::vector<std::string> tokens);

}  // namespace saccade
