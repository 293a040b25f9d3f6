// A look inside a model, as `diagnose` took it.
#include <fmt/format.h>

#include <cmath>

#include "saccade/report/learned.h"
#include "saccade/report/sections.h"

namespace saccade {

bool is_diagnosis(const Json& json) { return has_members(json, {"ranks", "layers", "histogram_edges"}); }

std::vector<Section> diagnosis_sections(std::span<const Result> results) {
  std::vector<Section> sections;
  for (const Result& result : results) {
    const Field file = field_of(result);
    const std::string model = file.text_or("model", "a model"), attention = file.text_or("attention", "");
    Section section;
    section.title = "Diagnosis: " + name_with_attention(model, attention);
    section.from = result.given;
    section.body.paragraph(fmt::format(
        "It read windows of {1} tokens of {2}, {0} in all; its loss there is {3}.",
        short_number(file.number_or("batch", NAN), 9), short_number(file.number_or("tokens", NAN), 9),
        file.text_or("data", "a text"), short_number(file.number_or("loss", NAN))));
    const std::vector<NamedDiagnosis> found{{name_with_attention(model, attention), file}};
    add_ranks(section.body, found);
    add_gradients(section.body, found);
    add_heads(section.body, found);
    add_learned(section.body, found);
    sections.push_back(std::move(section));
  }
  return sections;
}

}  // namespace saccade
