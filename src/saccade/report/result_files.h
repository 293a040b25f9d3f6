// Finding and reading what commands wrote. A result is recognised by the name of its file in a folder, or by
// what is in a JSON file; one table says how (kinds.cc).
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/base/json.h"

namespace saccade {

struct Section;
struct Result;

/// One kind of result. To add one: write a file with its `matches` and `make`, and add its row in kinds.cc.
struct ResultKind {
  std::string_view name;   ///< "comparison", with an article before it in messages.
  std::string_view group;  ///< The heading of its sections in the list of contents.
  std::string_view file;   ///< In a folder, what proves it; empty: it comes as a file of any name.
  std::string_view made_by;
  bool (*matches)(const Json& json);  ///< By content, for JSON files of any name; null: only by `file`.
  std::vector<Section> (*make)(std::span<const Result> results);  ///< Of all results of this kind.
};

/// All kinds, in the order of their sections in a report.
std::span<const ResultKind> result_kinds();

/// Something to report on.
struct Result {
  const ResultKind* kind;
  std::filesystem::path path;  ///< The file that proves it.
  std::string given;           ///< As the person named it, or found below that.
  Json json = {};              ///< Its content, if the file is JSON.
};

/// The results that a path stands for: a file, a folder with a result in it, or a folder of such. A run
/// brings along its diagnosis. Throws an Error that says what was found and what was expected.
std::vector<Result> find_results(const std::filesystem::path& path);

struct JsonLines {
  std::vector<Json> lines;
  bool torn = false;  ///< The last line was cut off, as in a run that was killed, and is left out.
};
/// A file with a JSON value in each line. Throws an Error "file:line:column: reason".
JsonLines read_json_lines(const std::filesystem::path& file);

/// A top-level key of recipe.toml as the program writes it: a key, its value and a comment in each line.
/// Quotes are taken off. Empty when there is none.
std::string recipe_value(std::string_view recipe, std::string_view key);

}  // namespace saccade
