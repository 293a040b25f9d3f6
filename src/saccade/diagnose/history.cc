// Reads what to_json wrote; a measure that a line does not have is a gap.
#include "saccade/diagnose/history.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "saccade/base/error.h"
#include "saccade/base/text.h"
#include "saccade/report/chart.h"

namespace saccade {
namespace {

double number_at(const Json& json, const std::string& pointer) {
  const Json::json_pointer place(pointer);
  if (!json.contains(place) || !json.at(place).is_number()) return std::nan("");
  return json.at(place).get<double>();
}

double mean_at(const Json& json, const std::string& pointer) {
  const Json::json_pointer place(pointer);
  if (!json.contains(place) || !json.at(place).is_array()) return std::nan("");
  double sum = 0;
  int count = 0;
  for (const Json& value : json.at(place))
    if (value.is_number()) {
      sum += value.get<double>();
      ++count;
    }
  return count > 0 ? sum / count : std::nan("");
}

size_t size_of(const Json& json, const char* list) {
  return json.contains(list) && json[list].is_array() ? json[list].size() : 0;
}

size_t most(const History& history, const char* list) {
  size_t count = 0;
  for (const History::Entry& entry : history.entries) count = std::max(count, size_of(entry.diagnosis, list));
  return count;
}

struct Line {
  std::string name;
  std::function<double(const Json&)> value;
};

void add(std::vector<Picture>& pictures, const std::string& file, LineChart chart, const History& history,
         const std::vector<Line>& lines) {
  bool any = false;
  for (const Line& line : lines) {
    Series series{.name = line.name};
    for (const History::Entry& entry : history.entries) {
      series.x.push_back(static_cast<double>(entry.step));
      series.y.push_back(line.value(entry.diagnosis));
      any |= std::isfinite(series.y.back());
    }
    chart.series.push_back(std::move(series));
  }
  chart.x_label = "step";
  chart.ordered = true;
  if (any) pictures.push_back({file, to_svg(chart)});
}

std::vector<Line> ranks(const History& history, const char* measure) {
  std::vector<Line> lines;
  for (size_t place = 0; place < most(history, "ranks"); ++place) {
    const Json::json_pointer name(fmt::format("/ranks/{}/after", place));
    const Json& last = history.entries.back().diagnosis;
    const std::string after =
        last.contains(name) && last[name].is_string() ? last[name].get<std::string>() : "";
    lines.push_back({after, [pointer = fmt::format("/ranks/{}/{}", place, measure)](const Json& json) {
                       return number_at(json, pointer);
                     }});
  }
  return lines;
}

std::vector<Line> layers(const History& history, const std::string& below,
                         double (*read)(const Json&, const std::string&)) {
  std::vector<Line> lines;
  for (size_t layer = 0; layer < most(history, "layers"); ++layer)
    lines.push_back(
        {fmt::format("layer {}", layer), [pointer = fmt::format("/layers/{}/{}", layer, below),
                                          read](const Json& json) { return read(json, pointer); }});
  return lines;
}

// The names of parameters that have values, and their mean in a layer.
std::vector<std::string> parameter_names(const History& history) {
  std::vector<std::string> names;
  for (const History::Entry& entry : history.entries)
    for (size_t layer = 0; layer < size_of(entry.diagnosis, "layers"); ++layer) {
      const Json& found = entry.diagnosis["layers"][layer];
      for (size_t index = 0; index < size_of(found, "parameters"); ++index) {
        const Json& parameter = found["parameters"][index];
        if (!parameter.contains("values") || !parameter.contains("name") || !parameter["name"].is_string())
          continue;
        const std::string name = parameter["name"].get<std::string>();
        if (std::ranges::find(names, name) == names.end()) names.push_back(name);
      }
    }
  return names;
}

double parameter_mean(const Json& json, size_t layer, const std::string& name) {
  if (layer >= size_of(json, "layers")) return std::nan("");
  const Json& found = json["layers"][layer];
  for (size_t index = 0; index < size_of(found, "parameters"); ++index)
    if (found["parameters"][index].value("name", "") == name)
      return mean_at(found["parameters"][index], "/values");
  return std::nan("");
}

}  // namespace

History read_history(std::string_view jsonl, std::string_view where) {
  const std::vector<std::string_view> lines = split_lines(jsonl);
  std::map<int64_t, Json> entries;
  for (size_t index = 0; index < lines.size(); ++index) {
    if (trim(lines[index]).empty()) continue;
    const std::string place = fmt::format("{}, line {}", where, index + 1);
    Json json;
    try {
      json = parse_json(lines[index], place);
    } catch (const Error&) {
      if (index + 1 == lines.size() && !jsonl.ends_with('\n')) break;
      throw;
    }
    require(json.is_object() && json.contains("step") && json["step"].is_number_integer(),
            "{}: it has no step; expected a diagnosis with a whole number as \"step\"", place);
    const int64_t step = json["step"].get<int64_t>();
    entries.insert_or_assign(step, std::move(json));
  }
  History history;
  for (auto& [step, json] : entries) history.entries.push_back({step, std::move(json)});
  return history;
}

std::vector<Picture> draw(const History& history, const std::string& subject) {
  std::vector<Picture> pictures;
  if (history.entries.size() < 2) return pictures;
  const auto chart = [&](const char* title, const char* y_label, bool log = false, Unit unit = Unit::number) {
    return LineChart{.title = title, .subtitle = subject, .y_label = y_label, .log_y = log, .y_unit = unit};
  };
  add(pictures, "steps_rank.svg", chart("Effective rank over training", "directions, centred"), history,
      ranks(history, "centred_effective_rank"));
  add(pictures, "steps_cosine.svg", chart("Similarity of tokens over training", "mean cosine of pairs"),
      history, ranks(history, "cosine"));
  add(pictures, "steps_gradient.svg", chart("Gradient of the blocks over training", "norm", true), history,
      layers(history, "gradients/block", number_at));
  add(pictures, "steps_entropy.svg", chart("Entropy of attention over training", "nats, mean over heads"),
      history, layers(history, "weights/entropy", mean_at));
  add(pictures, "steps_first_token.svg",
      chart("Weight on the first token over training", "mean over heads", false, Unit::share), history,
      layers(history, "weights/first_token", mean_at));
  add(pictures, "steps_row_sum.svg", chart("Row sums over training", "mean over heads"), history,
      layers(history, "weights/row_sum", mean_at));
  bool negative = false;
  const std::vector<Line> masses = layers(history, "weights/negative_mass", mean_at);
  for (const Line& line : masses)
    for (const History::Entry& entry : history.entries) negative |= line.value(entry.diagnosis) > 0;
  if (negative)
    add(pictures, "steps_negative.svg",
        chart("Negative share of the weights over training", "mean over heads", false, Unit::share), history,
        masses);
  for (const std::string& name : parameter_names(history)) {
    std::vector<Line> lines;
    for (size_t layer = 0; layer < most(history, "layers"); ++layer)
      lines.push_back({fmt::format("layer {}", layer),
                       [layer, name](const Json& json) { return parameter_mean(json, layer, name); }});
    std::string file = name;
    std::ranges::replace_if(
        file, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)) && c != '_'; }, '_');
    add(pictures, fmt::format("steps_learned_{}.svg", file),
        chart(fmt::format("Learned over training: {}", name).c_str(), "mean over heads"), history, lines);
  }
  return pictures;
}

}  // namespace saccade
