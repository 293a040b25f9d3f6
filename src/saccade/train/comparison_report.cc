// A comparison for people: one table, three pictures.
#include <cmath>
#include <map>

#include "saccade/base/text.h"
#include "saccade/report/chart.h"
#include "saccade/train/comparison.h"
#include "saccade/train/run_directory.h"

namespace saccade {

namespace fs = std::filesystem;

namespace {

template <class Get>
Spread over_runs(const VariantResult& result, Get get) {
  std::vector<double> values;
  for (const RunOutcome& run : result.runs) values.push_back(get(run));
  return spread_of(values);
}

std::string number(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : "-";
}

// How many steps the curve of each run is averaged over, so that noise of single batches does not hide it.
constexpr size_t kWindow = 10;

std::map<int64_t, double> smooth_losses(const fs::path& run) {
  std::map<int64_t, double> result;
  std::vector<double> window;
  for (const Json& line : RunDirectory::read_lines(run / "metrics.jsonl")) {
    if (!line.at("loss").is_number()) continue;
    window.push_back(line.at("loss"));
    if (window.size() < kWindow) continue;
    double mean = 0;
    for (const double value : window) mean += value / static_cast<double>(kWindow);
    result[line.at("step")] = mean;
    window.clear();
  }
  return result;
}

}  // namespace

std::string table_of(const Comparison& comparison) {
  const std::vector<double> base = comparison.variants.front().losses();
  const bool answers = std::isfinite(comparison.variants.front().runs.front().answers);
  std::vector<std::string> header{"attention", "parameters", "loss", "+-", "difference", "p"};
  if (comparison.translates()) header.insert(header.end(), {"BLEU", "BLEU +-", "BLEU difference", "BLEU p"});
  if (answers) header.emplace_back("answers");
  for (size_t index = 1; index < comparison.lengths.size(); ++index)
    header.push_back(fmt::format("loss {}x", comparison.lengths[index]));
  for (const std::string& corruption : comparison.corruptions) header.push_back("+ " + corruption);
  header.insert(header.end(), {"tokens/s", "MiB"});
  Table table(header);
  for (const VariantResult& result : comparison.variants) {
    const bool first = &result == &comparison.variants.front();
    const std::vector<double> losses = result.losses();
    const Spread loss = spread_of(losses);
    std::vector<std::string> row{result.variant.name + (result.variant.control ? " (control)" : ""),
                                 std::to_string(result.runs.front().parameters),
                                 number(loss.mean, 4),
                                 number(loss.deviation, 4),
                                 first ? "" : fmt::format("{:+.4f}", loss.mean - spread_of(base).mean),
                                 first ? "" : number(paired_p_value(losses, base), 3)};
    if (comparison.translates()) {
      const Spread bleu = spread_of(result.bleus());
      row.push_back(number(bleu.mean, 2));
      row.push_back(number(bleu.deviation, 2));
      const PairedBootstrap found =
          first ? PairedBootstrap{} : result.bleu_difference(comparison.variants.front());
      row.push_back(first ? "" : fmt::format("{:+.2f}", found.difference));
      row.push_back(first ? "" : number(found.p, 3));
    }
    if (answers) {
      const Spread share = over_runs(result, [](const RunOutcome& run) { return 100 * run.answers; });
      row.push_back(number(share.mean, 1) + " %");
    }
    for (size_t index = 1; index < comparison.lengths.size(); ++index)
      row.push_back(number(over_runs(result,
                                     [&](const RunOutcome& run) {
                                       return index < run.length_losses.size() ? run.length_losses[index]
                                                                               : NAN;
                                     })
                               .mean,
                           4));
    for (size_t index = 0; index < comparison.corruptions.size(); ++index)
      row.push_back(number(over_runs(result,
                                     [&](const RunOutcome& run) {
                                       return index < run.damage.size() ? run.damage[index] : NAN;
                                     })
                               .mean,
                           4));
    row.push_back(
        number(over_runs(result, [](const RunOutcome& run) { return run.tokens_per_second; }).mean, 0));
    row.push_back(number(
        over_runs(result,
                  [](const RunOutcome& run) { return static_cast<double>(run.peak_bytes) / (1 << 20); })
            .mean,
        0));
    table.add(row);
  }
  return table.print();
}

std::vector<NamedPicture> pictures_of(const Comparison& comparison, const fs::path& directory,
                                      const std::string& title) {
  LineChart curves{
      .title = "Training loss", .subtitle = title, .x_label = "step", .y_label = "loss per token"};
  LineChart lengths{.title = "Loss at other lengths",
                    .subtitle = title,
                    .x_label = "length, as a multiple of the training's",
                    .y_label = "validation loss",
                    .log_x = true,
                    .x_ticks = comparison.lengths};
  BarChart results{
      .title = "Validation loss", .subtitle = title, .value_label = "loss per token", .horizontal = true};
  BarSeries bars{.name = "loss"};
  for (const VariantResult& result : comparison.variants) {
    std::map<int64_t, std::vector<double>> by_step;
    for (const RunOutcome& run : result.runs) {
      const fs::path folder = directory / run_folder(result.variant, run.seed);
      for (const auto& [step, loss] : smooth_losses(folder)) by_step[step].push_back(loss);
    }
    Series curve{.name = result.variant.name};
    for (const auto& [step, losses] : by_step) {
      const Spread spread = spread_of(losses);
      curve.x.push_back(static_cast<double>(step));
      curve.y.push_back(spread.mean);
      curve.low.push_back(spread.mean - spread.deviation);
      curve.high.push_back(spread.mean + spread.deviation);
    }
    curves.series.push_back(std::move(curve));
    Series line{.name = result.variant.name, .markers = true};
    for (size_t index = 0; index < comparison.lengths.size(); ++index) {
      line.x.push_back(comparison.lengths[index]);
      line.y.push_back(over_runs(result, [&](const RunOutcome& run) {
                         return index < run.length_losses.size() ? run.length_losses[index] : NAN;
                       }).mean);
    }
    lengths.series.push_back(std::move(line));
    const Spread loss = spread_of(result.losses());
    results.categories.push_back(result.variant.name);
    bars.values.push_back(loss.mean);
    bars.low.push_back(loss.mean - loss.deviation);
    bars.high.push_back(loss.mean + loss.deviation);
  }
  results.series.push_back(std::move(bars));
  std::vector<NamedPicture> pictures{{"losses.svg", to_svg(curves)}, {"results.svg", to_svg(results)}};
  if (comparison.lengths.size() > 1) pictures.push_back({"lengths.svg", to_svg(lengths)});
  return pictures;
}

}  // namespace saccade
