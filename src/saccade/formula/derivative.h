// Symbolic derivatives over the graph, by the rules of the operation table. One sweep from the root towards
// the leaves gives the derivative by every leaf at once, as nodes of the same graph, so that common parts are
// shared.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "saccade/formula/graph.h"

namespace saccade {

// The derivatives of one operation as graphs over the variables x, y and z; kNoNode where the derivative is
// zero everywhere.
struct DerivativeRule {
  Graph graph;
  std::array<NodeId, 3> by = {kNoNode, kNoNode, kNoNode};
};
const DerivativeRule& derivative_rule(Op op);

struct Partial {
  NodeId by;
  NodeId value;
};

// The derivative of `root` by each node for which `is_target` holds and on which it depends. The sweep does
// not go below a target. A choice by `where` cuts off the branch not taken, whatever the derivative there
// would be.
std::vector<Partial> differentiate(Graph& graph, NodeId root, const std::function<bool(NodeId)>& is_target);

}  // namespace saccade
