// What is wrong with a formula, told to a person: the place, a sentence, the line with a caret. A file's
// errors are collected and thrown together, so that one run shows them all.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "saccade/base/error.h"

namespace saccade {

// A stretch of the source text, in bytes.
struct Span {
  size_t begin = 0;
  size_t end = 0;
};

struct Diagnostic {
  Span span;
  std::string message;
};

// Thrown when a formula does not parse or check; what() is the rendered text of all its diagnostics.
class FormulaError : public Error {
 public:
  FormulaError(std::vector<Diagnostic> diagnostics, std::string_view name, std::string_view text);
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

// Collects diagnostics while a file is read.
class Diagnostics {
 public:
  template <class... A>
  void report(Span span, fmt::format_string<A...> format, A&&... arguments) {
    add(span, fmt::format(format, std::forward<A>(arguments)...));
  }
  bool any() const { return !list_.empty(); }
  size_t count() const { return list_.size(); }
  // All of them, in the order of the text.
  std::vector<Diagnostic> take();

 private:
  void add(Span span, std::string message);
  std::vector<Diagnostic> list_;
};

// "file.attn:4:11: message" followed by the line and a caret under the span.
std::string render(const Diagnostic& diagnostic, std::string_view name, std::string_view text);

}  // namespace saccade
