// One query row at a time, in the order of the definition: dot products, formula, norms, sum.
#include "saccade/certify/oracle.h"

#include <cmath>
#include <limits>

#include "saccade/formula/evaluator.h"

namespace saccade {
namespace {

using torch::Tensor;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
using Row = std::vector<double>;

Tensor in_double(const Tensor& tensor) {
  return tensor.defined() ? tensor.detach().to(torch::kCPU, torch::kDouble).contiguous() : tensor;
}

std::vector<Tensor> in_double(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> result;
  for (const Tensor& tensor : tensors) result.push_back(in_double(tensor));
  return result;
}

// The weights of one norm over a row, and the logarithm of its divisor.
double normalise(Op kind, const Row& x, const std::vector<bool>& allowed, double sink, Row& weights) {
  double shift = kind == Op::softmax ? sink : 0;
  for (size_t j = 0; j < x.size(); ++j)
    if (allowed[j] && kind != Op::l1) shift = std::max(shift, x[j]);
  if (shift == -kInfinity) shift = 0;
  double sum = kind == Op::softmax ? std::exp(sink - shift) : 0;
  for (size_t j = 0; j < x.size(); ++j) {
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

class Oracle {
 public:
  Oracle(const Plan& plan, const PairInputs& inputs)
      : plan_(plan),
        inputs_(inputs),
        shape_{.queries = inputs.queries[0].size(2),
               .keys = inputs.value.size(2),
               .offset = inputs.offset,
               .first_key = inputs.first_key},
        heads_(inputs.queries[0].size(1)),
        group_(heads_ / inputs.value.size(1)),
        query_vectors_(in_double(inputs.queries)),
        key_vectors_(in_double(inputs.keys)),
        tables_(in_double(inputs.tables)),
        value_(in_double(inputs.value)),
        roots_(roots_of(plan)),
        program_(compile(plan, roots_)),
        evaluator_(program_),
        streams_(plan.streams.size(), Row(static_cast<size_t>(shape_.keys))),
        values_(roots_.size(), Row(static_cast<size_t>(shape_.keys))),
        normalised_(plan.norms.size(), Row(static_cast<size_t>(shape_.keys))) {}

  AttentionResult run() {
    const int64_t batch = query_vectors_[0].size(0);
    AttentionResult result;
    result.output = torch::zeros({batch, heads_, shape_.queries, value_.size(3)}, torch::kDouble);
    result.weights = torch::zeros({batch, heads_, shape_.queries, shape_.keys}, torch::kDouble);
    for (size_t norm = 0; norm < plan_.norms.size(); ++norm)
      result.log_sums.push_back(torch::full({batch, heads_, shape_.queries}, -kInfinity, torch::kDouble));
    if (shape_.keys == 0) return result;
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t h = 0; h < heads_; ++h) {
        const auto views = views_of_head(b, h);
        evaluator_.prepare(shape_, h, heads_, views);
        const double scale = scale_of_head(h, views);
        for (int64_t i = 0; i < shape_.queries; ++i) run_row(b, h, i, scale, result);
      }
    }
    return result;
  }

 private:
  // The mask, then for each norm its argument, then for each its sink (or something to ignore), then the
  // coefficients.
  static std::vector<NodeId> roots_of(const Plan& plan) {
    std::vector<NodeId> roots{plan.mask};
    for (const NormInfo& norm : plan.norms) roots.push_back(norm.argument);
    for (const NormInfo& norm : plan.norms) roots.push_back(norm.sink == kNoNode ? plan.mask : norm.sink);
    for (const TermInfo& term : plan.terms) roots.push_back(term.coefficient);
    return roots;
  }

  std::vector<TableView<double>> views_of_head(int64_t b, int64_t h) const {
    std::vector<TableView<double>> views;
    for (size_t index = 0; index < tables_.size(); ++index) {
      const Tensor& table = tables_[index];
      TableView<double> view;
      view.data =
          table.select(0, table.size(0) > 1 ? b : 0).select(0, table.size(1) > 1 ? h : 0).data_ptr<double>();
      const std::vector<Dimension> dimensions = plan_.tables[index].subscripted();
      for (size_t place = 0; place < dimensions.size(); ++place) {
        view.size[place] = table.size(static_cast<int64_t>(place) + 2);
        view.stride[place] = table.stride(static_cast<int64_t>(place) + 2);
        view.origin[place] =
            origin_of(dimensions[place], view.size[place], inputs_.offset, inputs_.first_key);
      }
      views.push_back(view);
    }
    return views;
  }

  double scale_of_head(int64_t h, std::span<const TableView<double>> views) const {
    if (plan_.scale == kNoNode) return 1 / std::sqrt(static_cast<double>(query_vectors_[0].size(3)));
    const Program program = compile(plan_, {plan_.scale});
    Evaluator<double> evaluator(program);
    evaluator.prepare(shape_, h, heads_, views);
    double scale = 0;
    double* out[] = {&scale};
    evaluator.run(0, 0, 1, {}, out);
    return scale;
  }

  void run_row(int64_t b, int64_t h, int64_t i, double scale, AttentionResult& result) {
    dot_products(b, h, i, scale);
    std::vector<const double*> streams;
    std::vector<double*> outputs;
    for (const Row& row : streams_) streams.push_back(row.data());
    for (Row& row : values_) outputs.push_back(row.data());
    evaluator_.run(i, 0, shape_.keys, streams, outputs);

    std::vector<bool> allowed(static_cast<size_t>(shape_.keys));
    for (int64_t j = 0; j < shape_.keys; ++j)
      allowed[static_cast<size_t>(j)] =
          values_[0][static_cast<size_t>(j)] != 0 &&
          (!inputs_.key_mask.defined() || inputs_.key_mask.index({b, j}).item<bool>());
    const size_t norms = plan_.norms.size();
    for (size_t norm = 0; norm < norms; ++norm) {
      const double sink = plan_.norms[norm].sink == kNoNode ? -kInfinity : values_[1 + norms + norm][0];
      const double log_sum =
          normalise(plan_.norms[norm].kind, values_[1 + norm], allowed, sink, normalised_[norm]);
      result.log_sums[norm].index_put_({b, h, i}, log_sum);
    }
    double* weights = result.weights.index({b, h, i}).data_ptr<double>();
    double* output = result.output.index({b, h, i}).data_ptr<double>();
    const double* values = value_.index({b, h / group_}).data_ptr<double>();
    for (int64_t j = 0; j < shape_.keys; ++j) {
      if (!allowed[static_cast<size_t>(j)]) continue;
      for (size_t term = 0; term < plan_.terms.size(); ++term) {
        const int norm = plan_.terms[term].norm;
        const double factor = norm < 0 ? 1 : normalised_[static_cast<size_t>(norm)][static_cast<size_t>(j)];
        weights[j] += values_[1 + 2 * norms + term][static_cast<size_t>(j)] * factor;
      }
      for (int64_t c = 0; c < value_.size(3); ++c) output[c] += weights[j] * values[j * value_.size(3) + c];
    }
  }

  void dot_products(int64_t b, int64_t h, int64_t i, double scale) {
    for (size_t stream = 0; stream < plan_.streams.size(); ++stream) {
      const StreamInfo& info = plan_.streams[stream];
      const Tensor query = query_vectors_[static_cast<size_t>(info.query_vector + 1)].index({b, h, i});
      const Tensor key = key_vectors_[static_cast<size_t>(info.key_vector + 1)].index({b, h / group_});
      const double *left = query.data_ptr<double>(), *right = key.data_ptr<double>();
      for (int64_t j = 0; j < shape_.keys; ++j, right += key.size(1)) {
        double dot = 0;
        for (int64_t c = 0; c < key.size(1); ++c) dot += left[c] * right[c];
        streams_[stream][static_cast<size_t>(j)] = scale * dot;
      }
    }
  }

  const Plan& plan_;
  const PairInputs& inputs_;
  const MapShape shape_;
  const int64_t heads_, group_;
  const std::vector<Tensor> query_vectors_, key_vectors_, tables_;
  const Tensor value_;
  const std::vector<NodeId> roots_;
  const Program program_;
  Evaluator<double> evaluator_;
  std::vector<Row> streams_, values_, normalised_;
};

}  // namespace

AttentionResult oracle_attention(const Plan& plan, const PairInputs& inputs) {
  return Oracle(plan, inputs).run();
}

}  // namespace saccade
