#include "saccade/formula/identify.h"

#include "saccade/formula/mechanisms.h"

namespace saccade {
namespace {

// The canonical text without what can be set from outside.
std::string without_numbers(const Formula& formula) {
  std::string text;
  for (const Statement& statement : formula.syntax().statements) {
    if (statement.kind == Statement::Kind::constant && statement.name == "n") continue;
    if (statement.kind == Statement::Kind::constant)
      text += "const " + statement.name;
    else if (statement.kind == Statement::Kind::param)
      text += "param " + statement.name;
    else
      text += print(statement);
    text += "\n";
  }
  return text;
}

}  // namespace

std::string mechanism_name(const Formula& formula) {
  const std::string whole = formula.resolved(), text = without_numbers(formula);
  std::string alike;
  for (const EmbeddedMechanism& mechanism : embedded_mechanisms()) {
    const std::string name(mechanism.name);
    const Formula shipped = Formula::load(name);
    if (shipped.resolved() == whole) return name;
    if (alike.empty() && without_numbers(shipped) == text) alike = name;
  }
  return alike.empty() ? std::filesystem::path(formula.name()).stem().string() : alike;
}

}  // namespace saccade
