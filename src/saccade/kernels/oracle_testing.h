// What the kernels are held against: plain loops over single pairs in double, forwards and backwards, that
// know nothing of tiles, strips or cuts.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "saccade/formula/derivative.h"
#include "saccade/formula/evaluator.h"
#include "saccade/kernels/arrays.h"
#include "saccade/kernels/storage.h"

namespace saccade::kernels::testing {

// A sum, and the sum of the sizes of what was added: rounding errors are in proportion to the second.
struct Sums {
  std::vector<double> value, size;

  explicit Sums(int64_t count = 0)
      : value(static_cast<size_t>(count), 0.0), size(static_cast<size_t>(count), 0.0) {}
  void add(int64_t at, double what, double how_large) {
    value[static_cast<size_t>(at)] += what;
    size[static_cast<size_t>(at)] += how_large;
  }
};

struct Expected {
  Sums output, log_sums;
  std::vector<Sums> queries, keys;  // gradients, by vector
  Sums value;
  std::vector<Sums> tables;  // [batch or 1, head or 1, elements]
};

// The rows of one head.
struct Rows {
  Rows(const Array& array, int64_t batch, int64_t head, int64_t tokens) : width(array.width) {
    for (int64_t token = 0; token < tokens; ++token)
      for (int64_t feature = 0; feature < width; ++feature)
        numbers.push_back(load_number<double>(array.data, array.storage,
                                              batch * array.batch_stride + head * array.head_stride +
                                                  token * array.token_stride +
                                                  feature * array.feature_stride));
  }
  const double* operator[](int64_t row) const { return numbers.data() + row * width; }

  int64_t width;
  std::vector<double> numbers;
};

// `Real` is the type that tables are stored in.
template <class Real>
class Oracle {
 public:
  Oracle(const Plan& plan, const Inputs& inputs, const Table* key_mask)
      : plan_(plan), inputs_(inputs), shape_(inputs.shape), key_mask_(key_mask) {
    mask_ = want(plan_.mask);
    for (const TermInfo& info : plan.terms) {
      Term term{.coefficient = source(info.coefficient)};
      if (info.norm >= 0) {
        const NormInfo& norm = plan.norms[static_cast<size_t>(info.norm)];
        term.norm = norm.kind;
        term.argument = source(norm.argument);
        if (norm.sink != kNoNode) term.sink = source(norm.sink);
      }
      terms_.push_back(term);
    }
    if (plan.scale != kNoNode) scale_ = source(plan.scale);
    program_ = compile(plan_, roots_);
  }

  // Gradients are left at 0 without an output gradient. Log-sums are [norm, batch, head, query].
  Expected run(const Array* output_gradient, const double* log_sum_gradients) {
    const int64_t rows = shape_.batch * shape_.heads * shape_.queries;
    const int64_t key_rows = shape_.batch * shape_.key_heads * shape_.keys;
    int64_t norms = 0;
    for (const Term& term : terms_) norms += term.norm.has_value();
    expected_ = Expected();
    expected_.output = Sums(rows * inputs_.value.width);
    expected_.log_sums = Sums(rows * norms);
    for (const Array& array : inputs_.queries) expected_.queries.emplace_back(rows * array.width);
    for (const Array& array : inputs_.keys) expected_.keys.emplace_back(key_rows * array.width);
    expected_.value = Sums(key_rows * inputs_.value.width);
    for (size_t index = 0; index < plan_.tables.size(); ++index) {
      const Table& table = inputs_.tables[index];
      expected_.tables.emplace_back((table.batch_stride ? shape_.batch : 1) *
                                    (table.head_stride ? shape_.heads : 1) * table.elements());
    }
    for (int64_t batch = 0; batch < shape_.batch; ++batch)
      for (int64_t head = 0; head < shape_.heads; ++head)
        run_head(batch, head, output_gradient, log_sum_gradients);
    return std::move(expected_);
  }

 private:
  // A root of the program together with its derivatives by streams and elements of tables.
  struct Derivative {
    int stream = -1, table = -1;
    size_t value = 0;
    std::vector<size_t> subscripts;
  };
  struct Source {
    size_t value = 0;
    std::vector<Derivative> derivatives;
  };
  struct Term {
    std::optional<Op> norm;
    Source coefficient;
    std::optional<Source> argument, sink;
  };
  using Values = std::vector<std::vector<double>>;  // [root][key]

  size_t want(NodeId node) {
    roots_.push_back(node);
    return roots_.size() - 1;
  }

  Source source(NodeId node) {
    Source result{.value = want(node)};
    const auto is_target = [this](NodeId id) {
      const Node& at = plan_.graph[id];
      return at.op == Op::stream ||
             (at.op == Op::read && plan_.tables[static_cast<size_t>(at.symbol)].differentiable());
    };
    for (const Partial& partial : differentiate(plan_.graph, node, is_target)) {
      const Node by = plan_.graph[partial.by];
      Derivative derivative{.value = want(partial.value)};
      (by.op == Op::stream ? derivative.stream : derivative.table) = by.symbol;
      for (NodeId subscript : by.args) derivative.subscripts.push_back(want(subscript));
      result.derivatives.push_back(derivative);
    }
    return result;
  }

  static int64_t place(double subscript, int64_t size, int64_t origin) {
    if (std::isnan(subscript)) return 0;
    return static_cast<int64_t>(
        std::clamp(subscript - static_cast<double>(origin), 0.0, static_cast<double>(size - 1)));
  }

  void load_tables(int64_t batch, int64_t head) {
    contents_.assign(plan_.tables.size(), {});
    views_.assign(plan_.tables.size(), {});
    for (size_t index = 0; index < plan_.tables.size(); ++index) {
      const Table& table = inputs_.tables[index];
      const auto* data =
          static_cast<const Real*>(table.data) + batch * table.batch_stride + head * table.head_stride;
      for (int64_t a = 0; a < table.size[0]; ++a)
        for (int64_t b = 0; b < table.size[1]; ++b)
          for (int64_t c = 0; c < table.size[2]; ++c)
            contents_[index].push_back(
                static_cast<double>(data[a * table.stride[0] + b * table.stride[1] + c * table.stride[2]]));
      views_[index] = {contents_[index].data(),
                       table.size,
                       {table.size[1] * table.size[2], table.size[2], 1},
                       table.origin};
    }
  }

  bool allowed(const Values& values, int64_t batch, int64_t head, int64_t row, int64_t key) const {
    if (values[mask_][static_cast<size_t>(key)] == 0 || !real(batch, key)) return false;
    const Lists& lists = inputs_.lists;
    if (!lists) return true;
    const int32_t* starts = lists.starts + batch * lists.batch_stride + head * lists.head_stride;
    const int64_t tile = row / lists.query_tile;
    return std::find(lists.keys + starts[tile], lists.keys + starts[tile + 1], key / lists.key_tile) !=
           lists.keys + starts[tile + 1];
  }
  bool real(int64_t batch, int64_t key) const {
    return !key_mask_ ||
           static_cast<const Real*>(key_mask_->data)[batch * key_mask_->batch_stride + key] != 0;
  }

  void run_head(int64_t batch, int64_t head, const Array* output_gradient, const double* log_sum_gradients) {
    const int64_t key_head = head / shape_.group(), keys = shape_.keys;
    load_tables(batch, head);
    Evaluator<double> evaluator(program_);
    evaluator.prepare({shape_.queries, keys, shape_.offset, shape_.first_key}, head, shape_.heads, views_);
    std::vector<Rows> queries, key_rows;
    for (const Array& array : inputs_.queries)
      queries.emplace_back(array, batch, head, array ? shape_.queries : 0);
    for (const Array& array : inputs_.keys) key_rows.emplace_back(array, batch, key_head, array ? keys : 0);
    const Rows values(inputs_.value, batch, key_head, keys);
    const Rows gradients =
        output_gradient ? Rows(*output_gradient, batch, head, shape_.queries) : Rows({}, 0, 0, 0);
    Values results(roots_.size(), std::vector<double>(static_cast<size_t>(keys))), streams, dots;
    streams = dots = Values(plan_.streams.size(), std::vector<double>(static_cast<size_t>(keys)));
    std::vector<const double*> stream_pointers;
    std::vector<double*> result_pointers;
    for (auto& stream : streams) stream_pointers.push_back(stream.data());
    for (auto& result : results) result_pointers.push_back(result.data());

    for (int64_t row = 0; row < shape_.queries; ++row) {
      // The scale reads no stream: the first run is for it, the second for all else.
      for (int turn = 0; turn < 2; ++turn) {
        for (size_t index = 0; index < streams.size(); ++index) {
          const auto [q, k] = vectors_of(index);
          const double scale = turn == 0 ? 0
                               : scale_  ? results[scale_->value][0]
                                         : 1 / std::sqrt(static_cast<double>(queries[q].width));
          for (int64_t key = 0; key < keys && turn == 1; ++key) {
            double dot = 0;
            for (int64_t f = 0; f < queries[q].width && real(batch, key); ++f)
              dot += queries[q][row][f] * key_rows[k][key][f];
            dots[index][static_cast<size_t>(key)] = dot;
            streams[index][static_cast<size_t>(key)] = scale * dot;
          }
        }
        if (turn == 1 || scale_) evaluator.run(row, 0, keys, stream_pointers, result_pointers);
      }
      Row at{batch, head, key_head, row, (batch * shape_.heads + head) * shape_.queries + row, {}};
      for (int64_t key = 0; key < keys; ++key)
        if (allowed(results, batch, head, row, key)) at.keys.push_back(key);
      run_row(at, results, dots, queries, key_rows, values, output_gradient ? gradients[row] : nullptr,
              log_sum_gradients);
    }
  }

  struct Row {
    int64_t batch, head, key_head, row, place;
    std::vector<int64_t> keys;  // the allowed ones
  };

  std::pair<size_t, size_t> vectors_of(size_t stream) const {
    return {static_cast<size_t>(plan_.streams[stream].query_vector + 1),
            static_cast<size_t>(plan_.streams[stream].key_vector + 1)};
  }

  void run_row(const Row& at, const Values& results, const Values& dots, const std::vector<Rows>& queries,
               const std::vector<Rows>& keys, const Rows& values, const double* gradient,
               const double* log_sum_gradients) {
    const size_t count = at.keys.size();
    const int64_t width = values.width, key_place = (at.batch * shape_.key_heads + at.key_head) * shape_.keys;
    std::vector<Sums> stream_gradients(plan_.streams.size(), Sums(shape_.keys));
    int64_t norm = 0;
    for (const Term& term : terms_) {
      const auto value_of = [&](const Source& source, size_t k) {
        return results[source.value][static_cast<size_t>(at.keys[k])];
      };
      // The norm: p[k] and its derivative slope[k], so that dp = slope * dx * (own - sign * p).
      std::vector<double> p(count, 1.0), slope(count, 0.0), sign(count, 1.0), own(count, 1.0);
      double log_sum = -std::numeric_limits<double>::infinity(), of_log_sum = 0, sink = 0, largest = 0;
      if (term.norm) {
        const int64_t log_place = norm++ * shape_.batch * shape_.heads * shape_.queries + at.place;
        double high = log_sum, sum = 0;
        if (term.sink) high = sink = results[term.sink->value][0];
        for (size_t k = 0; k < count; ++k) high = std::max(high, value_of(*term.argument, k));
        if (*term.norm != Op::softmax) high = 0;
        for (size_t k = 0; k < count; ++k) {
          const double x = value_of(*term.argument, k);
          largest = std::max(largest, std::fabs(x));
          p[k] = *term.norm == Op::l1 ? x : *term.norm == Op::softpick ? std::expm1(x) : std::exp(x - high);
          slope[k] = *term.norm == Op::l1 ? 1 : std::exp(x - high);
          sign[k] = p[k] > 0 ? 1 : p[k] < 0 ? -1 : 0;
          if (*term.norm == Op::softpick) own[k] = p[k] > 0;
          sum += std::fabs(p[k]);
          if (*term.norm == Op::softpick) p[k] = std::max(p[k], 0.0);
        }
        if (term.sink) sum += std::exp(sink - high);
        if (sum != 0) log_sum = std::log(sum) + high;
        for (double* list : {p.data(), slope.data()})
          for (size_t k = 0; k < count; ++k) list[k] = sum != 0 ? list[k] / sum : 0;
        expected_.log_sums.add(log_place, log_sum, 1 + largest);
        if (log_sum_gradients) of_log_sum = log_sum_gradients[log_place];
      }
      for (size_t k = 0; k < count; ++k) {
        const double weight = p[k] == 0 ? 0 : p[k] * value_of(term.coefficient, k);
        for (int64_t f = 0; f < width; ++f) {
          const double part = weight * values[at.keys[k]][f];
          expected_.output.add(at.place * width + f, part, std::fabs(part));
        }
      }
      if (!gradient) continue;

      Sums of_p(static_cast<int64_t>(count));
      double delta = 0, delta_size = 0;
      for (size_t k = 0; k < count; ++k) {
        const double coefficient = value_of(term.coefficient, k);
        double product = 0, size = 0;
        for (int64_t f = 0; f < width; ++f) {
          product += gradient[f] * values[at.keys[k]][f];
          size += std::fabs(gradient[f] * values[at.keys[k]][f]);
          const double part = p[k] == 0 ? 0 : p[k] * coefficient * gradient[f];
          expected_.value.add((key_place + at.keys[k]) * width + f, part, std::fabs(part));
        }
        of_p.add(static_cast<int64_t>(k), product * coefficient, size * std::fabs(coefficient));
        pass_on(term.coefficient, at, at.keys[k], p[k] * product, std::fabs(p[k]) * size, results,
                stream_gradients);
        if (p[k] == 0) continue;
        delta += p[k] * of_p.value[k];
        delta_size += std::fabs(p[k]) * of_p.size[k];
      }
      if (!term.norm || std::isinf(log_sum)) continue;
      delta -= of_log_sum;
      delta_size += std::fabs(of_log_sum);
      for (size_t k = 0; k < count; ++k)
        pass_on(*term.argument, at, at.keys[k], slope[k] * (own[k] * of_p.value[k] - sign[k] * delta),
                slope[k] * (of_p.size[k] + delta_size), results, stream_gradients);
      if (term.sink) {
        const double share = std::exp(sink - log_sum);
        pass_on(*term.sink, at, 0, -share * delta, share * delta_size, results, stream_gradients);
      }
    }
    if (!gradient) return;
    for (size_t index = 0; index < plan_.streams.size(); ++index) {
      const auto [q, k] = vectors_of(index);
      const double scale =
          scale_ ? results[scale_->value][0] : 1 / std::sqrt(static_cast<double>(queries[q].width));
      for (int64_t key : at.keys) {
        const double part = stream_gradients[index].value[static_cast<size_t>(key)],
                     size = stream_gradients[index].size[static_cast<size_t>(key)];
        for (int64_t f = 0; f < queries[q].width; ++f) {
          const double x = queries[q][at.row][f] * scale, y = keys[k][key][f] * scale;
          expected_.queries[q].add(at.place * queries[q].width + f, part * y, size * std::fabs(y));
          expected_.keys[k].add((key_place + key) * queries[q].width + f, part * x, size * std::fabs(x));
        }
        const double dot = dots[index][static_cast<size_t>(key)];
        if (scale_) pass_on(*scale_, at, 0, part * dot, size * std::fabs(dot), results, stream_gradients);
      }
    }
  }

  // From a value of a pair to what it was computed from. Where no gradient arrives, none leaves.
  void pass_on(const Source& source, const Row& at, int64_t key, double adjoint, double size,
               const Values& results, std::vector<Sums>& stream_gradients) {
    for (const Derivative& derivative : source.derivatives) {
      const double slope = results[derivative.value][static_cast<size_t>(key)];
      if (adjoint == 0 && !std::isfinite(slope)) continue;
      if (derivative.stream >= 0) {
        stream_gradients[static_cast<size_t>(derivative.stream)].add(key, adjoint * slope,
                                                                     size * std::fabs(slope));
        continue;
      }
      const Table& table = inputs_.tables[static_cast<size_t>(derivative.table)];
      int64_t element = 0;
      for (size_t dimension = 0; dimension < 3; ++dimension) {
        element *= table.size[dimension];
        if (dimension < derivative.subscripts.size())
          element += place(results[derivative.subscripts[dimension]][static_cast<size_t>(key)],
                           table.size[dimension], table.origin[dimension]);
      }
      const int64_t head = table.head_stride ? at.head : 0, heads = table.head_stride ? shape_.heads : 1,
                    batch = table.batch_stride ? at.batch : 0;
      expected_.tables[static_cast<size_t>(derivative.table)].add(
          (batch * heads + head) * table.elements() + element, adjoint * slope, size * std::fabs(slope));
    }
  }

  Plan plan_;  // its graph gains the derivatives
  const Inputs& inputs_;
  const Shape& shape_;
  const Table* key_mask_;
  std::vector<NodeId> roots_;
  size_t mask_ = 0;
  std::vector<Term> terms_;
  std::optional<Source> scale_;
  Program program_;
  std::vector<std::vector<double>> contents_;
  std::vector<TableView<double>> views_;
  Expected expected_;
};

}  // namespace saccade::kernels::testing
