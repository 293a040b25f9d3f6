// One Search per sequence holds its beams and what it has finished; a step of the model serves all of them at
// once.
#include "saccade/generate/beam.h"

#include <ATen/ops/log_softmax.h>

#include <algorithm>
#include <cmath>

#include "saccade/base/error.h"

namespace saccade {
namespace {

using at::Tensor;

struct Beam {
  std::vector<int64_t> ids;
  double log_probability = 0;
  int64_t row = 0;  // of the last logits
};

struct Extension {
  double log_probability;
  int64_t beam, token;
};

class Search {
 public:
  Search(const BeamOptions& options, int64_t row)
      : options_(options),
        beams_{{.row = row}},
        limit_(options.limits.empty() ? options.max_new_tokens : options.limits[static_cast<size_t>(row)]) {}

  // Follows the best extensions of the beams by one token. With the last token all of them are finished.
  void extend(const Tensor& log_probabilities, bool last);
  std::vector<Hypothesis> best();

  bool done() const { return done_; }
  int64_t limit() const { return limit_; }
  std::vector<Beam>& beams() { return beams_; }

 private:
  std::vector<Extension> best_extensions(const Tensor& log_probabilities) const;
  bool is_end(int64_t token) const {
    return std::ranges::find(options_.end_ids, token) != options_.end_ids.end();
  }
  double score(double log_probability, size_t length) const {
    return log_probability / std::pow(static_cast<double>(length), options_.length_penalty);
  }
  void add(Beam beam, bool ended);

  const BeamOptions& options_;
  std::vector<Beam> beams_;
  int64_t limit_;
  std::vector<Hypothesis> finished_;  // best first
  bool done_ = false;
};

// Enough that, however many of them end, as many beams as allowed go on.
std::vector<Extension> Search::best_extensions(const Tensor& log_probabilities) const {
  const auto count = static_cast<int64_t>(beams_.size());
  const int64_t vocabulary = log_probabilities.size(1);
  const auto keep = std::max<int64_t>(2, 1 + static_cast<int64_t>(options_.end_ids.size())) * options_.beams;
  std::vector<double> before;
  for (const Beam& beam : beams_) before.push_back(beam.log_probability);
  // The rows of a search are neighbours.
  const Tensor sums = log_probabilities.narrow(0, beams_.front().row, count) +
                      torch::tensor(before, torch::kDouble).unsqueeze(1);
  const auto [values, places] = sums.reshape(-1).topk(std::min(keep, count * vocabulary));
  std::vector<Extension> result;
  for (int64_t index = 0; index < values.numel(); ++index) {
    const int64_t place = places.data_ptr<int64_t>()[index];
    result.push_back({values.data_ptr<double>()[index], place / vocabulary, place % vocabulary});
  }
  // Of equally likely ones the lowest id first, as greedy search has it; topk promises no order.
  std::ranges::sort(result, [](const Extension& a, const Extension& b) {
    return a.log_probability != b.log_probability ? a.log_probability > b.log_probability
                                                  : std::pair(a.beam, a.token) < std::pair(b.beam, b.token);
  });
  return result;
}

void Search::add(Beam beam, bool ended) {
  const double reached = score(beam.log_probability, beam.ids.size());
  const auto place =
      std::ranges::find_if(finished_, [&](const Hypothesis& other) { return reached > other.score; });
  finished_.insert(place, {std::move(beam.ids), beam.log_probability, reached, ended});
  if (finished_.size() > static_cast<size_t>(options_.beams)) finished_.pop_back();
}

void Search::extend(const Tensor& log_probabilities, bool last) {
  const std::vector<Extension> extensions = best_extensions(log_probabilities);
  const auto allowed = static_cast<size_t>(options_.beams);
  std::vector<Beam> next;
  for (size_t rank = 0; rank < extensions.size() && next.size() < allowed; ++rank) {
    const Extension& extension = extensions[rank];
    if (!std::isfinite(extension.log_probability)) break;  // what cannot happen
    const bool ends = is_end(extension.token);
    if ((ends || last) && rank >= allowed) continue;  // finished, but not among the best
    Beam beam = beams_[static_cast<size_t>(extension.beam)];
    beam.ids.push_back(extension.token);
    beam.log_probability = extension.log_probability;
    if (ends || last)
      add(std::move(beam), ends);
    else
      next.push_back(std::move(beam));
  }
  beams_ = std::move(next);
  const bool full = finished_.size() >= allowed;
  done_ =
      beams_.empty() || (full && options_.early_stopping) ||
      (full && finished_.back().score >= score(beams_.front().log_probability, beams_.front().ids.size()));
}

std::vector<Hypothesis> Search::best() {
  if (finished_.size() > static_cast<size_t>(options_.n_best))
    finished_.resize(static_cast<size_t>(options_.n_best));
  return std::move(finished_);
}

void check(const Tensor& logits, const BeamOptions& options) {
  require(logits.defined() && logits.dim() == 2 && logits.size(0) > 0 && logits.size(1) > 0,
          "beam search: the logits have {} dimensions; expected [sequences, vocabulary]",
          logits.defined() ? logits.dim() : 0);
  require(options.beams >= 1 && options.beams <= 1024, "beam search: {} beams; expected 1 to 1024",
          options.beams);
  require(options.n_best >= 1 && options.n_best <= options.beams,
          "beam search: the {} best of {} beams; expected 1 to {}", options.n_best, options.beams,
          options.beams);
  require(options.max_new_tokens >= 1, "beam search: {} new tokens; expected at least 1",
          options.max_new_tokens);
  require(options.limits.empty() || static_cast<int64_t>(options.limits.size()) == logits.size(0),
          "beam search: {} limits for {} sequences", options.limits.size(), logits.size(0));
  for (const int64_t limit : options.limits)
    require(limit >= 1, "beam search: {} new tokens; expected at least 1", limit);
  require(std::isfinite(options.length_penalty),
          "beam search: the length penalty is {}; expected a finite number", options.length_penalty);
}

}  // namespace

std::vector<std::vector<Hypothesis>> beam_search(const Tensor& first_logits, const BeamStep& step,
                                                 const BeamOptions& options) {
  torch::NoGradGuard no_gradient;
  check(first_logits, options);
  std::vector<Search> searches;
  for (int64_t row = 0; row < first_logits.size(0); ++row) searches.emplace_back(options, row);
  Tensor logits = first_logits;
  for (int64_t length = 1;; ++length) {
    // In double, so that the order of beams does not hang on how a long sum was rounded.
    const Tensor log_probabilities = at::log_softmax(logits.to(torch::kDouble), -1);
    require(!log_probabilities.isnan().any().item<bool>(), "beam search: the model's logits hold a NaN");
    std::vector<int64_t> ids, rows;
    for (Search& search : searches) {
      if (search.done()) continue;
      search.extend(log_probabilities, length == search.limit());
      if (search.done()) continue;
      for (Beam& beam : search.beams()) {
        ids.push_back(beam.ids.back());
        rows.push_back(std::exchange(beam.row, static_cast<int64_t>(rows.size())));
      }
    }
    if (ids.empty()) break;
    logits = step(torch::tensor(ids, torch::kLong), torch::tensor(rows, torch::kLong));
  }
  std::vector<std::vector<Hypothesis>> results;
  for (Search& search : searches) results.push_back(search.best());
  return results;
}

}  // namespace saccade
