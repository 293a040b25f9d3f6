// Each criterion is a few lines: where its number comes from, and the sentence about it.
#include "saccade/certify/fidelity_criteria.h"

#include <cmath>

#include "saccade/base/text.h"

namespace saccade {
namespace {

enum class Style { share, small };

std::string text_of(double value, Style style) {
  if (!std::isfinite(value)) return "not a number";
  return style == Style::share ? fmt::format("{:.4g} %", 100 * value) : fmt::format("{:.4g}", value);
}

class Judge {
 public:
  Judge(const Fidelity& fidelity, const FidelityThresholds& thresholds)
      : fidelity_(fidelity), thresholds_(thresholds) {}

  std::vector<Criterion> run() {
    if (fidelity_.tokens) agreement(*fidelity_.tokens);
    if (fidelity_.embeddings) embeddings(*fidelity_.embeddings);
    if (fidelity_.baseline_task) task();
    maps();
    gradients();
    if (fidelity_.tokens) distributions(*fidelity_.tokens);
    if (fidelity_.memory) memory(*fidelity_.memory);
    if (fidelity_.speed) speed(*fidelity_.speed);
    return std::move(criteria_);
  }

 private:
  void at_least(Criterion criterion, double value, double threshold) {
    criterion.value = value;
    criterion.threshold = threshold;
    criterion.shown = text_of(value, Style::share);
    criterion.demanded = fmt::format("at least {}", text_of(threshold, Style::share));
    // So written, a NaN fails.
    criterion.verdict = value >= threshold ? Verdict::passed : Verdict::failed;
    criteria_.push_back(std::move(criterion));
  }
  void at_most(Criterion criterion, double value, double threshold, Style style) {
    criterion.value = value;
    criterion.threshold = threshold;
    criterion.shown = text_of(value, style);
    criterion.demanded = fmt::format("at most {}", text_of(threshold, style));
    criterion.verdict = value <= threshold ? Verdict::passed : Verdict::failed;
    criteria_.push_back(std::move(criterion));
  }
  void state(Criterion criterion, std::optional<double> value, std::string shown) {
    criterion.value = value;
    criterion.shown = std::move(shown);
    criteria_.push_back(std::move(criterion));
  }
  void missing(Criterion criterion, const std::string& why) {
    criterion.verdict = Verdict::not_applicable;
    criterion.measured = why;
    criterion.shown = "-";
    criteria_.push_back(std::move(criterion));
  }
  // What is kept of something that the baseline does not do at all cannot be said.
  void kept(Criterion criterion, double baseline, double candidate) {
    if (baseline > 0)
      at_least(std::move(criterion), candidate / baseline, thresholds_.min_accuracy);
    else
      missing(std::move(criterion), "the baseline gets nothing right, so there is nothing to keep");
  }

  void agreement(const TokenFidelity& tokens) {
    at_least({.name = "same_top1",
              .title = "same most likely token",
              .measured = fmt::format("share of {} at which both models find the same token most likely",
                                      plural(tokens.tokens(), tokens.all_places ? "place" : "prediction"))},
             tokens.agreement(), thresholds_.min_accuracy);
    kept({.name = "accuracy_kept",
          .title = "accuracy kept",
          .measured = fmt::format(
              "top-1 accuracy of the candidate ({:.2f} %) over the baseline's ({:.2f} %), at {} of {}",
              100 * tokens.candidate.accuracy(), 100 * tokens.baseline.accuracy(),
              plural(tokens.baseline.tokens, "prediction"),
              fidelity_.predicts_next ? "the next token" : "a masked token")},
         tokens.baseline.accuracy(), tokens.candidate.accuracy());
  }

  void embeddings(const EmbeddingFidelity& found) {
    at_least(
        {.name = "embedding_cosine",
         .title = "same embeddings",
         .measured = fmt::format(
             "mean cosine of both models' embeddings of {}; the last hidden states differ by {:.3g} % of "
             "the baseline's norm",
             plural(found.texts, "text"), 100 * found.hidden_distance)},
        found.mean_cosine(), thresholds_.min_accuracy);
    at_least({.name = "same_neighbour",
              .title = "same nearest text",
              .measured = fmt::format("share of {} to which both models find the same other one nearest",
                                      plural(found.texts, "text"))},
             found.neighbour_agreement(), thresholds_.min_accuracy);
    if (found.classifies)
      at_least({.name = "same_label",
                .title = "same label",
                .measured = fmt::format("share of {} that both models give the same label",
                                        plural(found.texts, "text"))},
               found.label_agreement(), thresholds_.min_accuracy);
  }

  void task() {
    const double before = task_accuracy(*fidelity_.baseline_task),
                 after = task_accuracy(*fidelity_.candidate_task);
    kept({.name = "task_kept",
          .title = "task kept",
          .measured = fmt::format("share of hidden things that the candidate finds again ({:.2f} %) over the "
                                  "baseline's ({:.2f} %)",
                                  100 * after, 100 * before)},
         before, after);
  }

  void maps() {
    Criterion criterion{.name = "attention_mse", .title = "attention MSE"};
    if (!fidelity_.maps) return missing(std::move(criterion), fidelity_.no_maps);
    const MapFidelity& maps = *fidelity_.maps;
    criterion.measured = fmt::format(
        "mean over layers, heads and pairs that the baseline's mask allows of the squared difference of "
        "attention weights, each model on its own hidden states, in {} of at most {} tokens; relative to the "
        "mean square of the baseline's weights {:.3g}",
        plural(maps.windows, "window"), maps.longest, maps.relative());
    at_most(std::move(criterion), maps.mse(), thresholds_.max_attention_mse, Style::small);
  }

  void gradients() {
    Criterion criterion{.name = "gradient_cosine", .title = "gradient cosine"};
    if (!fidelity_.gradients) return missing(std::move(criterion), fidelity_.no_gradients);
    const GradientFidelity& gradients = *fidelity_.gradients;
    criterion.measured = fmt::format(
        "lowest over layers of the cosine of both models' gradients of the loss, by what enters the "
        "attention and by its projections, in {} of at most {} tokens; the mean over layers is {:.4g}",
        plural(gradients.windows, "window"), gradients.longest, gradients.mean());
    at_least(std::move(criterion), gradients.lowest(), thresholds_.min_gradient_cosine);
    criteria_.back().shown = text_of(gradients.lowest(), Style::small);
    criteria_.back().demanded =
        fmt::format("at least {}", text_of(thresholds_.min_gradient_cosine, Style::small));
  }

  void distributions(const TokenFidelity& tokens) {
    const TokenSpread kl = spread_of(tokens.kl);
    at_most({.name = "next_token_kl",
             .title = "KL to the baseline",
             .measured = fmt::format("mean over {} of KL(baseline || candidate) of the distributions over "
                                     "tokens, in nats; median {:.3g}, 99th percentile {:.3g}, largest {:.3g}",
                                     plural(tokens.tokens(), tokens.all_places ? "place" : "prediction"),
                                     kl.median, kl.p99, kl.largest)},
            kl.mean, thresholds_.max_kl, Style::small);
    const double change = tokens.perplexity_change();
    Criterion criterion{
        .name = "perplexity_change",
        .title = "perplexity change",
        .measured = fmt::format("perplexity per token of the candidate, {:.5g}, over the baseline's, {:.5g}, "
                                "less one",
                                tokens.candidate.perplexity(), tokens.baseline.perplexity())};
    if (thresholds_.max_perplexity_change)
      at_most(std::move(criterion), change, *thresholds_.max_perplexity_change, Style::share);
    else
      state(std::move(criterion), change, fmt::format("{:+.4g} %", 100 * change));
  }

  void memory(const MemoryFidelity& memory) {
    std::vector<std::string> lengths;
    for (const MemoryPoint& point : memory.points)
      if (!point.training) lengths.push_back(std::to_string(point.tokens));
    for (const bool training : {false, true}) {
      Criterion criterion{.name = training ? "memory_saving_training" : "memory_saving_inference",
                          .title = training ? "memory saved, training" : "memory saved, inference"};
      const double least = memory.least_saving(training);
      if (std::isnan(least)) {
        missing(std::move(criterion),
                memory.remarks.empty() ? "no length was measured" : join(memory.remarks, "; "));
        continue;
      }
      criterion.measured = fmt::format(
          "least share of the peak memory of the attention of layer {} with its projections that the "
          "candidate saves against the baseline's naive path, which holds n x n maps, {} at {} tokens",
          memory.layer, training ? "forward and backward" : "forward", join(lengths, ", "));
      at_least(std::move(criterion), least, thresholds_.min_memory_saving);
    }
    if (memory.points.empty()) return;
    const MemoryPoint& last = memory.points.back();
    state({.name = "memory_saving_dense",
           .title = "memory saved, dense",
           .measured = fmt::format("the same against the baseline's fused path, which holds no such maps, "
                                   "forward and backward at {} tokens",
                                   last.tokens)},
          last.saving_against_dense(), fmt::format("{:.1f} %", 100 * last.saving_against_dense()));
  }

  void speed(const SpeedFidelity& speed) {
    const double ratio = speed.candidate_seconds / speed.baseline_seconds;
    state({.name = "prefill_time",
           .title = "time to read",
           .measured = fmt::format("seconds of the candidate ({:.3g}) over the baseline's ({:.3g}) for {}, "
                                   "medians of {} that took turns",
                                   speed.candidate_seconds, speed.baseline_seconds,
                                   plural(speed.tokens, "token"), plural(speed.rounds, "run"))},
          ratio, fmt::format("{:.3f}x", ratio));
    Criterion cache{.name = "cache_bytes", .title = "KV cache per token"};
    if (!speed.candidate_cache) {
      cache.measured = "the candidate does not decode with a cache";
      return state(std::move(cache), {}, "none");
    }
    cache.measured = fmt::format(
        "bytes of the candidate's KV cache per token after reading {}{}", plural(speed.tokens, "token"),
        speed.baseline_cache ? fmt::format("; the baseline's has {:.0f}", *speed.baseline_cache)
                             : std::string());
    state(std::move(cache), *speed.candidate_cache, fmt::format("{:.0f} bytes", *speed.candidate_cache));
  }

  const Fidelity& fidelity_;
  const FidelityThresholds& thresholds_;
  std::vector<Criterion> criteria_;
};

}  // namespace

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::passed:
      return "passed";
    case Verdict::failed:
      return "failed";
    case Verdict::stated:
      return "stated";
    case Verdict::not_applicable:
      return "not applicable";
  }
  return "";
}

std::vector<Criterion> judge(const Fidelity& fidelity, const FidelityThresholds& thresholds) {
  return Judge(fidelity, thresholds).run();
}

bool passed(std::span<const Criterion> criteria) {
  bool any = false;
  for (const Criterion& each : criteria) {
    if (each.verdict == Verdict::failed) return false;
    any |= each.verdict == Verdict::passed;
  }
  return any;
}

std::string verdict_of(std::span<const Criterion> criteria) {
  std::vector<std::string> failed, missing;
  int64_t demanded = 0;
  for (const Criterion& each : criteria) {
    if (each.verdict == Verdict::passed || each.verdict == Verdict::failed) ++demanded;
    if (each.verdict == Verdict::failed) failed.push_back(each.title);
    if (each.verdict == Verdict::not_applicable) missing.push_back(each.title);
  }
  const std::string rest = missing.empty() ? "" : fmt::format("; not measured: {}", join(missing, ", "));
  if (failed.empty()) return fmt::format("certified: all {} criteria pass{}", demanded, rest);
  return fmt::format("not certified: {} of {} criteria fail: {}{}", failed.size(), demanded,
                     join(failed, ", "), rest);
}

}  // namespace saccade
