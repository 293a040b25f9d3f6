// Tokens are handled chunk by chunk. Within a chunk the pairs are formed and masked; what lies in other
// chunks comes through running sums, forwards over keys for outputs and gradients of queries, backwards over
// queries for gradients of keys and values. Features are recomputed in the backward pass: nothing that is
// kept is larger than the inputs.
//
// How overflow is avoided, exactly causally: every query and key divides its features by its own largest.
// For a query that cancels in the quotient. For a key the logarithm of that divisor, its log_size, goes into
// the sums as exp(log_size - m) with m the running maximum over the keys seen so far, as in a softmax that is
// computed online. All factors are at most 1, one of them is 1, and none knows of a later key.
#include "saccade/attention/random_features.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "saccade/base/error.h"

namespace saccade {
namespace {

using torch::Tensor;
constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// Below the log_size of any key; finite, so that the difference of two is not NaN.
constexpr double kNoKey = -1e30;

// Added to features, whose largest is 1 for each vector. So a sum over keys is never 0 when a query and its
// keys have their large features in different places, where the estimate is worthless but must stay finite.
double least_feature(const Tensor& tensor) { return tensor.scalar_type() == torch::kDouble ? 1e-100 : 1e-20; }

struct Queries {
  Tensor features;  // [sets, query heads * count, features]
  Tensor log_size;  // [sets, query heads, count]
};

struct Keys {
  int64_t count;
  Tensor features;  // [sets, count, features]
  Tensor log_size;  // [sets, count]; -inf for hidden keys
  Tensor value;     // [sets, count, d_v + 1], the last number is 1
};

// A call cut into chunks. The first chunks hold the keys of the prefix alone; then chunk by chunk queries and
// the keys that begin to be seen with them.
class Chunks {
 public:
  explicit Chunks(const FeatureCall& call)
      : call_(call),
        directions_(call.directions * std::sqrt(call.scale)),
        least_(least_feature(call.query)),
        later_(torch::ones({call.chunk, call.chunk}, call.query.options().dtype(torch::kBool)).triu(1)) {}

  int64_t queries() const { return call_.query.size(2); }
  // The keys that begin to be seen with queries first .. first + count - 1: where they begin, how many.
  std::pair<int64_t, int64_t> keys_of(int64_t first, int64_t count) const {
    const int64_t begin = std::min(call_.prefix + first, call_.key.size(1));
    return {begin, std::min(count, call_.key.size(1) - begin)};
  }
  template <class Action>
  static void each(int64_t tokens, int64_t chunk, Action&& action) {
    for (int64_t first = 0; first < tokens; first += chunk) action(first, std::min(chunk, tokens - first));
  }

  Queries query_chunk(int64_t first, int64_t count) const {
    const Tensor& query = call_.query;
    const auto [features, log_size] = positive(torch::matmul(
        query.narrow(2, first, count).reshape({query.size(0), -1, query.size(3)}), directions_.t()));
    return {features, log_size.view({query.size(0), query.size(1), count})};
  }

  Keys key_chunk(int64_t first, int64_t count) const {
    if (count == 0) return {0, {}, {}, {}};
    const Tensor key = call_.key.narrow(1, first, count);
    Tensor logs = torch::matmul(key, directions_.t());
    logs = logs - key.square().sum(-1, true) * (call_.scale / 2);
    auto [features, log_size] = positive(logs);
    if (call_.hidden.defined())
      log_size = log_size.masked_fill(call_.hidden.narrow(1, first, count), kMinusInfinity);
    return {count, features, log_size,
            torch::constant_pad_nd(call_.value.narrow(1, first, count), {0, 1}, 1)};
  }

  // Through the exponential function and the directions, back to the vectors. Takes the gradient's memory.
  Tensor through_features(Tensor gradient, const Tensor& features, Tensor* sum = nullptr) const {
    gradient.mul_(features - least_);
    if (sum) *sum = gradient.sum(-1, true);
    return torch::matmul(gradient, directions_);
  }
  Tensor key_gradient(const Tensor& gradient, const Keys& keys, int64_t first) const {
    Tensor sum;
    const Tensor result = through_features(gradient, keys.features, &sum);
    return result - call_.key.narrow(1, first, keys.count) * sum * call_.scale;
  }

  FeatureSums begin() const {
    if (call_.before.sums.defined()) return {call_.before.sums.clone(), call_.before.maximum};
    const auto options = call_.query.options();
    return {torch::zeros({call_.key.size(0), call_.directions.size(0), call_.value.size(2) + 1}, options),
            torch::full({call_.key.size(0)}, kNoKey, options)};
  }
  void absorb_prefix(FeatureSums& state) const {
    each(std::min(call_.prefix, call_.key.size(1)), call_.chunk, [&](int64_t first, int64_t count) {
      const Keys keys = key_chunk(first, count);
      absorb(state, keys, torch::maximum(state.maximum, keys.log_size.amax(1)));
    });
  }
  static void absorb(FeatureSums& state, const Keys& keys, const Tensor& maximum) {
    state.sums.mul_(torch::exp(state.maximum - maximum).view({-1, 1, 1}));
    if (keys.count > 0)
      state.sums.baddbmm_((keys.features * sizes(keys, maximum)).transpose(1, 2), keys.value);
    state.maximum = maximum;
  }
  // exp(log_size - maximum) for a maximum [sets], as [sets, count, 1].
  static Tensor sizes(const Keys& keys, const Tensor& maximum) {
    return torch::exp(keys.log_size - maximum.unsqueeze(1)).unsqueeze(-1);
  }

  // For each query of a chunk the largest log_size that it sees, [sets, count].
  static Tensor row_maxima(const Tensor& before, const Keys& keys, int64_t count) {
    if (keys.count == 0) return before.unsqueeze(1).expand({-1, count});
    const Tensor rows = torch::maximum(std::get<0>(torch::cummax(keys.log_size, 1)), before.unsqueeze(1));
    if (keys.count == count) return rows;
    return torch::cat({rows, rows.narrow(1, keys.count - 1, 1).expand({-1, count - keys.count})}, 1);
  }
  // What the product of features of a query and a key within a chunk is multiplied by: [sets, 1, count,
  // keys].
  Tensor pair_factors(const Keys& keys, const Tensor& rows) const {
    const Tensor later = later_.narrow(0, 0, rows.size(1)).narrow(1, 0, keys.count);
    return (keys.log_size.unsqueeze(1) - rows.unsqueeze(2))
        .masked_fill_(later, kMinusInfinity)
        .exp_()
        .unsqueeze(1);
  }
  // Multiplies [sets, query heads * count, any] by a number for each query, [sets, count].
  Tensor by_query(const Tensor& tensor, const Tensor& factors) const {
    return by_head(tensor).mul(factors.unsqueeze(1).unsqueeze(-1)).view(tensor.sizes());
  }
  Tensor by_head(const Tensor& tensor) const {
    return tensor.view({tensor.size(0), call_.query.size(1), -1, tensor.size(2)});
  }
  // Products of rows and columns of a chunk, [sets, query heads * count, keys], multiplied by pair factors.
  Tensor pairs(const Tensor& rows, const Tensor& columns, const Tensor& factors) const {
    const Tensor product = torch::bmm(rows, columns.transpose(1, 2));
    by_head(product).mul_(factors);
    return product;
  }

 private:
  std::pair<Tensor, Tensor> positive(const Tensor& logs) const {
    const Tensor largest = logs.detach().amax(-1, true);
    return {torch::exp(logs - largest) + least_, largest.squeeze(-1)};
  }

  const FeatureCall& call_;
  const Tensor directions_;  // scaled, so that their products with vectors are logarithms
  const double least_;
  const Tensor later_;
};

// The part with gradients. Its outputs are output, log_sum, and the sums after all keys.
class RandomFeatureFunction : public torch::autograd::Function<RandomFeatureFunction> {
 public:
  using Context = torch::autograd::AutogradContext;
  using List = torch::autograd::variable_list;

  static List forward(Context* context, const Tensor& query, const Tensor& key, const Tensor& value,
                      const Tensor& directions, const std::optional<Tensor>& hidden,
                      const std::optional<Tensor>& sums, const std::optional<Tensor>& maximum, double scale,
                      int64_t prefix, int64_t chunk) {
    const FeatureCall call{query,      key,   value,
                           directions, scale, hidden.value_or(Tensor()),
                           prefix,     chunk, {sums.value_or(Tensor()), maximum.value_or(Tensor())}};
    const Chunks chunks(call);
    const int64_t width = value.size(2);
    const std::vector<int64_t> rows{query.size(0), query.size(1), query.size(2)};
    const Tensor output = torch::empty({rows[0], rows[1], rows[2], width}, value.options()),
                 divisor = torch::empty(rows, value.options()), log_sum = torch::empty(rows, value.options());
    FeatureSums state = chunks.begin();
    chunks.absorb_prefix(state);
    Chunks::each(chunks.queries(), chunk, [&](int64_t first, int64_t count) {
      const auto [first_key, key_count] = chunks.keys_of(first, count);
      const Queries queries = chunks.query_chunk(first, count);
      const Keys keys = chunks.key_chunk(first_key, key_count);
      const Tensor maxima = Chunks::row_maxima(state.maximum, keys, count);
      Tensor sum = chunks.by_query(torch::bmm(queries.features, state.sums),
                                   torch::exp(state.maximum.unsqueeze(1) - maxima));
      if (keys.count > 0)
        sum.baddbmm_(chunks.pairs(queries.features, keys.features, chunks.pair_factors(keys, maxima)),
                     keys.value);
      sum = chunks.by_head(sum);
      const Tensor weight = sum.select(-1, width), empty = weight == 0;
      divisor.narrow(2, first, count).copy_(weight);
      output.narrow(2, first, count)
          .copy_(sum.narrow(-1, 0, width) / weight.masked_fill(empty, 1).unsqueeze(-1));
      log_sum.narrow(2, first, count)
          .copy_((torch::log(weight) + queries.log_size + maxima.unsqueeze(1))
                     .masked_fill(empty, kMinusInfinity));
      Chunks::absorb(state, keys, maxima.select(1, count - 1));
    });
    context->save_for_backward(
        {query, key, value, directions, call.hidden, call.before.sums, call.before.maximum, output, divisor});
    context->saved_data["scale"] = scale;
    context->saved_data["prefix"] = prefix;
    context->saved_data["chunk"] = chunk;
    context->mark_non_differentiable({state.sums, state.maximum});
    return {output, log_sum, state.sums, state.maximum};
  }

  static List backward(Context* context, const List& gradients) {
    require(!torch::GradMode::is_enabled(),
            "performer: random-feature attention can be differentiated only once; a second derivative "
            "(create_graph) was asked for");
    const List saved = context->get_saved_variables();
    const FeatureCall call{saved[0],
                           saved[1],
                           saved[2],
                           saved[3],
                           context->saved_data["scale"].toDouble(),
                           saved[4],
                           context->saved_data["prefix"].toInt(),
                           context->saved_data["chunk"].toInt(),
                           {saved[5], saved[6]}};
    const Chunks chunks(call);
    const Gradient gradient{saved[7], saved[8], gradients[0], gradients[1]};
    Tensor query, key, value;
    const Tensor maxima = go_forwards(call, chunks, gradient, query);
    go_backwards(call, chunks, gradient, maxima, key, value);
    return {query, key, value, {}, {}, {}, {}, {}, {}, {}};
  }

 private:
  // What arrives at the sums of a chunk's queries, before division: [sets, query heads * count, d_v + 1].
  struct Gradient {
    Tensor output, divisor, by_output, by_log_sum;

    Tensor chunk(int64_t first, int64_t count) const {
      const Tensor divided_by = divisor.narrow(2, first, count);
      Tensor numerator, weight;
      if (by_output.defined()) {
        numerator = by_output.narrow(2, first, count);
        weight = -(numerator * output.narrow(2, first, count)).sum(-1);
      } else {
        numerator = torch::zeros_like(output.narrow(2, first, count));
        weight = torch::zeros_like(divided_by);
      }
      if (by_log_sum.defined()) weight = weight + by_log_sum.narrow(2, first, count);
      const Tensor result = torch::cat({numerator, weight.unsqueeze(-1)}, -1)
                                .div_(divided_by.unsqueeze(-1))
                                .masked_fill_((divided_by == 0).unsqueeze(-1), 0);
      return result.flatten(1, 2);
    }
  };

  // The gradients of queries, from the sums over earlier keys. Returns the running maxima before each chunk,
  // and the last, [chunks + 1, sets]: one tensor, because many small ones that live on between large ones
  // that do not would scatter the memory.
  static Tensor go_forwards(const FeatureCall& call, const Chunks& chunks, const Gradient& gradient,
                            Tensor& by_query) {
    by_query = torch::empty_like(call.query, torch::MemoryFormat::Contiguous);
    const Tensor result = torch::empty(
        {(chunks.queries() + call.chunk - 1) / call.chunk + 1, call.key.size(0)}, call.query.options());
    FeatureSums state = chunks.begin();
    chunks.absorb_prefix(state);
    Chunks::each(chunks.queries(), call.chunk, [&](int64_t first, int64_t count) {
      const auto [first_key, key_count] = chunks.keys_of(first, count);
      const Queries queries = chunks.query_chunk(first, count);
      const Keys keys = chunks.key_chunk(first_key, key_count);
      const Tensor maxima = Chunks::row_maxima(state.maximum, keys, count);
      const Tensor arriving = gradient.chunk(first, count);
      const Tensor decay = torch::exp(state.maximum.unsqueeze(1) - maxima);
      Tensor by_feature = torch::bmm(chunks.by_query(arriving, decay), state.sums.transpose(1, 2));
      if (keys.count > 0)
        by_feature.baddbmm_(chunks.pairs(arriving, keys.value, chunks.pair_factors(keys, maxima)),
                            keys.features);
      by_query.narrow(2, first, count)
          .copy_(chunks.by_head(chunks.through_features(by_feature, queries.features)));
      result[first / call.chunk].copy_(state.maximum);
      Chunks::absorb(state, keys, maxima.select(1, count - 1));
    });
    result[-1].copy_(state.maximum);
    return result;
  }

  // The gradients of keys and values, from the sums over later queries. These are divided by exp(-m), with m
  // the running maximum up to the chunk: later queries have one at least as large.
  static void go_backwards(const FeatureCall& call, const Chunks& chunks, const Gradient& gradient,
                           const Tensor& maxima_between, Tensor& by_key, Tensor& by_value) {
    by_key = torch::zeros_like(call.key, torch::MemoryFormat::Contiguous);
    by_value = torch::zeros_like(call.value, torch::MemoryFormat::Contiguous);
    const int64_t width = call.value.size(2);
    const Tensor sums = torch::zeros_like(chunks.begin().sums);
    const auto finish = [&](const Keys& keys, int64_t first, Tensor by_feature, Tensor by_sum,
                            const Tensor& m) {
      const Tensor sizes = Chunks::sizes(keys, m);
      by_feature = by_feature.baddbmm_(keys.value * sizes, sums.transpose(1, 2));
      by_sum = by_sum.baddbmm_(keys.features * sizes, sums);
      by_key.narrow(1, first, keys.count).copy_(chunks.key_gradient(by_feature, keys, first));
      by_value.narrow(1, first, keys.count).copy_(by_sum.narrow(-1, 0, width));
    };
    for (int64_t place = maxima_between.size(0) - 2; place >= 0; --place) {
      const int64_t first = place * call.chunk, count = std::min(call.chunk, chunks.queries() - first);
      const Tensor before = maxima_between[place], after = maxima_between[place + 1];
      const auto [first_key, key_count] = chunks.keys_of(first, count);
      const Queries queries = chunks.query_chunk(first, count);
      const Keys keys = chunks.key_chunk(first_key, key_count);
      const Tensor maxima = Chunks::row_maxima(before, keys, count);
      const Tensor arriving = gradient.chunk(first, count);
      if (keys.count > 0) {
        const Tensor factors = chunks.pair_factors(keys, maxima);
        const Tensor weights = chunks.pairs(queries.features, keys.features, factors);
        const Tensor by_weight = chunks.pairs(arriving, keys.value, factors);
        finish(keys, first_key, torch::bmm(by_weight.transpose(1, 2), queries.features),
               torch::bmm(weights.transpose(1, 2), arriving), after);
      }
      sums.mul_(torch::exp(before - after).view({-1, 1, 1}));
      const Tensor decay = torch::exp(before.unsqueeze(1) - maxima);
      sums.baddbmm_(chunks.by_query(queries.features, decay).transpose(1, 2), arriving);
    }
    Chunks::each(std::min(call.prefix, call.key.size(1)), call.chunk, [&](int64_t first, int64_t count) {
      const Keys keys = chunks.key_chunk(first, count);
      finish(keys, first, torch::zeros_like(keys.features), torch::zeros_like(keys.value), maxima_between[0]);
    });
  }
};

std::optional<Tensor> if_defined(const Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

}  // namespace

// Gram-Schmidt on normal vectors, twice for full precision. Unlike LAPACK's QR it needs no sign correction to
// be uniform over the rotations, and gives the same numbers with every LibTorch.
at::Tensor draw_directions(RandomStream& stream, int64_t count, int64_t width) {
  Tensor result = torch::empty({count, width}, torch::kDouble);
  const auto row = [&](int64_t index) { return result.data_ptr<double>() + index * width; };
  const auto dot = [&](const double* a, const double* b) {
    double sum = 0;
    for (int64_t place = 0; place < width; ++place) sum += a[place] * b[place];
    return sum;
  };
  for (int64_t index = 0; index < count; ++index) {
    double* current = row(index);
    for (int64_t place = 0; place < width; ++place) current[place] = stream.normal();
    for (int repeat = 0; repeat < 2; ++repeat)
      for (int64_t other = index - index % width; other < index; ++other) {
        const double along = dot(current, row(other));
        for (int64_t place = 0; place < width; ++place) current[place] -= along * row(other)[place];
      }
    const double length = std::sqrt(dot(current, current));
    for (int64_t place = 0; place < width; ++place) current[place] /= length;
  }
  // The length of a normal vector, drawn anew: that of the vector itself has lost its orthogonal part.
  for (int64_t index = 0; index < count; ++index) {
    double square = 0;
    for (int64_t place = 0; place < width; ++place) {
      const double number = stream.normal();
      square += number * number;
    }
    for (int64_t place = 0; place < width; ++place) row(index)[place] *= std::sqrt(square);
  }
  return result;
}

FeatureResult random_feature_attention(const FeatureCall& call) {
  invariant(call.prefix >= 0 && call.chunk > 0,
            "random features: a call without chunk or with a negative prefix");
  const auto results = RandomFeatureFunction::apply(
      call.query, call.key, call.value, call.directions, if_defined(call.hidden),
      if_defined(call.before.sums), if_defined(call.before.maximum), call.scale, call.prefix, call.chunk);
  // A query's |q|^2 is the same for all keys: it and the number of features matter for this sum alone.
  const Tensor log_sum = results[1] - call.query.square().sum(-1) * (call.scale / 2) -
                         std::log(static_cast<double>(call.directions.size(0)));
  return {results[0], log_sum, {results[2], results[3]}};
}

at::Tensor random_feature_weights(const FeatureCall& call) {
  invariant(!call.before.sums.defined(), "random features: weights of keys that are gone");
  const Chunks chunks(call);
  const int64_t count = call.query.size(2), keys_count = call.key.size(1);
  const Queries queries = chunks.query_chunk(0, count);
  if (keys_count == 0)
    return torch::zeros({call.query.size(0), call.query.size(1), count, 0}, call.query.options());
  const Keys keys = chunks.key_chunk(0, keys_count);
  const Tensor unseen =
      torch::ones({count, keys_count}, call.query.options().dtype(torch::kBool)).triu(call.prefix + 1);
  const Tensor logs = keys.log_size.unsqueeze(1).masked_fill(unseen, kMinusInfinity);
  const Tensor sizes = torch::exp(logs - logs.amax(-1, true).clamp_min(kNoKey)).unsqueeze(1);
  const Tensor product = chunks.by_head(torch::bmm(queries.features, keys.features.transpose(1, 2))) * sizes;
  const Tensor sum = product.sum(-1, true);
  return product / sum.masked_fill(sum == 0, 1);
}

}  // namespace saccade
