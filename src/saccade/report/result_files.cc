#include "saccade/report/result_files.h"

#include <algorithm>

#include "saccade/base/error.h"
#include "saccade/base/file.h"
#include "saccade/base/text.h"

namespace saccade {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMostBytes = size_t{4} << 30;

std::string expectation() {
  std::vector<std::string> folders, files;
  for (const ResultKind& kind : result_kinds()) {
    if (!kind.file.empty()) folders.push_back(fmt::format("{} ({})", kind.file, kind.name));
    if (kind.file.empty()) files.push_back(fmt::format("{} ({})", kind.made_by, kind.name));
  }
  return fmt::format("expected a folder with {}; or a file that was written by {}", join(folders, ", "),
                     join(files, ", "));
}

// What stands in a folder, for a message.
std::string listing(const fs::path& folder) {
  constexpr size_t kShown = 6;
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(printable(entry.path().filename().string(), 40) + (entry.is_directory() ? "/" : ""));
  std::ranges::sort(names);
  if (names.empty()) return "it is empty";
  const size_t more = names.size() > kShown ? names.size() - kShown : 0;
  names.resize(names.size() - more);
  return "found " + join(names, ", ") + (more > 0 ? fmt::format(" and {} more", more) : "");
}

bool is_json(const fs::path& path) { return path.extension() == ".json"; }

Json read_json(const fs::path& path) {
  return parse_json(read_file(path, kMostBytes), printable(path.string(), 300));
}

// "an evaluation", "a comparison"
std::string with_article(std::string_view name) {
  return (std::string_view("aeiou").find(name.front()) == std::string_view::npos ? "a " : "an ") +
         std::string(name);
}

const ResultKind* kind_of(const Json& json) {
  for (const ResultKind& kind : result_kinds())
    if (kind.matches != nullptr && kind.matches(json)) return &kind;
  return nullptr;
}

Result result_of(const ResultKind& kind, const fs::path& path) {
  Result result{.kind = &kind, .path = path, .given = path.parent_path().string()};
  if (!is_json(path)) return result;
  result.json = read_json(path);
  require(kind.matches == nullptr || kind.matches(result.json),
          "report: {}: it does not hold what its name says; expected {}, as {} writes it", path.string(),
          with_article(kind.name), kind.made_by);
  return result;
}

// Results that a folder itself is.
std::vector<Result> in_folder(const fs::path& folder) {
  std::vector<Result> found;
  for (const ResultKind& kind : result_kinds())
    if (!kind.file.empty() && fs::is_regular_file(folder / kind.file))
      found.push_back(result_of(kind, folder / kind.file));
  const fs::path diagnosis = folder / "diagnosis" / "diagnosis.json";
  if (!found.empty() && fs::is_regular_file(diagnosis))
    for (const ResultKind& kind : result_kinds())
      if (kind.file == "diagnosis.json") found.push_back(result_of(kind, diagnosis));
  return found;
}

std::vector<Result> below_folder(const fs::path& folder) {
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder)) entries.push_back(entry.path());
  std::ranges::sort(entries);
  std::vector<Result> found;
  for (const fs::path& entry : entries) {
    if (fs::is_directory(entry)) {
      for (Result& result : in_folder(entry)) found.push_back(std::move(result));
    } else if (is_json(entry) && fs::is_regular_file(entry)) {
      Json json = read_json(entry);
      if (const ResultKind* kind = kind_of(json))
        found.push_back({.kind = kind, .path = entry, .given = entry.string(), .json = std::move(json)});
    }
  }
  return found;
}

}  // namespace

std::vector<Result> find_results(const fs::path& path) {
  std::error_code none;
  require(fs::exists(path, none), "report: {}: there is no such file or folder",
          printable(path.string(), 300));
  if (fs::is_directory(path)) {
    std::vector<Result> found = in_folder(path);
    if (found.empty()) found = below_folder(path);
    require(!found.empty(), "report: {}: nothing to report on; {}; {}", printable(path.string(), 300),
            listing(path), expectation());
    return found;
  }
  // Any file of a run stands for the run.
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (!is_json(path)) {
    for (const ResultKind& kind : result_kinds())
      if (!kind.file.empty() && !is_json(kind.file) && path.filename() == kind.file)
        return {result_of(kind, folder / kind.file)};
    if (path.filename() == "metrics.jsonl") {
      const std::vector<Result> found = in_folder(folder);
      if (!found.empty()) return {found.front()};
    }
  }
  Json json = read_json(path);
  const ResultKind* kind = kind_of(json);
  if (kind == nullptr) {
    std::vector<std::string> keys;
    if (json.is_object())
      for (const auto& [key, value] : json.items())
        if (keys.size() < 8) keys.push_back("'" + printable(key, 30) + "'");
    fail("report: {}: it is JSON, but no result that is known: found {}; {}", printable(path.string(), 300),
         keys.empty() ? "no object with members" : join(keys, ", "), expectation());
  }
  return {{.kind = kind, .path = path, .given = path.string(), .json = std::move(json)}};
}

JsonLines read_json_lines(const fs::path& file) {
  const std::string text = read_file(file, kMostBytes);
  const std::string name = printable(file.string(), 300);
  const std::vector<std::string_view> lines = split_lines(text);
  JsonLines result;
  for (size_t index = 0; index < lines.size(); ++index) {
    if (trim(lines[index]).empty()) continue;
    try {
      result.lines.push_back(parse_json(lines[index], name));
    } catch (const Error&) {
      result.torn = index + 1 == lines.size() && !text.ends_with('\n');
      if (result.torn) break;
      // Once more behind as many empty lines, so that the message counts from the beginning of the file.
      parse_json(std::string(index, '\n') + std::string(lines[index]), name);
      throw;
    }
  }
  return result;
}

std::string recipe_value(std::string_view recipe, std::string_view key) {
  for (const std::string_view line : split_lines(recipe)) {
    if (line.starts_with('[')) break;  // the keys of a table
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos || trim(line.substr(0, equals)) != key) continue;
    std::string_view rest = trim(line.substr(equals + 1));
    if (!rest.starts_with('"')) return std::string(trim(rest.substr(0, rest.find(" #"))));
    std::string value;
    for (size_t at = 1; at < rest.size() && rest[at] != '"'; ++at) {
      if (rest[at] == '\\' && at + 1 < rest.size()) ++at;
      value += rest[at];
    }
    return value;
  }
  return "";
}

}  // namespace saccade
