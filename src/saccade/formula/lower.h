// Expressions of a formula into nodes of its graph: resolves names on demand, checks types, and says what is
// wrong in words. Knows the declarations only through the plan, which `check.cc` fills first.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "saccade/formula/check.h"

namespace saccade {

inline constexpr std::string_view kOutputs[] = {"mask", "score", "weights", "scale"};
inline constexpr std::string_view kBuiltins[] = {"s", "i", "j", "d", "h", "H", "n", "causal", "full", "inf"};
inline constexpr std::string_view kLayerTensors[] = {"q", "k", "x"};
bool is_output(std::string_view name);
bool is_builtin(std::string_view name);
bool is_layer_tensor(std::string_view name);

using Statements = std::map<std::string, const Statement*>;

class Lowering {
 public:
  Lowering(Plan& plan, const Statements& statements, const std::set<std::string>& broken,
           const Overrides& overrides, Diagnostics& diagnostics)
      : plan_(plan),
        statements_(statements),
        broken_(broken),
        overrides_(overrides),
        diagnostics_(diagnostics) {}

  // The node of a name; kNoNode after an error, which is recorded. A name that needs itself is an error.
  NodeId resolve(const std::string& name, Span span);
  // The node of an expression of any type.
  NodeId lower(const Expression& expression);
  // An expression that must be a number without a norm in it.
  NodeId number(const Expression& expression);
  // The value of an expression that must not depend on anything but constants.
  std::optional<double> constant_value(const Expression& expression, std::string_view what);
  // Reports a norm where none may be.
  bool plain(NodeId node, const Expression& expression);

  bool used(const std::string& name) const { return used_.contains(name); }
  void mark_used(const std::string& name) { used_.insert(name); }
  // What the declarations have resolved may mean something else now: positions have become an input.
  void forget() {
    resolved_.clear();
    plan_.lets.clear();
  }

 private:
  NodeId resolve_new(const std::string& name, Span span);
  NodeId length();
  void unknown_name(const std::string& name, Span span);
  NodeId lower_unguarded(const Expression& expression);
  NodeId lower_name(const Expression& expression);
  NodeId lower_call(const Expression& expression);
  void unknown_function(const Expression& expression);
  bool types_fit(const Operation& row, const std::vector<NodeId>& args, const Expression& expression);
  bool norms_fit(const Operation& row, const std::vector<NodeId>& args, const Expression& expression);
  NodeId lower_norm(const NormOperation& row, const Expression& expression);
  bool has_norm(NodeId node);
  NodeId read(const std::string& name, const Expression* subscript, Span span);
  NodeId lower_subscript(const Dimension& dimension, const Expression& expression);

  Plan& plan_;
  const Statements& statements_;
  const std::set<std::string>& broken_;
  const Overrides& overrides_;
  Diagnostics& diagnostics_;
  std::map<std::pair<std::string, bool>, NodeId> resolved_;  // by name and by what i and j mean in it
  std::vector<std::string> open_;                            // names being resolved, outermost first
  std::set<std::string> used_;
  std::map<NodeId, bool> has_norm_;
  bool slots_ = false;  // i and j mean places in the sequence, not positions
  int nested_ = 0;
};

std::string_view describe(Type type);

}  // namespace saccade
