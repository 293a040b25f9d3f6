// Singular values give the ranks; the mean cosine of all pairs follows from the length of the sum of the unit
// vectors, without looking at pairs.
#include "saccade/diagnose/rank.h"

#include <torch/types.h>

#include "saccade/attention/shapes.h"
#include "saccade/base/error.h"

namespace saccade {

using at::Tensor;

namespace {

// The mean of the numbers that are defined.
double defined_mean(const Tensor& values) { return at::nanmean(values).item<double>(); }

struct Ranks {
  Tensor stable, effective, rank_one_residual;  // [batch]
};

Ranks ranks_of(const Tensor& x) {
  const Tensor values = at::linalg_svdvals(x);  // [batch, min(tokens, width)], largest first
  const Tensor squares = values.square(), whole = squares.sum(-1);
  const Tensor shares = values / values.sum(-1, true);
  return {whole / squares.select(-1, 0), at::special_entr(shares).sum(-1).exp(),
          (squares.narrow(-1, 1, squares.size(-1) - 1).sum(-1) / whole).sqrt()};
}

}  // namespace

RankMeasures measure_rank(const Tensor& all) {
  require(all.dim() == 3 && all.size(0) > 0 && all.size(1) > 0 && all.size(2) > 0,
          "diagnose: the tokens have shape {}; expected [batch, tokens, width], none of them 0",
          shape_text(all));
  const torch::NoGradGuard no_gradient;
  Tensor x = all.detach().to(torch::kDouble);
  // Singular values of what is not finite do not exist, and looking for them may not end.
  const Tensor finite = x.isfinite().flatten(1).all(1);
  x = x.index_select(0, finite.nonzero().squeeze(1));
  if (x.size(0) == 0) {
    const double none = std::numeric_limits<double>::quiet_NaN();
    return {none, none, none, none, none, none, none, none, none};
  }
  const Tensor centred = x - x.mean(1, true);
  const Ranks plain = ranks_of(x), without_mean = ranks_of(centred);
  const Tensor norms = x.norm(2, -1, true), units = x / norms;
  // A vector of length 0 has no direction and makes no pair.
  const Tensor counted = (norms > 0).sum(1).squeeze(-1).to(torch::kDouble);
  const Tensor sums = units.nan_to_num(0, 0, 0).sum(1).square().sum(-1);
  const Tensor cosine = (sums - counted) / (counted * (counted - 1));
  // One token, or equal ones, leave nothing when centred; rounding must not look like a rank.
  const Tensor size = x.flatten(1).norm(2, 1), rest = centred.flatten(1).norm(2, 1);
  const Tensor nothing = rest <= size * 1e-12;
  const auto unless_nothing = [&](const Tensor& ranks) {
    return defined_mean(ranks.masked_fill(nothing, std::numeric_limits<double>::quiet_NaN()));
  };
  return {.stable_rank = defined_mean(plain.stable),
          .effective_rank = defined_mean(plain.effective.masked_fill(size == 0, std::nan(""))),
          .centred_stable_rank = unless_nothing(without_mean.stable),
          .centred_effective_rank = unless_nothing(without_mean.effective),
          .mean_residual = defined_mean(rest / size),
          .rank_one_residual = defined_mean(plain.rank_one_residual),
          .cosine = defined_mean(cosine.masked_fill(counted < 2, std::nan(""))),
          .token_norm = norms.mean().item<double>(),
          .longest_share = defined_mean((norms.amax({1, 2}) / size).square())};
}

}  // namespace saccade
