// Checks host expressions: which functions there are, and where a vector or a number fits.
#include "saccade/formula/host.h"

#include "saccade/base/text.h"

namespace saccade {
namespace {

constexpr HostOperation kHostOperations[] = {
    {"project", HostOp::project,
     "A learned linear map of the layer's input x: to a vector per head in `vector`, to one number per head "
     "(with a bias) in `token`.",
     "vector k2 = project(x)"},
    {"linear", HostOp::linear, "A learned d_k x d_k map of a vector, one per head.",
     "vector q2 = linear(relu(q))"},
    {"relu", HostOp::relu, "Elementwise: x where positive, otherwise 0.", "linear(relu(q))"},
    {"norm", HostOp::norm, "A vector divided by its root mean square (with 1e-6 added under the root).",
     "vector q2 = norm(q)"},
    {"logsigmoid", HostOp::logsigmoid, "Elementwise log(1 / (1 + exp(-x))).", "logsigmoid(project(x))"},
    {"cumsum", HostOp::cumsum, "The running sum along the tokens.",
     "token F = cumsum(logsigmoid(project(x)))"},
};

class HostChecker {
 public:
  HostChecker(bool vector, const HostNames& names, Diagnostics& diagnostics)
      : vector_(vector), names_(names), diagnostics_(diagnostics) {}

  HostPtr check(const Expression& expression) {
    switch (expression.kind) {
      case Expression::Kind::number: {
        HostNode node{.op = HostOp::number};
        node.number = expression.number;
        return make(node);
      }
      case Expression::Kind::name:
        return name(expression);
      case Expression::Kind::call:
        return expression.op ? arithmetic(expression) : call(expression);
      case Expression::Kind::subscript:
        return refuse(expression, "a {} is computed for whole tokens; '{}' cannot be subscripted here",
                      kind(), expression.name);
    }
    return nullptr;
  }

 private:
  static HostPtr make(HostNode node) { return std::make_shared<HostNode>(std::move(node)); }

  template <class... A>
  HostPtr refuse(const Expression& at, fmt::format_string<A...> format, A&&... arguments) {
    diagnostics_.report(at.span, format, std::forward<A>(arguments)...);
    return nullptr;
  }

  std::string_view kind() const { return vector_ ? "vector" : "token"; }

  HostPtr name(const Expression& expression) {
    const std::string& name = expression.name;
    if (name == "x") return refuse(expression, "x has the layer's width; write project(x)");
    if (name == "q" || name == "k") {
      if (!vector_) return refuse(expression, "a token is one number per head; '{}' is a vector", name);
      HostNode node{.op = name == "q" ? HostOp::query : HostOp::key};
      node.vector = true;
      return make(node);
    }
    const HostName found = names_(name);
    switch (found.kind) {
      case HostName::Kind::number: {
        HostNode node{.op = HostOp::number};
        node.number = found.number;
        return make(node);
      }
      case HostName::Kind::param: {
        HostNode node{.op = HostOp::param};
        node.table = found.table;
        return make(node);
      }
      case HostName::Kind::unusable:
        return refuse(expression, "'{}' cannot be used in a {}: {}", name, kind(), found.why);
      case HostName::Kind::unknown:
        return refuse(expression, "unknown name '{}' in a {}; {}", name, kind(), found.why);
      case HostName::Kind::broken:
        break;
    }
    return nullptr;
  }

  HostPtr arithmetic(const Expression& expression) {
    HostOp op;
    switch (*expression.op) {
      case Op::add:
        op = HostOp::add;
        break;
      case Op::subtract:
        op = HostOp::subtract;
        break;
      case Op::multiply:
        op = HostOp::multiply;
        break;
      case Op::negate:
        op = HostOp::negate;
        break;
      default:
        return refuse(expression, "'{}' cannot be used in a {}; it has + - * and the functions {}",
                      expression.name, kind(), functions());
    }
    HostNode node{.op = op};
    for (const ExpressionPtr& argument : expression.arguments) {
      HostPtr operand = check(*argument);
      if (!operand) return nullptr;
      node.vector |= operand->vector;
      node.args.push_back(std::move(operand));
    }
    return make(std::move(node));
  }

  HostPtr call(const Expression& expression) {
    const HostOperation* row = nullptr;
    for (const HostOperation& candidate : kHostOperations)
      if (candidate.name == expression.name) row = &candidate;
    if (!row) {
      std::vector<std::string_view> candidates;
      for (const HostOperation& candidate : kHostOperations) candidates.push_back(candidate.name);
      const auto near = nearest(expression.name, candidates);
      return refuse(expression, "unknown function '{}' in a {}; {}", expression.name, kind(),
                    near ? fmt::format("did you mean '{}'?", *near) : "it has " + functions());
    }
    if (expression.sink || expression.arguments.size() != 1)
      return refuse(expression, "'{}' takes one argument, such as '{}'", row->name, row->example);
    const Expression& argument = *expression.arguments[0];
    HostNode node{.op = row->op};
    if (row->op == HostOp::project) {
      if (argument.kind != Expression::Kind::name || argument.name != "x")
        return refuse(argument, "project maps the layer's input; write project(x)");
      node.vector = vector_;
      node.ordinal = projects_++;
      return make(node);
    }
    HostPtr operand = check(argument);
    if (!operand) return nullptr;
    const bool needs_vector = row->op == HostOp::linear || row->op == HostOp::norm;
    if (needs_vector && !operand->vector)
      return refuse(argument, "'{}' needs a vector, but '{}' is one number per head", row->name,
                    print(argument));
    if (row->op == HostOp::cumsum && !reads_token(*operand))
      return refuse(argument, "cumsum sums along the tokens, but '{}' is the same for all of them",
                    print(argument));
    node.vector = operand->vector;
    if (row->op == HostOp::linear) node.ordinal = linears_++;
    if (row->op == HostOp::cumsum) node.ordinal = cumsums_++;
    node.args = {std::move(operand)};
    return make(std::move(node));
  }

  static std::string functions() {
    std::vector<std::string_view> names;
    for (const HostOperation& row : kHostOperations) names.push_back(row.name);
    return join(names, ", ");
  }

  bool vector_;
  const HostNames& names_;
  Diagnostics& diagnostics_;
  int projects_ = 0, linears_ = 0, cumsums_ = 0;
};

}  // namespace

std::span<const HostOperation> host_operations() { return kHostOperations; }

HostPtr check_host(const Expression& expression, bool vector, const HostNames& names,
                   Diagnostics& diagnostics) {
  HostPtr result = HostChecker(vector, names, diagnostics).check(expression);
  if (!result) return nullptr;
  if (vector && !result->vector) {
    diagnostics.report(expression.span, "a vector is wanted, but '{}' is one number per head",
                       print(expression));
    return nullptr;
  }
  if (!reads_token(*result)) {
    diagnostics.report(expression.span, "'{}' does not depend on the token; start from project(x){}",
                       print(expression), vector ? ", q or k" : "");
    return nullptr;
  }
  return result;
}

bool reads(const HostNode& node, HostOp op) { return count(node, op) > 0; }

bool reads_token(const HostNode& node) {
  return reads(node, HostOp::project) || reads(node, HostOp::query) || reads(node, HostOp::key);
}

int count(const HostNode& node, HostOp op) {
  int result = node.op == op;
  for (const HostPtr& argument : node.args) result += count(*argument, op);
  return result;
}

}  // namespace saccade
