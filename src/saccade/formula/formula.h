// A formula: the text of an attention mechanism and the plan that follows from it. Cheap to copy, immutable,
// free of tensors.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "saccade/formula/check.h"
#include "saccade/formula/plan.h"

namespace saccade {

/// How a text is read.
struct ParseOptions {
  std::string name = "formula";  ///< shown in error messages
  Overrides set;                 ///< new values of constants
};

/// The text of a mechanism and the plan that follows from it.
class Formula {
 public:
  /// Throws FormulaError with all errors of the text.
  static Formula parse(std::string_view text, const ParseOptions& options = {});
  /// The name of a shipped mechanism such as "alibi", or else a file. The name wins over a file or folder
  /// that is called the same, so that it means the same in every folder; "./alibi" is the file.
  static Formula load(const std::string& file_or_name, const Overrides& set = {});

  /// As it was named: the mechanism, the file, or ParseOptions::name.
  const std::string& name() const { return data_->name; }
  const std::string& text() const { return data_->text; }
  const Overrides& overrides() const { return data_->overrides; }
  const Syntax& syntax() const { return data_->syntax; }
  const Plan& plan() const& { return data_->plan; }
  /// Of a formula that is about to go, a copy: a reference would dangle.
  Plan plan() const&& { return data_->plan; }

  /// The first comment of the text, as one line.
  std::string summary() const;
  /// The canonical text; it parses back to an equal formula.
  std::string print() const { return saccade::print(data_->syntax); }

  /// The canonical text with the values that constants really have: the whole formula as one string.
  const std::string& resolved() const& { return data_->resolved; }
  std::string resolved() const&& { return data_->resolved; }

  /// The same statements and the same values of constants.
  friend bool operator==(const Formula& a, const Formula& b);

 private:
  struct Data {
    std::string name, text;
    Overrides overrides;
    Syntax syntax;
    Plan plan;
    std::string resolved;  // every call of the kernels names its formula by it
  };
  explicit Formula(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  std::shared_ptr<const Data> data_;
};

}  // namespace saccade
