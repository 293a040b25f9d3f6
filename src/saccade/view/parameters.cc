// The module's own tensors are written to, so that whatever shares them sees the same.
#include "saccade/view/parameters.h"

#include <torch/types.h>

#include "saccade/base/error.h"
#include "saccade/base/text.h"

namespace saccade {

namespace {

std::vector<std::string> learned_by(const Attention& attention) {
  std::vector<std::string> names;
  for (const TableInfo& table : attention->formula().plan().tables)
    if (table.source == TableInfo::Source::param) names.push_back(table.name);
  return names;
}

Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

}  // namespace

Json learned_json(const Attention& attention) {
  Json list = Json::array();
  const auto parameters = attention->named_parameters(false);
  for (const TableInfo& table : attention->formula().plan().tables) {
    if (table.source != TableInfo::Source::param) continue;
    const at::Tensor values = parameters[table.name].detach().to(torch::kDouble).contiguous().flatten();
    Json dimensions = Json::array();
    for (const Dimension& dimension : table.dimensions) dimensions.push_back(to_string(dimension));
    list.push_back({{"name", table.name},
                    {"dimensions", dimensions},
                    {"by_head", table.has(Dimension::Kind::head) && table.subscripted().empty()},
                    {"low", finite(table.low)},
                    {"high", finite(table.high)},
                    {"values", std::vector<double>(values.data_ptr<double>(),
                                                   values.data_ptr<double>() + values.numel())}});
  }
  return list;
}

ParameterValues read_values(const Field& field) {
  ParameterValues values;
  for (const auto& [name, value] : field.members())
    values[name] = value.json().is_array() ? value.numbers() : std::vector<double>{value.number()};
  return values;
}

void set_parameters(Attention attention, const ParameterValues& values) {
  const torch::NoGradGuard no_gradient;
  const std::vector<std::string> names = learned_by(attention);
  auto parameters = attention->named_parameters(false);
  for (const auto& [name, list] : values) {
    require(std::ranges::find(names, name) != names.end(), "view: the formula '{}' learns no '{}'{}",
            attention->formula().name(), printable(name), did_you_mean(name, names));
    at::Tensor& parameter = parameters[name];
    for (const double value : list) require(std::isfinite(value), "view: '{}' is no finite number", name);
    require(list.size() == 1 || static_cast<int64_t>(list.size()) == parameter.numel(),
            "view: '{}' was given {}; expected 1 or {}", name,
            plural(static_cast<int64_t>(list.size()), "value"), parameter.numel());
    const at::Tensor given = torch::tensor(list, torch::kDouble);
    parameter.copy_(list.size() == 1 ? given.expand(parameter.numel()).view(parameter.sizes())
                                     : given.view(parameter.sizes()));
  }
  attention->clamp_parameters();
}

TriedParameters::TriedParameters(Attention attention, const ParameterValues& values)
    : attention_(std::move(attention)) {
  for (const auto& item : attention_->named_parameters(false))
    own_[item.key()] = item.value().detach().clone();
  try {
    set_parameters(attention_, values);
  } catch (...) {
    restore();
    throw;
  }
}

TriedParameters::~TriedParameters() { restore(); }

void TriedParameters::restore() {
  const torch::NoGradGuard no_gradient;
  auto parameters = attention_->named_parameters(false);
  for (const auto& [name, value] : own_) parameters[name].copy_(value);
}

}  // namespace saccade
