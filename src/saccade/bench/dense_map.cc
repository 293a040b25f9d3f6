// One torch operation for each node. Nothing is clever here on purpose, but broadcasting keeps what does not
// depend on the head or on the row from being computed for each of them.
#include "saccade/bench/dense_map.h"

#include <cmath>
#include <limits>

#include "saccade/attention/pointwise.h"
#include "saccade/base/error.h"

namespace saccade::bench {
namespace {

using torch::Tensor;

// Torch's own operation where it has one under that meaning; the rest is rare and takes the reference's.
Tensor apply_plainly(Op op, const std::vector<Tensor>& x) {
  switch (op) {
    case Op::add:
      return x[0] + x[1];
    case Op::subtract:
      return x[0] - x[1];
    case Op::multiply:
      return x[0] * x[1];
    case Op::divide:
      return x[0] / x[1];
    case Op::negate:
      return -x[0];
    case Op::power:
      return torch::pow(x[0], x[1]);
    case Op::abs:
      return torch::abs(x[0]);
    case Op::min:
      return torch::minimum(x[0], x[1]);
    case Op::max:
      return torch::maximum(x[0], x[1]);
    case Op::sqrt:
      return torch::sqrt(x[0]);
    case Op::exp:
      return torch::exp(x[0]);
    case Op::log:
      return torch::log(x[0]);
    case Op::log1p:
      return torch::log1p(x[0]);
    case Op::tanh:
      return torch::tanh(x[0]);
    case Op::sigmoid:
      return torch::sigmoid(x[0]);
    case Op::relu:
      return torch::relu(x[0]);
    case Op::where:
      return torch::where(x[0], x[1], x[2]);
    default:
      return apply_pointwise(op, x);
  }
}

}  // namespace

DenseMap::DenseMap(const Plan& plan, const PairInputs& inputs, Tensor rows)
    : plan_(plan),
      inputs_(inputs),
      rows_(std::move(rows)),
      options_(inputs.queries[0].options().dtype(torch::kFloat).requires_grad(false)),
      values_(static_cast<size_t>(plan.graph.size())) {
  if (inputs.queries[0].scalar_type() == torch::kDouble) options_ = options_.dtype(torch::kDouble);
  if (!rows_.defined())
    rows_ = torch::arange(inputs.offset, inputs.offset + inputs.queries[0].size(2), options_);
}

Tensor DenseMap::value(NodeId root, const Tensor& mask) {
  std::vector<NodeId> roots{root};
  if (plan_.scale != kNoNode) roots.insert(roots.begin(), plan_.scale);
  for (const NodeId id : plan_.graph.reachable(roots)) {
    Tensor& result = values_[static_cast<size_t>(id)];
    if (!result.defined()) result = evaluate(plan_.graph[id], mask);
  }
  return values_[static_cast<size_t>(root)];
}

Tensor DenseMap::without_streams(NodeId node) {
  streams_are_zero_ = true;
  return value(node);
}

Tensor DenseMap::evaluate(const Node& node, const Tensor& mask) {
  std::vector<Tensor> args;
  for (const NodeId arg : node.args) args.push_back(values_[static_cast<size_t>(arg)]);
  switch (node.op) {
    case Op::number:
      if (node.type == Type::boolean)
        return torch::full({1, 1, 1, 1}, node.number != 0, options_.dtype(torch::kBool));
      return torch::full({1, 1, 1, 1}, node.number, options_);
    case Op::variable:
      return variable(static_cast<Variable>(node.symbol));
    case Op::stream:
      if (streams_are_zero_) return torch::zeros({1, 1, 1, 1}, options_);
      return stream(plan_.streams[static_cast<size_t>(node.symbol)]);
    case Op::read:
      return read(node);
    case Op::softmax: {
      invariant(args.size() == 1, "dense map: a softmax with a sink");
      const double infinity = std::numeric_limits<double>::infinity();
      const Tensor scores = mask.defined() ? args[0].masked_fill(mask.logical_not(), -infinity) : args[0];
      return torch::softmax(scores, -1);
    }
    default:
      invariant(!is_norm(node.op), "dense map: a norm that is no softmax");
      return apply_plainly(node.op, args);
  }
}

Tensor DenseMap::variable(Variable variable) const {
  const int64_t heads = inputs_.queries[0].size(1), keys = inputs_.value.size(2);
  const Tensor row = rows_.view({1, 1, -1, 1});
  const Tensor column =
      torch::arange(inputs_.first_key, inputs_.first_key + keys, options_).view({1, 1, 1, -1});
  switch (variable) {
    case Variable::i:
      return row;
    case Variable::j:
      return column;
    case Variable::d:
      return row - column;
    case Variable::h:
      return torch::arange(heads, options_).view({1, -1, 1, 1});
    case Variable::H:
      return torch::full({1, 1, 1, 1}, heads, options_);
    case Variable::n:
      return torch::full({1, 1, 1, 1}, inputs_.first_key + keys, options_);
    default:
      invariant(false, "dense map: an operand variable outside a derivative rule");
      return {};
  }
}

Tensor DenseMap::stream(const StreamInfo& info) const {
  const Tensor& query = inputs_.queries[static_cast<size_t>(info.query_vector + 1)];
  Tensor key = inputs_.keys[static_cast<size_t>(info.key_vector + 1)];
  if (key.size(1) != query.size(1)) key = key.repeat_interleave(query.size(1) / key.size(1), 1);
  if (plan_.scale != kNoNode)
    return torch::matmul(query, key.transpose(-2, -1)) * values_[static_cast<size_t>(plan_.scale)];
  // Scaling the queries costs n x d products where scaling the map would cost n x n.
  return torch::matmul(query * (1 / std::sqrt(static_cast<double>(query.size(-1)))), key.transpose(-2, -1));
}

Tensor DenseMap::read(const Node& node) const {
  const TableInfo& info = plan_.tables[static_cast<size_t>(node.symbol)];
  const Tensor& table = inputs_.tables[static_cast<size_t>(node.symbol)];
  const std::vector<Dimension> dimensions = info.subscripted();
  if (dimensions.empty()) return table.unsqueeze(-1).unsqueeze(-1);
  Tensor place = torch::zeros({1, 1, 1, 1}, options_.dtype(torch::kLong));
  for (size_t index = 0; index < dimensions.size(); ++index) {
    const int64_t size = table.size(static_cast<int64_t>(index) + 2);
    const Tensor subscript = values_[static_cast<size_t>(node.args[index])].detach() -
                             origin_of(dimensions[index], size, inputs_.offset, inputs_.first_key);
    place = place * size + subscript.clamp(0, static_cast<double>(size - 1)).to(torch::kLong);
  }
  const Tensor flat = table.flatten(2);
  const int64_t batch = std::max(flat.size(0), place.size(0)), heads = std::max(flat.size(1), place.size(1));
  const Tensor index = place.expand({batch, heads, place.size(2), place.size(3)});
  return torch::gather(flat.expand({batch, heads, flat.size(2)}), 2, index.flatten(2)).view(index.sizes());
}

}  // namespace saccade::bench
