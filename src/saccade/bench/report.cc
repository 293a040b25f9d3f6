// Rows to cells.
#include "saccade/bench/report.h"

#include <torch/version.h>

#include <algorithm>
#include <cmath>

#include "saccade/base/text.h"
#include "saccade/bench/rivals.h"

namespace saccade::bench {
namespace {

std::string milliseconds(double seconds) { return fmt::format("{:.3g}", 1e3 * seconds); }
std::string megabytes(int64_t bytes) { return fmt::format("{:.2f}", static_cast<double>(bytes) / 1e6); }
std::string error_text(double error) { return error == -1 ? "-" : fmt::format("{:.0e}", error); }

Json error_json(double error) { return error == -1 ? Json() : Json(error); }

std::string peak_text(const Peak& peak) {
  return fmt::format(
      "a product of 2048 x 2048 float matrices runs at {:.0f} GF/s, multiply-adds in registers alone at "
      "{:.0f}",
      peak.gigaflops, peak.arithmetic);
}

// Empty on a quiet machine.
std::string warning(const Circumstances& circumstances) {
  if (circumstances.peak.cores >= 0.9 * circumstances.threads) return "";
  return fmt::format(
      "Do not trust these times: {} had {:.1f} cores, since something else keeps the machine busy.\n\n",
      plural(circumstances.threads, "thread"), circumstances.peak.cores);
}

// The share of a row's weight that leaving out negligible tiles may cost: each is below epsilon.
double weight_lost(const ComparisonOptions& options, const ComparisonRow& row) {
  if (row.skipped.negligible == 0) return 0;
  const int64_t tiles = (row.length + kernels::kTileKeys - 1) / kernels::kTileKeys;
  return options.epsilon * static_cast<double>(tiles);
}

}  // namespace

std::string comparison_text(const ComparisonOptions& options, const Circumstances& circumstances,
                            const std::vector<ComparisonRow>& rows) {
  const int64_t kv_heads = options.kv_heads > 0 ? options.kv_heads : options.heads;
  std::string text = fmt::format("batch {}, {} on {}, width {}, {}, {}; {}\n\n", options.batch,
                                 plural(options.heads, "head"), plural(kv_heads, "key head"), options.width,
                                 c10::toString(options.dtype), plural(circumstances.threads, "thread"),
                                 peak_text(circumstances.peak));
  text += warning(circumstances);
  Table table({"formula", "work", "n", "by", "ms", "spread", "time / ours", "GF/s", "of sgemm", "of peak",
               "MB", "error"});
  std::vector<std::string> notes;
  for (const ComparisonRow& row : rows) {
    const std::string by =
        row.path.empty() ? row.contestant : fmt::format("{} ({})", row.contestant, row.path);
    if (!row.failure.empty()) {
      notes.push_back(fmt::format("{} {} n={}, {}: {}\n", row.formula, name_of(row.task), row.length,
                                  row.contestant, row.failure));
      continue;
    }
    table.add({row.formula, std::string(name_of(row.task)), std::to_string(row.length), by,
               milliseconds(row.seconds.median),
               fmt::format("{}-{}", milliseconds(row.seconds.low), milliseconds(row.seconds.high)),
               fmt::format("{:.2f}x", row.ratio.median), fmt::format("{:.1f}", row.useful_gigaflops),
               fmt::format("{:.0f} %", 100 * row.useful_gigaflops / circumstances.peak.gigaflops),
               fmt::format("{:.0f} %", 100 * row.useful_gigaflops / circumstances.peak.arithmetic),
               megabytes(row.bytes), error_text(row.error)});
  }
  text += table.print();
  if (!notes.empty()) text += "\nNot measured\n";
  for (const std::string& note : notes) text += "  " + note;
  Table skips({"formula", "work", "n", "tiles", "emptied by the mask", "negligible", "weight lost, at most"});
  for (const ComparisonRow& row : rows)
    if (row.skipped.empty + row.skipped.negligible > 0)
      skips.add({row.formula, std::string(name_of(row.task)), std::to_string(row.length),
                 std::to_string(row.skipped.tiles), std::to_string(row.skipped.empty),
                 std::to_string(row.skipped.negligible), fmt::format("{:.1e}", weight_lost(options, row))});
  if (skips.rows() > 0) text += "\nTiles that ours left out\n" + skips.print();
  const std::vector<GrowthRow> growths = growth(rows);
  if (!growths.empty()) {
    Table exponents({"formula", "work", "by", "time", "memory"});
    for (const GrowthRow& row : growths)
      exponents.add({row.formula, std::string(name_of(row.task)), row.contestant,
                     fmt::format("n^{:.2f}", row.time), fmt::format("n^{:.2f}", row.memory)});
    text += "\nGrowth with the length\n" + exponents.print();
  }
  text += "\nBy\n";
  const auto shown = [&](std::string_view name) {
    return std::ranges::find(rows, name, &ComparisonRow::contestant) != rows.end();
  };
  for (const Rival& rival : rivals())
    if (shown(rival.name)) text += fmt::format("  {:<12}{}\n", rival.name, rival.what);
  if (shown("plain sdpa"))
    text += fmt::format("  {:<12}{}\n", "plain sdpa", "SDPA plain or causal: another result, as a yardstick");
  text +=
      "Times are medians; pairs that the mask forbids are no useful work; MB is the peak beyond what was "
      "there\n"
      "before, output and gradients included; the error is the largest difference from ours, relative.\n";
  return text;
}

Json comparison_json(const ComparisonOptions& options, const Circumstances& circumstances,
                     const std::vector<ComparisonRow>& rows) {
  Json list = Json::array(), growths = Json::array();
  for (const ComparisonRow& row : rows) {
    Json json = {{"formula", row.formula},
                 {"work", name_of(row.task)},
                 {"n", row.length},
                 {"by", row.contestant},
                 {"failure", row.failure.empty() ? Json() : Json(row.failure)}};
    if (!row.path.empty()) json["path"] = row.path;
    if (row.skipped.tiles > 0)
      json["skipped"] = {{"tiles", row.skipped.tiles},
                         {"empty", row.skipped.empty},
                         {"negligible", row.skipped.negligible},
                         {"weight_lost_at_most", weight_lost(options, row)}};
    if (row.failure.empty())
      json.update({{"seconds", row.seconds.median},
                   {"seconds_low", row.seconds.low},
                   {"seconds_high", row.seconds.high},
                   {"ratio", row.ratio.median},
                   {"ratio_low", row.ratio.low},
                   {"ratio_high", row.ratio.high},
                   {"gigaflops", row.useful_gigaflops},
                   {"share_of_sgemm", row.useful_gigaflops / circumstances.peak.gigaflops},
                   {"share_of_peak", row.useful_gigaflops / circumstances.peak.arithmetic},
                   {"bytes", row.bytes},
                   {"error", error_json(row.error)}});
    list.push_back(std::move(json));
  }
  for (const GrowthRow& row : growth(rows))
    growths.push_back({{"formula", row.formula},
                       {"work", name_of(row.task)},
                       {"by", row.contestant},
                       {"time", row.time},
                       {"memory", row.memory}});
  return {{"torch", TORCH_VERSION},
          {"threads", circumstances.threads},
          {"sgemm_gigaflops", circumstances.peak.gigaflops},
          {"peak_gigaflops", circumstances.peak.arithmetic},
          {"busy_cores", circumstances.peak.cores},
          {"batch", options.batch},
          {"heads", options.heads},
          {"kv_heads", options.kv_heads > 0 ? options.kv_heads : options.heads},
          {"width", options.width},
          {"dtype", c10::toString(options.dtype)},
          {"rows", list},
          {"growth", growths}};
}

std::string targets_text(const Circumstances& circumstances, const std::vector<Outcome>& outcomes) {
  Table table({"aim", "target", "measured", "spread", "mark", "", "GF/s", "needed", "error"});
  int64_t missed = 0, beyond = 0;
  std::string notes;
  for (const Outcome& outcome : outcomes) {
    const Comparison comparison = outcome.target.comparison;
    const bool measured = outcome.failure.empty();
    missed += outcome.met() ? 0 : 1;
    const bool out_of_reach =
        measured && !outcome.met() && outcome.needed_gigaflops > circumstances.peak.arithmetic;
    beyond += out_of_reach;
    if (!measured) notes += fmt::format("  {}: {}\n", outcome.target.name, outcome.failure);
    table.add({outcome.target.row, outcome.target.name,
               measured ? value_text(comparison, outcome.value.median) : "-",
               measured ? fmt::format("{:.2f}-{:.2f}", outcome.value.low, outcome.value.high) : "-",
               mark_text(comparison, outcome.target.mark),
               outcome.met()       ? "pass"
               : !outcome.agrees() ? "WRONG"
               : out_of_reach      ? "MISS*"
                                   : "MISS",
               outcome.gigaflops > 0 ? fmt::format("{:.0f}", outcome.gigaflops) : "-",
               outcome.needed_gigaflops > 0 ? fmt::format("{:.0f}", outcome.needed_gigaflops) : "-",
               error_text(outcome.error)});
  }
  std::string text = warning(circumstances) + table.print();
  if (!notes.empty()) text += "\nNot measured\n" + notes;
  text += fmt::format("\n{} of {} met\n", static_cast<int64_t>(outcomes.size()) - missed,
                      plural(static_cast<int64_t>(outcomes.size()), "target"));
  text += fmt::format("GF/s are of useful work, ours and what the mark needs; here {}\n",
                      peak_text(circumstances.peak));
  if (beyond > 0)
    text += fmt::format("* the mark needs more than that: {} out of reach here\n", plural(beyond, "target"));
  for (const TargetRow& row : target_rows())
    if (!row.measured_by.empty()) text += fmt::format("{}: see {}\n", row.name, row.measured_by);
  return text;
}

}  // namespace saccade::bench
