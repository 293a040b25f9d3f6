#include "saccade/data/parallel_files.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>

#include "saccade/base/error.h"
#include "saccade/base/gzip.h"
#include "saccade/base/json.h"
#include "saccade/base/text.h"
#include "saccade/data/document_files.h"

namespace saccade {
namespace {

constexpr size_t kMostBytes = size_t{1} << 36;

std::string read_all(const std::string& file) {
  if (file != "-") return read_text_file(file, kMostBytes);
  return {std::istreambuf_iterator<char>(std::cin), {}};
}

// The name of a file without folders and ".gz".
std::string plain_name(const std::string& file) {
  std::string name = std::filesystem::path(file).filename().string();
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  return name;
}

std::string unescaped(std::string_view text) {
  constexpr std::pair<std::string_view, char> kEntities[] = {
      {"&quot;", '"'}, {"&apos;", '\''}, {"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}};
  std::string result;
  while (!text.empty()) {
    const auto* entity = std::ranges::find_if(
        kEntities, [&](const auto& candidate) { return text.starts_with(candidate.first); });
    const bool found = entity != std::end(kEntities);
    result += found ? entity->second : text.front();
    text.remove_prefix(found ? entity->first.size() : 1);
  }
  return result;
}

// The content of <seg id="1"> ... </seg>, wherever lines end.
std::vector<std::string> segments_of(std::string_view text, const std::string& file) {
  std::vector<std::string> segments;
  for (size_t at = text.find("<seg"); at != text.npos; at = text.find("<seg", at)) {
    const size_t begin = text.find('>', at), end = text.find("</seg>", at);
    require(begin != text.npos && end != text.npos && begin < end, "{}: segment {} has no end", file,
            segments.size() + 1);
    std::string segment = unescaped(trim(text.substr(begin + 1, end - begin - 1)));
    for (char& c : segment)
      if (c == '\n' || c == '\r') c = ' ';
    segments.push_back(std::move(segment));
    at = end;
  }
  require(!segments.empty() || trim(text).empty(),
          "{}: there is no <seg> element; expected one for each sentence", file);
  return segments;
}

// Lines about a talk are <url>, <speaker>, ...; its title and description are sentences like all others, and
// translated too.
std::vector<std::string> talk_lines(std::string_view text) {
  std::vector<std::string> lines;
  for (std::string_view line : split_lines(text)) {
    line = trim(line);
    for (const std::string_view tag : {"title", "description"}) {
      const std::string open = fmt::format("<{}>", tag), close = fmt::format("</{}>", tag);
      if (!line.starts_with(open) || !line.ends_with(close)) continue;
      line = trim(line.substr(open.size(), line.size() - open.size() - close.size()));
      break;
    }
    if (!line.starts_with('<')) lines.emplace_back(line);
  }
  return lines;
}

// The member that a path such as "translation.en" leads to.
const std::string& member(const Json& json, const std::string& path, const std::string& where) {
  const Json* at = &json;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t dot = std::min(path.find('.', begin), path.size());
    const std::string key = path.substr(begin, dot - begin);
    require(at->is_object() && at->contains(key), "{}: there is no member '{}'", where, printable(path));
    at = &at->at(key);
    begin = dot + 1;
  }
  require(at->is_string(), "{}: the member '{}' is no text", where, printable(path));
  return at->get_ref<const std::string&>();
}

bool is_jsonl(const std::string& file) {
  const std::string name = plain_name(file);
  return name.ends_with(".jsonl") || name.ends_with(".json");
}

// A sentence is one line, wherever it comes from: a translation that has more would shift those below it.
std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\r') c = ' ';
  return text;
}

void read_one_file(const std::string& file, const ParallelFormat& format,
                   std::vector<TranslationPair>& pairs) {
  const bool jsonl = is_jsonl(file);
  const std::vector<std::string> lines = read_parallel_lines(file);
  for (size_t number = 0; number < lines.size(); ++number) {
    const std::string& line = lines[number];
    const std::string where = fmt::format("{}:{}", file, number + 1);
    if (jsonl) {
      if (trim(line).empty()) continue;
      const Json json = parse_json(line, where);
      pairs.push_back({one_line(member(json, format.source_field, where)),
                       one_line(member(json, format.target_field, where))});
      continue;
    }
    const size_t tab = line.find('\t');
    require(tab != line.npos, "{}: no tab; expected a sentence, a tab and its translation", where);
    const size_t end = std::min(line.find('\t', tab + 1), line.size());
    pairs.push_back({line.substr(0, tab), line.substr(tab + 1, end - tab - 1)});
  }
}

}  // namespace

std::vector<std::string> read_parallel_lines(const std::string& file) {
  const std::string content = read_all(file);
  std::string_view text = content;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const std::string name = plain_name(file);
  if (name.ends_with(".sgm") || name.ends_with(".xml")) return segments_of(text, file);
  if (name.starts_with("train.tags.")) return talk_lines(text);
  std::vector<std::string> lines;
  for (const std::string_view line : split_lines(text)) lines.emplace_back(line);
  return lines;
}

std::vector<TranslationPair> read_pairs(const std::vector<std::string>& source,
                                        const std::vector<std::string>& target,
                                        const ParallelFormat& format) {
  std::vector<TranslationPair> pairs;
  const std::vector<std::filesystem::path> sources = find_data_files(source);
  if (target.empty()) {
    for (const auto& file : sources) read_one_file(file.string(), format, pairs);
    return pairs;
  }
  const std::vector<std::filesystem::path> targets = find_data_files(target);
  require(sources.size() == targets.size(), "data: {} of source and {} of target; expected as many",
          plural(static_cast<int64_t>(sources.size()), "file"),
          plural(static_cast<int64_t>(targets.size()), "file"));
  for (size_t file = 0; file < sources.size(); ++file) {
    std::vector<std::string> from = read_parallel_lines(sources[file].string()),
                             to = read_parallel_lines(targets[file].string());
    require(from.size() == to.size(), "data: {} has {}, {} has {}; expected as many, line by line",
            sources[file].string(), plural(static_cast<int64_t>(from.size()), "line"), targets[file].string(),
            plural(static_cast<int64_t>(to.size()), "line"));
    for (size_t line = 0; line < from.size(); ++line)
      pairs.push_back({std::move(from[line]), std::move(to[line])});
  }
  return pairs;
}

}  // namespace saccade
