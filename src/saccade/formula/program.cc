// The compiler from graph to program: decides each node's stage, allots slots and registers.
#include "saccade/formula/program.h"

#include <algorithm>
#include <map>

#include "saccade/base/error.h"
#include "saccade/base/text.h"

namespace saccade {
namespace {

class Compiler {
 public:
  Compiler(const Plan& plan, const std::vector<NodeId>& roots)
      : graph_(plan.graph), roots_(roots), nodes_(graph_.reachable(roots)) {}

  Program run() {
    find_slots_and_last_uses();
    for (NodeId id : nodes_) emit(id);
    for (NodeId root : roots_) program_.outputs.push_back(operand(root, Rate::tile));
    return std::move(program_);
  }

 private:
  Rate stage_of(NodeId id) const {
    const Rate rate = graph_.rate(id);
    return rate == Rate::constant ? Rate::head : rate;
  }

  bool is_computed(NodeId id) const { return graph_[id].op != Op::number && graph_[id].op != Op::stream; }

  void find_slots_and_last_uses() {
    const auto need_slot = [&](NodeId id) {
      if (!is_computed(id) || slot_.contains(id)) return;
      slot_[id] = static_cast<int32_t>(program_.slots.size());
      program_.slots.push_back(stage_of(id));
    };
    for (NodeId id : nodes_) {
      for (NodeId arg : graph_[id].args) {
        if (stage_of(arg) != stage_of(id))
          need_slot(arg);
        else
          last_use_[arg] = id;
      }
    }
    for (NodeId root : roots_) {
      if (stage_of(root) == Rate::tile)
        last_use_[root] = graph_.size();  // stays in its register to the end
      else
        need_slot(root);
    }
  }

  Operand operand(NodeId id, Rate stage) const {
    const Node& node = graph_[id];
    if (node.op == Op::number) return {.kind = Operand::Kind::immediate, .value = node.number};
    if (node.op == Op::stream) return {.kind = Operand::Kind::stream, .index = node.symbol};
    if (stage_of(id) == stage) return {.kind = Operand::Kind::reg, .index = register_.at(id)};
    return {.kind = Operand::Kind::slot, .index = slot_.at(id)};
  }

  void emit(NodeId id) {
    if (!is_computed(id)) return;
    const Node& node = graph_[id];
    invariant(!is_norm(node.op), "compile: a norm is not part of a program");
    const Rate rate = stage_of(id);
    Stage& stage = program_.stage(rate);
    Instruction instruction{.op = node.op, .symbol = node.symbol, .node = id};
    for (size_t index = 0; index < node.args.size(); ++index)
      instruction.args[index] = operand(node.args[index], rate);
    // An operand's register is free once this instruction has read it; elementwise work may then overwrite it
    // in place.
    std::vector<NodeId> distinct = node.args;
    std::ranges::sort(distinct);
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    auto& free = free_[static_cast<size_t>(rate)];
    for (NodeId arg : distinct) {
      const auto last = last_use_.find(arg);
      if (is_computed(arg) && stage_of(arg) == rate && last != last_use_.end() && last->second == id)
        free.push_back(register_.at(arg));
    }
    if (free.empty()) free.push_back(stage.registers++);
    instruction.result = free.back();
    free.pop_back();
    register_[id] = instruction.result;
    if (const auto slot = slot_.find(id); slot != slot_.end()) instruction.store = slot->second;
    if (!last_use_.contains(id)) free.push_back(instruction.result);  // needed by later stages only
    stage.code.push_back(instruction);
  }

  const Graph& graph_;
  const std::vector<NodeId>& roots_;
  std::vector<NodeId> nodes_;
  Program program_;
  std::map<NodeId, int32_t> slot_, register_;
  std::map<NodeId, NodeId> last_use_;
  std::array<std::vector<int32_t>, 6> free_;
};

std::string show(const Operand& operand, const Program& program, const Plan& plan) {
  switch (operand.kind) {
    case Operand::Kind::none:
      return "";
    case Operand::Kind::immediate:
      return print_number(operand.value, false);
    case Operand::Kind::reg:
      return fmt::format("r{}", operand.index);
    case Operand::Kind::slot:
      return fmt::format("{}{}", name_of(program.slots[static_cast<size_t>(operand.index)]), operand.index);
    case Operand::Kind::stream:
      return plan.streams[static_cast<size_t>(operand.index)].name;
  }
  return "";
}

std::string operation_name(const Instruction& instruction, const Plan& plan) {
  if (instruction.op == Op::variable) return std::string(name_of(static_cast<Variable>(instruction.symbol)));
  if (instruction.op == Op::read) return "read " + plan.tables[static_cast<size_t>(instruction.symbol)].name;
  return std::string(operation(instruction.op).name);
}

}  // namespace

Program compile(const Plan& plan, const std::vector<NodeId>& roots) { return Compiler(plan, roots).run(); }

std::string list(const Program& program, const Plan& plan) {
  static constexpr std::pair<Rate, std::string_view> kStages[] = {{Rate::head, "once per head"},
                                                                  {Rate::row, "once per query"},
                                                                  {Rate::column, "once per key"},
                                                                  {Rate::diagonal, "once per distance"},
                                                                  {Rate::tile, "for every pair"}};
  std::string text;
  for (const auto& [rate, title] : kStages) {
    const Stage& stage = program.stage(rate);
    if (stage.code.empty()) continue;
    text +=
        fmt::format("{} ({}, {}):\n", title, plural(static_cast<int64_t>(stage.code.size()), "instruction"),
                    plural(stage.registers, "register"));
    for (const Instruction& instruction : stage.code) {
      std::vector<std::string> operands;
      for (const Operand& argument : instruction.args)
        if (argument.kind != Operand::Kind::none) operands.push_back(show(argument, program, plan));
      std::string target = fmt::format("r{}", instruction.result);
      if (instruction.store >= 0) target += fmt::format(", {}{}", name_of(rate), instruction.store);
      text += fmt::format("  {:<14} = {:<10} {:<28} # {}\n", target, operation_name(instruction, plan),
                          join(operands, ", "), plan.graph.print(instruction.node, {}, 80));
    }
  }
  return text;
}

}  // namespace saccade
