// Captured attention weights as heat maps.
#include <fmt/format.h>

#include "saccade/base/text.h"
#include "saccade/report/plots.h"
#include "saccade/report/sections.h"

namespace saccade {

bool is_attention(const Json& json) {
  return has_members(json, {"format", "maps"}) && json["format"] == kAttentionFormat;
}

std::vector<Section> attention_sections(std::span<const Result> results) {
  std::vector<Section> sections;
  for (const Result& result : results) {
    const AttentionCapture capture = attention_from_json(result.json, result.path.string());
    Section section;
    section.title = "Attention: " +
                    name_with_attention(capture.model.empty() ? "a model" : capture.model, capture.attention);
    section.from = result.given;
    bool negative = false, masked = false;
    for (const AttentionMap& map : capture.maps) {
      negative |= map.has_sign;
      masked |= map.mask.has_value();
    }
    std::string text = fmt::format(
        "{} of {}{}. Each row is a query, each column a key.", plural(std::ssize(capture.maps), "map"),
        plural(std::ssize(capture.tokens), "token"), capture.data.empty() ? "" : " of " + capture.data);
    if (negative) text += " Weights may be negative: one colour for each sign.";
    if (masked) text += " “Blocks kept” shows which pairs were looked at.";
    section.body.paragraph(text);
    if (capture.maps.empty())
      section.notes.push_back("the capture holds no map.");
    else
      section.body.add(plot_html(capture, "", ""));
    sections.push_back(std::move(section));
  }
  return sections;
}

}  // namespace saccade
