// Evaluates the graph on tensors that broadcast to [batch, head, query, key].
#include "saccade/attention/reference.h"

#include <limits>

#include "saccade/attention/allowed_pairs.h"
#include "saccade/attention/pointwise.h"
#include "saccade/attention/shapes.h"
#include "saccade/base/error.h"
#include "saccade/base/text.h"

namespace saccade {
namespace {

using torch::Tensor;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Keys and values of a grouped head, one copy per query head: query head h uses key head h / (heads / kv
// heads).
Tensor for_each_query_head(const Tensor& tensor, int64_t heads) {
  const int64_t groups = heads / tensor.size(1);
  return groups == 1 ? tensor : tensor.repeat_interleave(groups, 1);
}

class Evaluation {
 public:
  Evaluation(const Plan& plan, const PairInputs& inputs)
      : plan_(plan),
        inputs_(inputs),
        query_(inputs.queries[0]),
        dtype_(compute_dtype(query_)),
        options_(query_.options().dtype(dtype_).requires_grad(false)),
        heads_(query_.size(1)),
        values_(static_cast<size_t>(plan.graph.size())) {}

  AttentionResult run(bool need_weights) {
    AttentionResult result;
    for (NodeId id : plan_.graph.reachable(scale_roots())) values_[slot(id)] = evaluate(id);
    find_mask();
    for (NodeId id : plan_.graph.reachable({plan_.weights}))
      if (!values_[slot(id)].defined()) values_[slot(id)] = evaluate(id);
    Tensor weights = values_[slot(plan_.weights)].masked_fill(mask_.logical_not(), 0);
    weights = weights.expand({query_.size(0), heads_, query_.size(2), inputs_.value.size(2)});
    for (const NormInfo& norm : plan_.norms) result.log_sums.push_back(log_sums_.at(norm.node));
    if (inputs_.dropout > 0) weights = torch::dropout(weights, inputs_.dropout, true);
    const Tensor value = for_each_query_head(without_padding(inputs_.value), heads_).to(dtype_);
    result.output = torch::matmul(weights, value).to(query_.scalar_type());
    if (need_weights) result.weights = weights.to(query_.scalar_type());
    return result;
  }

  Tensor mask() {
    find_mask();
    return mask_;
  }

 private:
  static size_t slot(NodeId id) { return static_cast<size_t>(id); }

  std::vector<NodeId> scale_roots() const {
    return plan_.scale == kNoNode ? std::vector<NodeId>{} : std::vector{plan_.scale};
  }

  void find_mask() {
    for (NodeId id : plan_.graph.reachable({plan_.mask}))
      if (!values_[slot(id)].defined()) values_[slot(id)] = evaluate(id);
    mask_ = values_[slot(plan_.mask)];
    if (inputs_.key_mask.defined()) mask_ = mask_.logical_and(inputs_.key_mask.unsqueeze(1).unsqueeze(2));
    if (inputs_.lists) mask_ = mask_.logical_and(listed());
    mask_ = mask_.expand({query_.size(0), heads_, query_.size(2), inputs_.value.size(2)});
  }

  // The listed keys as a mask [batch or 1, heads or 1, queries, keys].
  Tensor listed() const {
    const KeyLists& lists = *inputs_.lists;
    const Tensor starts = lists.starts.to(torch::kLong).contiguous(), entries = lists.keys.to(torch::kLong);
    const int64_t tiles = starts.size(2) - 1, queries = query_.size(2), keys = inputs_.value.size(2);
    Tensor mask = torch::zeros({starts.size(0), starts.size(1), tiles * lists.query_tile,
                                (keys + lists.key_tile - 1) / lists.key_tile * lists.key_tile},
                               options_.dtype(torch::kBool));
    for (int64_t batch = 0; batch < starts.size(0); ++batch)
      for (int64_t head = 0; head < starts.size(1); ++head)
        for (int64_t tile = 0; tile < tiles; ++tile)
          for (int64_t entry = starts[batch][head][tile].item<int64_t>();
               entry < starts[batch][head][tile + 1].item<int64_t>(); ++entry)
            mask[batch][head]
                .narrow(0, tile * lists.query_tile, lists.query_tile)
                .narrow(1, entries[entry].item<int64_t>() * lists.key_tile, lists.key_tile)
                .fill_(true);
    return mask.narrow(2, 0, queries).narrow(3, 0, keys);
  }

  // Padding may hold anything, also NaN, which 0 times it would spread.
  Tensor without_padding(const Tensor& tensor) const {
    if (!inputs_.key_mask.defined()) return tensor;
    return tensor.masked_fill(inputs_.key_mask.logical_not().unsqueeze(1).unsqueeze(-1), 0);
  }

  Tensor evaluate(NodeId id) {
    const Node& node = plan_.graph[id];
    switch (node.op) {
      case Op::number:
        if (node.type == Type::boolean)
          return torch::full({1, 1, 1, 1}, node.number != 0, options_.dtype(torch::kBool));
        return torch::full({1, 1, 1, 1}, node.number, options_);
      case Op::variable:
        return variable(static_cast<Variable>(node.symbol));
      case Op::stream:
        return stream(plan_.streams[static_cast<size_t>(node.symbol)]);
      case Op::read:
        return read(node);
      case Op::softmax:
      case Op::l1:
      case Op::softpick:
        return norm(id, node);
      default:
        break;
    }
    std::vector<Tensor> args;
    for (NodeId arg : node.args) args.push_back(values_[slot(arg)]);
    return apply_pointwise(node.op, args);
  }

  Tensor variable(Variable variable) const {
    const auto count = [&](int64_t length, int64_t first) {
      return torch::arange(first, first + length, options_);
    };
    const Tensor row = count(query_.size(2), inputs_.offset).view({1, 1, -1, 1});
    const Tensor column = count(inputs_.value.size(2), inputs_.first_key).view({1, 1, 1, -1});
    switch (variable) {
      case Variable::i:
        return row;
      case Variable::j:
        return column;
      case Variable::d:
        return row - column;
      case Variable::h:
        return count(heads_, 0).view({1, -1, 1, 1});
      case Variable::H:
        return torch::full({1, 1, 1, 1}, heads_, options_);
      case Variable::n:
        return torch::full({1, 1, 1, 1}, inputs_.first_key + inputs_.value.size(2), options_);
      case Variable::x:
      case Variable::y:
      case Variable::z:
        break;
    }
    invariant(false, "reference: an operand variable outside a derivative rule");
    return {};
  }

  Tensor stream(const StreamInfo& info) const {
    const Tensor query = inputs_.queries[static_cast<size_t>(info.query_vector + 1)].to(dtype_);
    const Tensor key =
        for_each_query_head(without_padding(inputs_.keys[static_cast<size_t>(info.key_vector + 1)]), heads_)
            .to(dtype_);
    const Tensor product = torch::matmul(query, key.transpose(-2, -1));
    if (plan_.scale != kNoNode) return product * values_[slot(plan_.scale)];
    return product * (1 / std::sqrt(static_cast<double>(query.size(-1))));
  }

  Tensor read(const Node& node) const {
    const TableInfo& info = plan_.tables[static_cast<size_t>(node.symbol)];
    const Tensor& table = inputs_.tables[static_cast<size_t>(node.symbol)];
    const std::vector<Dimension> dimensions = info.subscripted();
    if (dimensions.empty()) return table.unsqueeze(-1).unsqueeze(-1);
    const Tensor flat = table.flatten(2);
    Tensor place = torch::zeros({1, 1, 1, 1}, options_.dtype(torch::kLong));
    for (size_t index = 0; index < dimensions.size(); ++index) {
      const int64_t size = table.size(static_cast<int64_t>(index) + 2);
      Tensor subscript = values_[slot(node.args[index])].detach() -
                         origin_of(dimensions[index], size, inputs_.offset, inputs_.first_key);
      subscript = torch::nan_to_num(subscript, 0.0, kInfinity, -kInfinity)
                      .clamp(0, static_cast<double>(size - 1))
                      .to(torch::kLong);
      place = place * size + subscript;
    }
    const auto common = [](int64_t a, int64_t b) { return a == 1 ? b : a; };
    const int64_t batch = common(flat.size(0), place.size(0)), heads = common(flat.size(1), place.size(1));
    const Tensor source = flat.expand({batch, heads, flat.size(2)});
    const Tensor index = place.expand({batch, heads, place.size(2), place.size(3)});
    return torch::gather(source, 2, index.flatten(2)).view(index.sizes());
  }

  Tensor norm(NodeId id, const Node& node) {
    const Tensor forbidden = mask_.logical_not();
    const Tensor x = values_[slot(node.args[0])].to(dtype_).expand(mask_.sizes());
    const Tensor sink = node.args.size() > 1 ? values_[slot(node.args[1])].to(dtype_) : Tensor();
    Tensor numerator, sum, shift;  // weight = numerator / sum; the divisor is sum * exp(shift)
    if (node.op == Op::softmax) {
      const Tensor allowed = x.masked_fill(forbidden, -kInfinity);
      shift = row_maximum(allowed);
      if (sink.defined()) shift = torch::maximum(shift, sink.detach().expand_as(shift));
      shift = shift.masked_fill(shift == -kInfinity, 0);
      numerator = torch::exp(allowed - shift);
      sum = numerator.sum(-1, true);
      if (sink.defined()) sum = sum + torch::exp(sink - shift);
    } else if (node.op == Op::l1) {
      const Tensor allowed = x.masked_fill(forbidden, 0);
      shift = torch::zeros({1, 1, 1, 1}, options_);
      numerator = allowed;
      sum = apply_pointwise(Op::abs, {allowed}).sum(-1, true);
    } else {
      // exp(x) - 1, divided by exp(shift); written so that neither large nor small x loses digits.
      const Tensor allowed = x.masked_fill(forbidden, 0);
      shift = row_maximum(allowed).clamp_min(0);
      const Tensor positive = allowed.clamp_min(0), negative = allowed.clamp_max(0);
      const Tensor signed_part =
          torch::where(allowed > 0, -torch::exp(positive - shift) * torch::expm1(-positive),
                       torch::exp(-shift) * torch::expm1(negative));
      numerator = apply_pointwise(Op::relu, {signed_part});
      sum = apply_pointwise(Op::abs, {signed_part}).sum(-1, true);
    }
    const Tensor empty = sum == 0;
    const Tensor divisor = sum.masked_fill(empty, 1);
    log_sums_[id] = (torch::log(divisor) + shift)
                        .masked_fill(empty, -kInfinity)
                        .squeeze(-1)
                        .expand({query_.size(0), heads_, query_.size(2)});
    return numerator / divisor;
  }

  static Tensor row_maximum(const Tensor& x) {
    if (x.size(-1) == 0)
      return torch::full({1, 1, 1, 1}, -kInfinity, x.options()).expand({x.size(0), x.size(1), x.size(2), 1});
    return x.detach().amax(-1, true);
  }

  const Plan& plan_;
  const PairInputs& inputs_;
  const Tensor& query_;
  const torch::ScalarType dtype_;
  const torch::TensorOptions options_;
  const int64_t heads_;
  Tensor mask_;
  std::vector<Tensor> values_;
  std::map<NodeId, Tensor> log_sums_;
};

// Formulas count in floating point. An integer that it cannot hold would become its neighbour, and two
// documents one.
void check_exact(const TableInfo& table, const Tensor& tensor, at::ScalarType dtype) {
  // A tensor without numbers, as tracing uses, has none to look at.
  const bool traced = tensor.is_meta() || tensor.key_set().has(c10::DispatchKey::Python);
  if (table.type != Type::integer || traced || tensor.numel() == 0) return;
  const int64_t most = int64_t{1} << (dtype == torch::kDouble ? 53 : 24);
  const auto [low, high] = torch::aminmax(tensor);
  for (const int64_t value : {low.item<int64_t>(), high.item<int64_t>()})
    require(-most <= value && value <= most,
            "attention: '{}' holds {}; in {} whole numbers are exact up to {}", table.name, value,
            dtype == torch::kDouble ? "double" : "float", most);
}

}  // namespace

at::Tensor canonical_table(const TableInfo& table, const at::Tensor& tensor, const KnownSizes& sizes,
                           at::ScalarType dtype) {
  using Kind = Dimension::Kind;
  std::vector<Dimension> dimensions;
  for (const Dimension& dimension : table.dimensions)
    if (dimension.kind != Kind::layer) dimensions.push_back(dimension);
  const auto rank = static_cast<int64_t>(dimensions.size());
  std::vector<std::string> names;
  for (const Dimension& dimension : dimensions) names.push_back(to_string(dimension));
  if (tensor.dim() == rank + 1 && !table.has(Kind::batch))
    dimensions.insert(dimensions.begin(), Dimension{Kind::batch});
  require(tensor.dim() == static_cast<int64_t>(dimensions.size()),
          "attention: '{}' has {} of shape {}; expected [{}]", table.name, plural(tensor.dim(), "dimension"),
          shape_text(tensor), join(names, ", "));
  std::vector<int64_t> order, front;
  Tensor result = tensor;
  for (size_t place = 0; place < dimensions.size(); ++place) {
    const Dimension& dimension = dimensions[place];
    const int64_t given = tensor.size(static_cast<int64_t>(place));
    const int64_t expected = dimension.kind == Kind::batch   ? sizes.batch
                             : dimension.kind == Kind::head  ? sizes.heads
                             : dimension.kind == Kind::token ? sizes.tokens
                             : dimension.kind == Kind::query ? sizes.queries
                             : dimension.kind == Kind::key   ? sizes.keys
                             : dimension.kind == Kind::fixed ? dimension.size
                                                             : -1;
    const bool broadcast = given == 1 && (dimension.kind == Kind::batch || dimension.kind == Kind::head);
    require(expected < 0 || given == expected || broadcast,
            "attention: '{}' has size {} in its dimension '{}'; expected {}", table.name, given,
            to_string(dimension), expected);
    require(given > 0 || expected == 0, "attention: '{}' is empty in its dimension '{}'", table.name,
            to_string(dimension));
    require(dimension.kind != Kind::rel || given % 2 == 1,
            "attention: '{}' has {} entries by distance; expected an odd number, with d = 0 in the middle",
            table.name, given);
  }
  const auto place_of = [&](Kind kind) -> int64_t {
    for (size_t place = 0; place < dimensions.size(); ++place)
      if (dimensions[place].kind == kind) return static_cast<int64_t>(place);
    return -1;
  };
  const int64_t batch = place_of(Kind::batch), head = place_of(Kind::head);
  if (batch >= 0) order.push_back(batch);
  if (head >= 0) order.push_back(head);
  for (int64_t place = 0; place < tensor.dim(); ++place)
    if (place != batch && place != head) order.push_back(place);
  result = tensor.permute(order);
  if (batch < 0) result = result.unsqueeze(0);
  if (head < 0) result = result.unsqueeze(1);
  const bool boolean = tensor.scalar_type() == torch::kBool, real = tensor.is_floating_point();
  require(table.type != Type::boolean || boolean, "attention: '{}' has dtype {}; expected bool", table.name,
          c10::toString(tensor.scalar_type()));
  require(table.type != Type::integer || (!boolean && !real),
          "attention: '{}' has dtype {}; expected an integer type", table.name,
          c10::toString(tensor.scalar_type()));
  require(table.type != Type::real || real, "attention: '{}' has dtype {}; expected a floating type",
          table.name, c10::toString(tensor.scalar_type()));
  check_exact(table, tensor, dtype);
  return table.type == Type::boolean ? result : result.to(dtype);
}

AttentionResult reference_attention(const Plan& plan, const PairInputs& inputs, bool need_weights) {
  return Evaluation(plan, inputs).run(need_weights);
}

Tensor allowed_pairs(const Plan& plan, const PairInputs& inputs) { return Evaluation(plan, inputs).mask(); }

}  // namespace saccade
