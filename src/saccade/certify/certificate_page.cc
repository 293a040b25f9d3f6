// The certificate as a page: the verdict, what was demanded, then pictures by layer, then what it is about.
#include <algorithm>
#include <array>
#include <cmath>

#include "saccade/base/text.h"
#include "saccade/base/units.h"
#include "saccade/certify/certificate.h"
#include "saccade/report/chart.h"
#include "saccade/report/page.h"
#include "saccade/version.h"

namespace saccade {
namespace {

std::vector<double> layer_numbers(size_t count) {
  std::vector<double> numbers;
  for (size_t layer = 0; layer < count; ++layer) numbers.push_back(static_cast<double>(layer));
  return numbers;
}

// A demand as a line across the chart.
Series demand(const std::vector<double>& x, double threshold, const char* name) {
  return {.name = name, .x = {x.front(), x.back()}, .y = {threshold, threshold}, .muted = true};
}

void draw_maps(Page& page, const MapFidelity& maps, const FidelityThresholds& thresholds) {
  const std::vector<double> x = layer_numbers(maps.layers.size());
  Series mse{.name = "mean over heads", .x = x, .markers = true}, worst{.name = "worst head", .x = x};
  for (const LayerMaps& layer : maps.layers) {
    mse.y.push_back(layer.mse);
    worst.y.push_back(*std::ranges::max_element(layer.heads));
  }
  // On a logarithmic axis nothing could be shown of models that are equal.
  if (!std::ranges::any_of(mse.y, [](double value) { return value > 0; })) {
    page.paragraph("The attention weights are the same in every layer.");
    return;
  }
  LineChart chart{.title = "Attention MSE by layer",
                  .subtitle = "squared difference of attention weights; lower is better",
                  .x_label = "layer",
                  .y_label = "MSE",
                  .log_y = true,
                  .series = {mse, worst}};
  if (x.size() > 1) chart.series.push_back(demand(x, thresholds.max_attention_mse, "demanded of the mean"));
  page.chart(to_svg(chart));
}

void draw_gradients(Page& page, const GradientFidelity& gradients, const FidelityThresholds& thresholds) {
  const std::vector<double> x = layer_numbers(gradients.layers.size());
  Series input{.name = "by the attention's input", .x = x, .markers = true},
      weights{.name = "by its projections", .x = x, .markers = true};
  for (const LayerCosines& layer : gradients.layers) {
    input.y.push_back(layer.input);
    weights.y.push_back(layer.weights);
  }
  LineChart chart{.title = "Gradient cosine by layer",
                  .subtitle = "1: both models would learn the same from this text",
                  .x_label = "layer",
                  .y_label = "cosine",
                  .series = {input, weights},
                  .y_high = 1};
  if (x.size() > 1)
    chart.series.push_back(demand(x, thresholds.min_gradient_cosine, "demanded of every layer"));
  page.chart(to_svg(chart));
}

// A bar per power of ten.
void draw_divergences(Page& page, const std::vector<double>& kl) {
  constexpr int kFirst = -9, kLast = 1;
  std::array<double, kLast - kFirst + 2> counts{};
  for (const double value : kl) {
    const double power = value > 0 ? std::floor(std::log10(value)) : kFirst - 1;
    counts[static_cast<size_t>(
        std::clamp(power - kFirst + 1, 0.0, static_cast<double>(counts.size() - 1)))] += 1;
  }
  BarSeries shares;
  std::vector<std::string> names = {"less"};
  for (int power = kFirst; power < kLast; ++power) names.push_back(fmt::format("1e{}", power));
  names.emplace_back("10");
  for (const double count : counts) shares.values.push_back(count / static_cast<double>(kl.size()));
  // Bars without tokens at either end say nothing.
  while (shares.values.size() > 1 && shares.values.back() == 0) {
    shares.values.pop_back();
    names.pop_back();
  }
  while (shares.values.size() > 1 && shares.values.front() == 0) {
    shares.values.erase(shares.values.begin());
    names.erase(names.begin());
  }
  page.chart(
      to_svg(BarChart{.title = "KL to the baseline by token",
                      .subtitle = "share of the tokens by how far their distributions are apart, in nats",
                      .category_label = "KL of at least",
                      .value_label = "share of tokens",
                      .categories = names,
                      .series = {shares},
                      .unit = Unit::share}));
}

void draw_cosines(Page& page, std::vector<double> cosines, double threshold) {
  std::ranges::sort(cosines);
  Series line{.name = "texts", .x = {}, .y = cosines};
  for (size_t index = 0; index < cosines.size(); ++index)
    line.x.push_back(static_cast<double>(index + 1) / static_cast<double>(cosines.size()));
  LineChart chart{.title = "Embeddings, from the worst text to the best",
                  .subtitle = "cosine of both models' embeddings of a text",
                  .x_label = "share of the texts",
                  .y_label = "cosine",
                  .x_unit = Unit::share,
                  .series = {line, demand(line.x, threshold, "demanded of the mean")},
                  .y_high = 1};
  page.chart(to_svg(chart));
}

void show_memory(Page& page, const MemoryFidelity& memory) {
  page.heading("Memory");
  page.paragraph(fmt::format(
      "Peak memory of the attention of layer {} with its projections, beyond what was there before. "
      "Naive is the baseline by its definition, with n x n maps; dense is the baseline's fused path.",
      memory.layer));
  std::vector<PageRow> rows;
  const auto share = [](double value) {
    return std::isnan(value) ? "-" : fmt::format("{:.1f} %", 100 * value);
  };
  for (const MemoryPoint& point : memory.points)
    rows.push_back(
        {.cells = {fmt::format("{} tokens, {}", point.tokens, point.training ? "training" : "inference"),
                   bytes_text(point.candidate.attention), bytes_text(point.dense.attention),
                   point.naive ? bytes_text(point.naive->attention) : "-", share(point.saving()),
                   share(point.saving_against_dense()), bytes_text(point.candidate.process)}});
  page.table(
      {"", "candidate", "dense", "naive", "saved against naive", "against dense", "process with candidate"},
      rows);
  for (const std::string& remark : memory.remarks) page.paragraph(remark);
}

std::string files_of(const ModelIdentity& model) {
  std::string text;
  for (const FileIdentity& file : model.files) text += fmt::format("{}  {}\n", file.sha256, file.name);
  return text;
}

void show_model(Page& page, const char* role, const ModelIdentity& model) {
  page.paragraph(fmt::format("{}: {}{}; {}, {:.4g} million parameters, {}", role, model.name,
                             model.attention.empty() ? "" : " with the attention " + model.attention,
                             model.family, static_cast<double>(model.parameters) / 1e6,
                             plural(model.layers, "layer")));
  if (!model.files.empty()) page.code(files_of(model));
  if (!model.formula.empty()) page.code(model.formula);
}

}  // namespace

std::string to_page(const Certificate& certificate) {
  const Fidelity& fidelity = certificate.fidelity;
  const std::string candidate =
      certificate.candidate.attention.empty() ? certificate.candidate.name : certificate.candidate.attention;
  Page page(fmt::format("Fidelity certificate: {} beside {}", candidate, certificate.baseline.name));
  const bool certified = passed(certificate.criteria);
  std::string verdict = verdict_of(certificate.criteria);
  verdict.front() = certified ? 'C' : 'N';
  std::vector<std::string> names;
  for (const FileIdentity& file : certificate.data) names.push_back(file.name);
  page.banner(
      certified ? Tone::good : Tone::bad, verdict,
      fmt::format("Both models read {} of {}, in windows of at most {}.",
                  plural(fidelity.text_tokens, "token"), join(names, ", "), certificate.options.context));

  page.heading("Criteria");
  std::vector<PageRow> rows;
  for (const Criterion& each : certificate.criteria)
    rows.push_back({.cells = {each.title, each.shown, each.demanded.empty() ? "-" : each.demanded,
                              std::string(name_of(each.verdict))},
                    .tone = each.verdict == Verdict::passed   ? Tone::good
                            : each.verdict == Verdict::failed ? Tone::bad
                                                              : Tone::plain,
                    .note = each.measured});
  page.table({"criterion", "measured", "demanded", "verdict"}, rows);

  if (fidelity.tokens || fidelity.embeddings || fidelity.maps) page.heading("Where the difference is");
  if (fidelity.tokens) draw_divergences(page, fidelity.tokens->kl);
  if (fidelity.embeddings)
    draw_cosines(page, fidelity.embeddings->cosines, certificate.thresholds.min_accuracy);
  if (fidelity.maps) draw_maps(page, *fidelity.maps, certificate.thresholds);
  if (fidelity.gradients) draw_gradients(page, *fidelity.gradients, certificate.thresholds);
  if (fidelity.memory && !fidelity.memory->points.empty()) show_memory(page, *fidelity.memory);

  page.heading("Do it again");
  page.code(certificate.command);
  page.heading("What was compared");
  show_model(page, "Baseline", certificate.baseline);
  show_model(page, "Candidate", certificate.candidate);
  page.paragraph("Data, by SHA-256:");
  std::string data;
  for (const FileIdentity& file : certificate.data) data += fmt::format("{}  {}\n", file.sha256, file.name);
  page.code(data);
  page.paragraph(fmt::format("Saccade {}, {}, seed {}", SACCADE_VERSION,
                             plural(certificate.threads, "thread"), certificate.options.seed));
  return page.finish();
}

}  // namespace saccade
