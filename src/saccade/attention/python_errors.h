// Users' mistakes as Python knows them: an Error becomes a ValueError, or a TypeError where it is about a
// dtype, with the same text.
#pragma once

#include <c10/util/Exception.h>

#include <string>
#include <utility>

#include "saccade/base/error.h"

namespace saccade {

template <class Function>
decltype(auto) with_python_errors(Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (const Error& error) {
    const std::string text = error.what();
    // Errors are told apart by their text alone; every message about a dtype says that word.
    TORCH_CHECK_TYPE(text.find(" dtype ") == std::string::npos, text);
    TORCH_CHECK_VALUE(false, text);
  }
}

}  // namespace saccade
