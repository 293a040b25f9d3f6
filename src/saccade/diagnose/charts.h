// A diagnosis as pictures: one file per question.
#pragma once

#include <string>
#include <vector>

#include "saccade/diagnose/diagnosis.h"

namespace saccade {

struct Picture {
  std::string file;  // a name such as "rank.svg"
  std::string svg;
};

// `subject` stands under the titles: which model read what. Pictures of what was not measured are left out,
// and so are those of signs and row sums where weights have no sign and sum to one.
std::vector<Picture> draw(const Diagnosis& diagnosis, const std::string& subject);

}  // namespace saccade
