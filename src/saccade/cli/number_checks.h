// Checks of an option's number, with messages that say what was expected. Neither lets a NaN pass.
#pragma once

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <string>

namespace saccade {

inline CLI::Validator number_check(const char* name, const char* expected, bool (*holds)(double)) {
  return {[expected, holds](const std::string& text) {
            double number = 0;
            const bool good = CLI::detail::lexical_cast(text, number) && holds(number);
            return good ? std::string() : fmt::format("{}; expected a number {}", text, expected);
          },
          name};
}

inline const CLI::Validator kAboveZero =
    number_check("POSITIVE", "above 0", [](double number) { return number > 0; });
inline const CLI::Validator kNotBelowZero =
    number_check("NONNEGATIVE", "of at least 0", [](double number) { return number >= 0; });

}  // namespace saccade
