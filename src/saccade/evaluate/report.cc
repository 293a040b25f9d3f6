// Every figure is a row with a way to be written; tables, differences and JSON are made of rows.
#include "saccade/evaluate/report.h"

#include <cmath>
#include <functional>

#include "saccade/base/text.h"

namespace saccade {
namespace {

enum class Unit { count, number, share, speed, bytes };

struct Figure {
  std::vector<std::string> label;  // one cell for each column that says what the figure is about
  double value;
  Unit unit;
  std::string key = {};  // in JSON; empty: not there
};
using Figures = std::vector<Figure>;

std::string text_of(double value, Unit unit) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  switch (unit) {
    case Unit::count:
      return fmt::format("{:.0f}", value);
    case Unit::number:
      return std::abs(value) < 1e5 ? fmt::format("{:.4f}", value) : fmt::format("{:.4e}", value);
    case Unit::share:
      return fmt::format("{:.2f} %", 100 * value);
    case Unit::speed:
      return fmt::format("{:.0f}", value);
    case Unit::bytes:
      return fmt::format("{:.0f} MiB", value / (1 << 20));
  }
  return "";
}

std::string difference_text(double from, double to, Unit unit) {
  if (unit == Unit::count) return "";
  if (unit == Unit::speed) return fmt::format("{:.2f}x", to / from);
  const std::string text = text_of(to - from, unit);
  // What is written as nought has no sign.
  if (text.find_first_of("123456789") == std::string::npos && std::isfinite(to - from))
    return text_of(0, unit);
  return to > from ? "+" + text : text;
}

// One column per evaluation behind the labels, and the difference if there are two.
std::string table_of(std::vector<std::string> labels, std::span<const Evaluation> evaluations,
                     const std::function<Figures(const Evaluation&)>& figures_of) {
  std::vector<Figures> columns;
  for (const Evaluation& evaluation : evaluations) {
    columns.push_back(figures_of(evaluation));
    labels.push_back(evaluation.attention);
  }
  if (columns.size() == 2) labels.emplace_back("difference");
  Table table(labels);
  for (size_t row = 0; row < columns.front().size(); ++row) {
    std::vector<std::string> cells = columns.front()[row].label;
    for (const Figures& column : columns) cells.push_back(text_of(column[row].value, column[row].unit));
    if (columns.size() == 2)
      cells.push_back(difference_text(columns[0][row].value, columns[1][row].value, columns[0][row].unit));
    table.add(cells);
  }
  return table.print();
}

Figure figure(std::string label, double value, Unit unit, std::string key) {
  return {{std::move(label)}, value, unit, std::move(key)};
}

Figures scored_figures(const Tally& scored) {
  return {figure("tokens scored", static_cast<double>(scored.tokens), Unit::count, "tokens_scored"),
          figure("mean NLL (nats)", scored.mean_nll(), Unit::number, "mean_nll"),
          figure("perplexity per token", scored.perplexity(), Unit::number, "perplexity_per_token"),
          figure("top-1 accuracy", scored.accuracy(), Unit::share, "top1_accuracy")};
}

void add_cost(Figures& figures, double seconds, int64_t peak_bytes, double per_second, const char* what,
              const char* key) {
  figures.push_back(figure("seconds", seconds, Unit::number, "seconds"));
  figures.push_back(figure(what, per_second, Unit::speed, key));
  figures.push_back(figure("peak memory", static_cast<double>(peak_bytes), Unit::bytes, "peak_bytes"));
}

Figures figures_of(const Perplexity& result) {
  Figures figures = scored_figures(result.scored);
  figures.insert(
      figures.begin() + 3,
      {figure("perplexity per word", result.perplexity_per_word(), Unit::number, "perplexity_per_word"),
       figure("bits per byte", result.bits_per_byte(), Unit::number, "bits_per_byte")});
  add_cost(figures, result.seconds, result.peak_bytes, result.tokens_per_second(), "tokens per second",
           "tokens_per_second");
  return figures;
}

Figures figures_of(const Masked& result) {
  Figures figures = scored_figures(result.scored);
  add_cost(figures, result.seconds, result.peak_bytes, result.tokens_per_second(), "tokens per second",
           "tokens_per_second");
  return figures;
}

Figures figures_of(const Classification& result) {
  Figures figures = {figure("texts", static_cast<double>(result.texts()), Unit::count, "texts"),
                     figure("accuracy", result.accuracy(), Unit::share, "accuracy"),
                     figure("macro F1", result.macro_f1(), Unit::number, "macro_f1")};
  const std::vector<LabelScore> scores = result.scores();
  for (size_t label = 0; label < scores.size(); ++label)
    figures.push_back(figure(fmt::format("F1 of label {}", label), scores[label].f1, Unit::number, ""));
  add_cost(figures, result.seconds, result.peak_bytes, static_cast<double>(result.texts()) / result.seconds,
           "texts per second", "texts_per_second");
  return figures;
}

std::string range_text(const LengthBucket& bucket) { return fmt::format("{}-{}", bucket.first, bucket.last); }

// A row per length, a column per depth.
std::string grid(const std::vector<RetrievalCell>& cells, const std::string& corner) {
  std::vector<std::string> header = {corner};
  for (const RetrievalCell& cell : cells)
    if (cell.length == cells.front().length) header.push_back(fmt::format("{:g} %", 100 * cell.depth));
  Table table(header);
  for (size_t first = 0; first < cells.size(); first += header.size() - 1) {
    std::vector<std::string> row = {std::to_string(cells[first].length)};
    for (size_t column = 0; column + 1 < header.size(); ++column)
      row.push_back(text_of(cells[first + column].accuracy(), Unit::share));
    table.add(row);
  }
  return table.print();
}

Json json_of(const Figures& figures) {
  Json json = Json::object();
  for (const Figure& each : figures)
    if (!each.key.empty())
      json[each.key] = each.unit == Unit::count || each.unit == Unit::bytes
                           ? Json(static_cast<int64_t>(each.value))
                           : Json(each.value);
  return json;
}

Json json_of(const Tally& scored) {
  return {{"tokens_scored", scored.tokens},
          {"mean_nll", scored.mean_nll()},
          {"top1_accuracy", scored.accuracy()}};
}

Json json_of(const Perplexity& result) {
  Json json = json_of(figures_of(result));
  json["context"] = result.options.context;
  json["stride"] = result.options.stride;
  json["text"] = {{"tokens", result.tokens},
                  {"words", result.words},
                  {"bytes", result.bytes},
                  {"special_tokens", result.special}};
  json["convention"] = result.convention();
  for (const LengthBucket& bucket : result.length_curve) {
    Json point{{"first", bucket.first}, {"last", bucket.last}};
    point.update(json_of(bucket.scored));
    json["length_curve"].push_back(point);
  }
  return json;
}

Json json_of(const Classification& result) {
  Json json = json_of(figures_of(result));
  json["confusion"] = result.confusion;
  for (const LabelScore& score : result.scores())
    json["labels"].push_back(
        {{"texts", score.texts}, {"precision", score.precision}, {"recall", score.recall}, {"f1", score.f1}});
  return json;
}

Json json_of(const Robustness& result) {
  Json json{{"convention", result.convention()}};
  for (const RobustnessPoint& point : result.points) {
    Json row{{"damage", name_of(point.corruption)}, {"rate", point.rate}};
    row.update(json_of(point.scored));
    json["points"].push_back(row);
  }
  return json;
}

Json json_of(const std::vector<RetrievalCell>& cells, const char* length) {
  Json json = Json::array();
  for (const RetrievalCell& cell : cells)
    json.push_back({{length, cell.length},
                    {"depth", cell.depth},
                    {"asked", cell.asked},
                    {"found", cell.found},
                    {"accuracy", cell.accuracy()}});
  return json;
}

}  // namespace

std::string report_text(std::span<const Evaluation> evaluations, const ReportOptions& options) {
  std::string text;
  const Evaluation& first = evaluations.front();
  const auto section = [&](const std::string& table, const std::string& convention) {
    if (!text.empty()) text += "\n";
    text += table;
    if (!convention.empty()) text += fmt::format("convention: {}\n", convention);
  };
  if (first.perplexity)
    section(table_of({""}, evaluations, [](const Evaluation& each) { return figures_of(*each.perplexity); }),
            first.perplexity->convention());
  if (first.perplexity && options.length_curve)
    section(
        table_of(
            {"tokens seen", ""}, evaluations,
            [](const Evaluation& each) {
              Figures figures;
              for (const LengthBucket& bucket : each.perplexity->length_curve) {
                figures.push_back({{range_text(bucket), "mean NLL"}, bucket.scored.mean_nll(), Unit::number});
                figures.push_back({{"", "top-1"}, bucket.scored.accuracy(), Unit::share});
              }
              return figures;
            }),
        "by how many tokens of the window come before the predicted one");
  if (first.masked)
    section(table_of({""}, evaluations, [](const Evaluation& each) { return figures_of(*each.masked); }),
            first.masked->convention());
  if (first.classification)
    section(
        table_of({""}, evaluations, [](const Evaluation& each) { return figures_of(*each.classification); }),
        "macro F1 is the mean over the labels that occur or were predicted");
  if (first.robustness)
    section(table_of({"damage", "rate", ""}, evaluations,
                     [](const Evaluation& each) {
                       Figures figures;
                       for (const RobustnessPoint& point : each.robustness->points) {
                         figures.push_back({{std::string(name_of(point.corruption)),
                                             fmt::format("{:g} %", 100 * point.rate), "mean NLL"},
                                            point.scored.mean_nll(),
                                            Unit::number});
                         figures.push_back({{"", "", "top-1"}, point.scored.accuracy(), Unit::share});
                       }
                       return figures;
                     }),
            first.robustness->convention());
  if (first.retrieval) {
    for (const Evaluation& each : evaluations) {
      if (!each.retrieval->passkey.empty())
        section(
            fmt::format("pass key found, {}\n{}", each.attention, grid(each.retrieval->passkey, "tokens")),
            "");
      if (!each.retrieval->recall.empty())
        section(fmt::format("pairs recalled, {}\n{}", each.attention, grid(each.retrieval->recall, "pairs")),
                "");
    }
    text += fmt::format("convention: {}\n", Retrieval::convention());
  }
  return text;
}

Json report_json(std::span<const Evaluation> evaluations) {
  Json report = Json::array();
  for (const Evaluation& each : evaluations) {
    Json json{{"attention", each.attention}};
    if (each.perplexity) json["perplexity"] = json_of(*each.perplexity);
    if (each.masked) {
      json["masked"] = json_of(figures_of(*each.masked));
      json["masked"]["convention"] = each.masked->convention();
    }
    if (each.classification) json["classification"] = json_of(*each.classification);
    if (each.robustness) json["robustness"] = json_of(*each.robustness);
    if (each.retrieval)
      json["retrieval"] = {{"convention", Retrieval::convention()},
                           {"passkey", json_of(each.retrieval->passkey, "tokens")},
                           {"recall", json_of(each.retrieval->recall, "pairs")}};
    report.push_back(json);
  }
  return report;
}

}  // namespace saccade
