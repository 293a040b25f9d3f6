// Texts that models went on with, side by side; from where they differ on they are marked.
#include <fmt/format.h>

#include <algorithm>

#include "saccade/base/text.h"
#include "saccade/report/sections.h"

namespace saccade {
namespace {

std::string title_of(const Field& model) {
  return name_with_attention(model.text_or("model", "a model"), model.text_or("attention", ""));
}

// How many bytes two texts have in common at their beginning, without a part of a character.
size_t common_prefix(std::string_view a, std::string_view b) {
  size_t length = 0;
  while (length < a.size() && length < b.size() && a[length] == b[length]) ++length;
  while (length > 0 && length < std::max(a.size(), b.size()) &&
         ((length < a.size() && (static_cast<unsigned char>(a[length]) & 0xc0) == 0x80) ||
          (length < b.size() && (static_cast<unsigned char>(b[length]) & 0xc0) == 0x80)))
    --length;
  return length;
}

std::string sample_html(const std::string& title, const std::string& prompt, std::string_view text,
                        size_t same) {
  std::string html =
      fmt::format("<div class=\"sample\"><h4>{}</h4><p><span class=\"prompt\">{}</span>{}",
                  html_escaped(title), html_escaped(prompt), html_escaped(text.substr(0, same)));
  if (same < text.size()) html += fmt::format("<mark>{}</mark>", html_escaped(text.substr(same)));
  return html + "</p></div>\n";
}

Section sample_section(const Result& result) {
  const Field file = field_of(result);
  std::vector<Field> models;
  if (file.find("models"))
    models = file.at("models").items();
  else
    models.push_back(file);
  Section section;
  std::vector<std::string> titles;
  for (const Field& model : models) titles.push_back(title_of(model));
  section.title = "Samples: " + join(titles, " and ");
  section.from = result.given;
  if (models.empty()) return section;
  const std::vector<Field> first = models.front().at("texts").items();
  if (models.size() > 1)
    section.body.paragraph(
        "The same prompts, the same seed. From where the texts differ on they are marked.");
  std::int64_t same_texts = 0;
  for (size_t index = 0; index < first.size(); ++index) {
    std::vector<std::pair<std::string, std::string>> texts;  // the model's title and what it said
    for (size_t model = 0; model < models.size(); ++model) {
      const std::vector<Field> all = models[model].at("texts").items();
      if (index < all.size()) texts.emplace_back(titles[model], all[index].at("text").text());
    }
    size_t same = texts.front().second.size();
    for (const auto& [title, text] : texts) same = std::min(same, common_prefix(texts.front().second, text));
    const bool alone = texts.size() < 2;
    if (!alone &&
        std::ranges::all_of(texts, [&](const auto& each) { return each.second == texts.front().second; }))
      ++same_texts;
    section.body.add("<div class=\"samples\">\n");
    for (const auto& [title, text] : texts)
      section.body.add(
          sample_html(title, first[index].text_or("prompt", ""), text, alone ? text.size() : same));
    section.body.add("</div>\n");
  }
  if (models.size() > 1)
    section.highlights.push_back({.label = "texts that are the same",
                                  .value = fmt::format("{} of {}", same_texts, first.size()),
                                  .detail = join(titles, " and ")});
  return section;
}

}  // namespace

bool is_samples(const Json& json) {
  return has_members(json, {"models", "first_differences"}) || has_members(json, {"model", "texts", "speed"});
}

std::vector<Section> samples_sections(std::span<const Result> results) {
  std::vector<Section> sections;
  for (const Result& result : results) sections.push_back(sample_section(result));
  return sections;
}

}  // namespace saccade
