// Certificates: the verdict and its criteria first, then where the difference is.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "saccade/base/text.h"
#include "saccade/report/plots.h"
#include "saccade/report/sections.h"

namespace saccade {
namespace {

Series demand(size_t layers, double threshold) {
  return {.name = "demanded",
          .x = {0, static_cast<double>(std::max<size_t>(layers, 2) - 1)},
          .y = {threshold, threshold},
          .muted = true};
}

// A number of each layer.
Series of_layers(const std::vector<Field>& layers, const std::string& name, const auto& value) {
  Series series{.name = name, .markers = true};
  for (const Field& layer : layers) {
    series.x.push_back(static_cast<double>(series.x.size()));
    series.y.push_back(value(layer));
  }
  return series;
}

void add_layers(Fragment& body, const Field& file) {
  const Field measurements = file.at("measurements"), thresholds = file.at("thresholds");
  if (const std::optional<Field> maps = measurements.find("attention")) {
    const std::vector<Field> layers = maps->at("layers").items();
    LineChart chart{.title = "Attention MSE by layer",
                    .subtitle = "squared difference of attention weights; lower is better",
                    .x_label = "layer",
                    .y_label = "mean squared error",
                    .log_y = true};
    chart.series.push_back(
        of_layers(layers, "mean over heads", [](const Field& each) { return each.number_or("mse", NAN); }));
    chart.series.push_back(of_layers(layers, "worst head", [](const Field& each) {
      const std::vector<double> heads = each.at("heads").numbers();
      return heads.empty() ? NAN : *std::ranges::max_element(heads);
    }));
    const bool differs = std::ranges::any_of(chart.series.front().y, [](double value) { return value > 0; });
    chart.series.push_back(demand(layers.size(), thresholds.number_or("max_attention_mse", NAN)));
    if (differs)
      body.add(plot_html(chart));
    else
      body.paragraph("The attention weights are the same in every layer.");
  }
  if (const std::optional<Field> gradients = measurements.find("gradients")) {
    const std::vector<Field> layers = gradients->at("layers").items();
    LineChart chart{.title = "Gradient cosine by layer",
                    .subtitle = "1: both models would learn the same from this text",
                    .x_label = "layer",
                    .y_label = "cosine",
                    .series = {of_layers(layers, "by the attention's input",
                                         [](const Field& each) { return each.number_or("input", NAN); }),
                               of_layers(layers, "by its projections",
                                         [](const Field& each) { return each.number_or("weights", NAN); }),
                               demand(layers.size(), thresholds.number_or("min_gradient_cosine", NAN))}};
    if (has_values(chart)) body.add(plot_html(chart));
  }
}

void add_memory(Fragment& body, const Field& file) {
  const std::optional<Field> memory = file.at("measurements").find("memory");
  if (!memory) return;
  Choices<LineChart> charts;
  for (const bool training : {false, true}) {
    LineChart chart{
        .title = "Peak memory of the attention",
        .subtitle = fmt::format(
            "of layer {} with its projections; naive holds the n × n map, dense is the baseline's fused path",
            memory->at("layer").whole()),
        .x_label = "tokens n",
        .y_label = "beyond what was there before",
        .log_x = true,
        .log_y = true,
        .y_unit = Unit::bytes};
    Series candidate{.name = "candidate", .markers = true},
        dense{.name = "dense", .markers = true, .muted = true},
        naive{.name = "naive", .markers = true, .muted = true};
    for (const Field& point : memory->at("points").items()) {
      if (point.at("training").flag() != training) continue;
      const double tokens = point.at("tokens").number();
      for (Series* series : {&candidate, &dense, &naive}) {
        const std::optional<Field> peak = point.find(series->name);
        series->x.push_back(tokens);
        series->y.push_back(peak ? peak->number_or("attention_bytes", NAN) : NAN);
      }
    }
    chart.x_ticks = candidate.x;
    chart.series = {candidate, dense, naive};
    if (has_values(chart)) charts.emplace_back(training ? "training" : "inference", std::move(chart));
  }
  if (!charts.empty()) body.add(plot_html("work", charts));
}

std::string shown(const Field& criterion) {
  if (const std::optional<Field> text = criterion.find("shown")) return text->text();
  const double value = criterion.number_or("value", NAN);
  return criterion.text_or("demanded", "").ends_with('%') ? percent(value, 2) : short_number(value);
}

void add_criteria(Section& section, const Field& file) {
  std::vector<PageRow> rows;
  std::int64_t passed = 0, judged = 0;
  for (const Field& criterion : file.at("criteria").items()) {
    const std::string verdict = criterion.at("verdict").text();
    const Tone tone = verdict == "passed" ? Tone::good : verdict == "failed" ? Tone::bad : Tone::plain;
    passed += tone == Tone::good ? 1 : 0;
    judged += tone == Tone::plain ? 0 : 1;
    rows.push_back({.cells = {criterion.at("title").text(), shown(criterion),
                              criterion.text_or("demanded", "-"), verdict},
                    .tone = tone,
                    .note = criterion.text_or("measured", "")});
  }
  section.body.table({"criterion", "measured", "demanded", "verdict"}, rows);
  const bool certified = file.at("certified").flag();
  section.highlights.push_back({.label = "certificate",
                                .value = certified ? "certified" : "not certified",
                                .detail = fmt::format("{} of {} criteria pass", passed, judged),
                                .tone = certified ? Tone::good : Tone::bad});
}

void add_identity(Fragment& body, const Field& file) {
  body.subheading("What was compared, and how to do it again");
  std::vector<PageRow> rows;
  for (const char* role : {"baseline", "candidate"}) {
    const Field model = file.at(role);
    for (const Field& each : model.at("files").items())
      rows.push_back({.cells = {fmt::format("{}: {}", role, each.at("name").text()),
                                short_number(each.number_or("bytes", NAN), 12), each.at("sha256").text()}});
  }
  for (const Field& each : file.at("data").items())
    rows.push_back({.cells = {"data: " + each.at("name").text(),
                              short_number(each.number_or("bytes", NAN), 12), each.at("sha256").text()}});
  body.table({"file", "bytes", "SHA-256"}, rows);
  if (const std::string formula = file.at("candidate").text_or("formula", ""); !formula.empty())
    body.code(formula);
  body.code(file.at("command").text());
}

Section certificate_section(const Result& result) {
  const Field file = field_of(result);
  const Field baseline = file.at("baseline"), candidate = file.at("candidate");
  const std::string attention = candidate.text_or("attention", "");
  Section section;
  section.title =
      fmt::format("Certificate: {} beside {}",
                  attention.empty() ? name_of_model(candidate.at("name").text()) : name_of_model(attention),
                  name_of_model(baseline.at("name").text()));
  section.from = result.given;
  std::string verdict = file.at("verdict").text();
  if (!verdict.empty() && verdict.front() >= 'a' && verdict.front() <= 'z')
    verdict.front() = static_cast<char>(verdict.front() - 'a' + 'A');
  section.body.banner(file.at("certified").flag() ? Tone::good : Tone::bad, verdict,
                      fmt::format("Both models read {} tokens, in windows of at most {}.",
                                  short_number(file.at("measurements").number_or("text_tokens", NAN), 12),
                                  short_number(file.number_or("context", NAN), 12)));
  add_criteria(section, file);
  if (const std::optional<Field> tokens = file.at("measurements").find("tokens")) {
    const Field kl = tokens->at("kl");
    section.body.paragraph(fmt::format(
        "KL to the baseline by token, in nats: mean {}, median {}, 99th percentile {}, largest {}.",
        short_number(kl.number_or("mean", NAN)), short_number(kl.number_or("median", NAN)),
        short_number(kl.number_or("p99", NAN)), short_number(kl.number_or("largest", NAN))));
  }
  add_layers(section.body, file);
  add_memory(section.body, file);
  add_identity(section.body, file);
  return section;
}

}  // namespace

bool is_certificate(const Json& json) { return has_members(json, {"certified", "criteria", "measurements"}); }

std::vector<Section> certificate_sections(std::span<const Result> results) {
  std::vector<Section> sections;
  for (const Result& result : results) sections.push_back(certificate_section(result));
  return sections;
}

}  // namespace saccade
