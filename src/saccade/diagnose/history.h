// How the measures went over a training run: diagnostics.jsonl, a diagnosis per line with its step.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "saccade/base/json.h"
#include "saccade/diagnose/charts.h"

namespace saccade {

struct History {
  struct Entry {
    int64_t step;
    Json diagnosis;  // as to_json writes it, with the member "step"
  };
  std::vector<Entry> entries;  // by step; of a step that comes twice, after training was resumed, the later
};

// Throws Error, naming the line. A last line that was cut off is left out: training may be writing it.
History read_history(std::string_view jsonl, std::string_view where);

// One picture per measure, with a line per layer over the steps. Fewer than two steps give none.
std::vector<Picture> draw(const History& history, const std::string& subject);

}  // namespace saccade
