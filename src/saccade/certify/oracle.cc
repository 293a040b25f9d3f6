// One query row at a time.
#include "saccade/certify/oracle.h"

#include <cmath>
#include <limits>

#include "saccade/base/error.h"
#include "saccade/formula/evaluator.h"

namespace saccade {
namespace {

using torch::Tensor;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor in_double(const Tensor& tensor) {
  return tensor.detach().to(torch::kCPU, torch::kDouble).contiguous();
}

std::vector<TableView<double>> views_of_head(const Plan& plan, const PairInputs& inputs,
                                             const std::vector<Tensor>& tables, int64_t batch, int64_t head) {
  std::vector<TableView<double>> views;
  for (size_t index = 0; index < tables.size(); ++index) {
    const Tensor& table = tables[index];
    TableView<double> view;
    view.data = table.select(0, table.size(0) > 1 ? batch : 0)
                    .select(0, table.size(1) > 1 ? head : 0)
                    .data_ptr<double>();
    const std::vector<Dimension> dimensions = plan.tables[index].subscripted();
    for (size_t place = 0; place < dimensions.size(); ++place) {
      const auto dimension = static_cast<int64_t>(place) + 2;
      view.size[place] = table.size(dimension);
      view.stride[place] = table.stride(dimension);
      using Kind = Dimension::Kind;
      const Kind kind = dimensions[place].kind;
      view.origin[place] = kind == Kind::token || kind == Kind::key ? inputs.first_key
                           : kind == Kind::query                    ? inputs.offset
                           : kind == Kind::rel                      ? -((view.size[place] - 1) / 2)
                                                                    : 0;
    }
    views.push_back(view);
  }
  return views;
}

// The weights of one norm over a row, and the logarithm of its divisor.
double normalise(Op kind, const std::vector<double>& x, const std::vector<bool>& allowed, double sink,
                 std::vector<double>& weights) {
  const size_t keys = x.size();
  double shift = 0;
  if (kind == Op::softmax) {
    shift = sink;
    for (size_t j = 0; j < keys; ++j)
      if (allowed[j]) shift = std::max(shift, x[j]);
    if (shift == -kInfinity) shift = 0;
  } else if (kind == Op::softpick) {
    for (size_t j = 0; j < keys; ++j)
      if (allowed[j]) shift = std::max(shift, x[j]);
  }
  double sum = kind == Op::softmax ? std::exp(sink - shift) : 0;
  for (size_t j = 0; j < keys; ++j) {
    weights[j] = 0;
    if (!allowed[j]) continue;
    const double value = kind == Op::softmax ? std::exp(x[j] - shift)
                         : kind == Op::l1    ? x[j]
                         : x[j] > 0          ? -std::exp(x[j] - shift) * std::expm1(-x[j])
                                             : std::exp(-shift) * std::expm1(x[j]);
    sum += std::fabs(value);
    weights[j] = kind == Op::softpick ? std::max(value, 0.0) : value;
  }
  if (sum == 0) return -kInfinity;
  for (double& weight : weights) weight /= sum;
  return std::log(sum) + shift;
}

}  // namespace

AttentionResult oracle_attention(const Plan& plan, const PairInputs& inputs) {
  const int64_t batch = inputs.queries[0].size(0), heads = inputs.queries[0].size(1),
                queries = inputs.queries[0].size(2);
  const int64_t kv_heads = inputs.value.size(1), keys = inputs.value.size(2), width = inputs.value.size(3);
  // The roots: mask, scale, and for each norm its argument and sink, then the coefficients.
  std::vector<NodeId> roots{plan.mask};
  for (const NormInfo& norm : plan.norms) roots.push_back(norm.argument);
  for (const NormInfo& norm : plan.norms) roots.push_back(norm.sink == kNoNode ? plan.mask : norm.sink);
  for (const TermInfo& term : plan.terms) roots.push_back(term.coefficient);
  const Program program = compile(plan, roots);
  const Program scale_program =
      compile(plan, plan.scale == kNoNode ? std::vector<NodeId>{} : std::vector{plan.scale});

  std::vector<Tensor> tables, query_vectors, key_vectors;
  for (const Tensor& table : inputs.tables) tables.push_back(in_double(table));
  for (const Tensor& vector : inputs.queries)
    query_vectors.push_back(vector.defined() ? in_double(vector) : vector);
  for (const Tensor& vector : inputs.keys)
    key_vectors.push_back(vector.defined() ? in_double(vector) : vector);
  const Tensor value = in_double(inputs.value);

  AttentionResult result;
  result.output = torch::zeros({batch, heads, queries, width}, torch::kDouble);
  result.weights = torch::zeros({batch, heads, queries, keys}, torch::kDouble);
  for (size_t norm = 0; norm < plan.norms.size(); ++norm)
    result.log_sums.push_back(torch::zeros({batch, heads, queries}, torch::kDouble));
  if (keys == 0) {
    for (Tensor& log_sum : result.log_sums) log_sum.fill_(-kInfinity);
    return result;
  }
  Evaluator<double> evaluator(program), scale_evaluator(scale_program);
  const MapShape shape{
      .queries = queries, .keys = keys, .offset = inputs.offset, .first_key = inputs.first_key};
  std::vector<std::vector<double>> stream_rows(plan.streams.size(),
                                               std::vector<double>(static_cast<size_t>(keys)));
  std::vector<std::vector<double>> rows(roots.size(), std::vector<double>(static_cast<size_t>(keys)));
  std::vector<std::vector<double>> normalised(plan.norms.size(),
                                              std::vector<double>(static_cast<size_t>(keys)));
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      const auto views = views_of_head(plan, inputs, tables, b, h);
      const int64_t kv_head = h / (heads / kv_heads);
      evaluator.prepare(shape, h, heads, views);
      double scale = 1 / std::sqrt(static_cast<double>(inputs.queries[0].size(3)));
      if (plan.scale != kNoNode) {
        scale_evaluator.prepare(shape, h, heads, views);
        double* out[] = {&scale};
        scale_evaluator.run(0, 0, 1, {}, out);
      }
      for (int64_t i = 0; i < queries; ++i) {
        for (size_t stream = 0; stream < plan.streams.size(); ++stream) {
          const auto& info = plan.streams[stream];
          const Tensor q = query_vectors[static_cast<size_t>(info.query_vector + 1)].index({b, h, i});
          const Tensor k = key_vectors[static_cast<size_t>(info.key_vector + 1)].index({b, kv_head});
          for (int64_t j = 0; j < keys; ++j) {
            double dot = 0;
            const double *left = q.data_ptr<double>(), *right = k.data_ptr<double>() + j * k.size(1);
            for (int64_t c = 0; c < k.size(1); ++c) dot += left[c] * right[c];
            stream_rows[stream][static_cast<size_t>(j)] = scale * dot;
          }
        }
        std::vector<const double*> streams;
        std::vector<double*> outputs;
        for (auto& row : stream_rows) streams.push_back(row.data());
        for (auto& row : rows) outputs.push_back(row.data());
        evaluator.run(i, 0, keys, streams, outputs);

        std::vector<bool> allowed(static_cast<size_t>(keys));
        for (int64_t j = 0; j < keys; ++j)
          allowed[static_cast<size_t>(j)] =
              rows[0][static_cast<size_t>(j)] != 0 &&
              (!inputs.key_mask.defined() || inputs.key_mask.index({b, j}).item<bool>());
        for (size_t norm = 0; norm < plan.norms.size(); ++norm) {
          const double sink =
              plan.norms[norm].sink == kNoNode ? -kInfinity : rows[1 + plan.norms.size() + norm][0];
          const double log_sum =
              normalise(plan.norms[norm].kind, rows[1 + norm], allowed, sink, normalised[norm]);
          result.log_sums[norm].index_put_({b, h, i}, log_sum);
        }
        double* weights = result.weights.index({b, h, i}).data_ptr<double>();
        double* output = result.output.index({b, h, i}).data_ptr<double>();
        const double* values = value.index({b, kv_head}).data_ptr<double>();
        for (int64_t j = 0; j < keys; ++j) {
          if (!allowed[static_cast<size_t>(j)]) continue;
          for (size_t term = 0; term < plan.terms.size(); ++term) {
            const double coefficient = rows[1 + 2 * plan.norms.size() + term][static_cast<size_t>(j)];
            const int norm = plan.terms[term].norm;
            weights[j] += norm < 0
                              ? coefficient
                              : coefficient * normalised[static_cast<size_t>(norm)][static_cast<size_t>(j)];
          }
          for (int64_t c = 0; c < width; ++c) output[c] += weights[j] * values[j * width + c];
        }
      }
    }
  }
  return result;
}

}  // namespace saccade
