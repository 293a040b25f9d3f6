// What the tests of all rungs share: directories that vanish, messages of Errors. For tests only.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/base/error.h"

namespace saccade {

/// The message of the Error that a function throws.
template <class Function>
std::string message_of(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

/// A directory that exists for one test.
class DirectoryTest : public testing::Test {
 protected:
  DirectoryTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "saccade_test_XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
  }
  ~DirectoryTest() override { std::filesystem::remove_all(directory_); }

  std::filesystem::path at(std::string_view name) const { return directory_ / name; }

  std::filesystem::path make(std::string_view name, std::string_view content) const {
    std::ofstream(at(name), std::ios::binary) << content;
    return at(name);
  }

  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& entry : std::filesystem::directory_iterator(directory_))
      result.push_back(entry.path().filename());
    return result;
  }

  std::filesystem::path directory_;
};

}  // namespace saccade
