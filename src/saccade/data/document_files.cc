// A file is read as lines or groups of lines; which lines begin or separate documents is all that differs.
#include "saccade/data/document_files.h"

#include <glob.h>

#include <algorithm>
#include <array>

#include "saccade/base/error.h"
#include "saccade/base/json.h"
#include "saccade/base/text.h"

namespace saccade {
namespace {

constexpr std::array<std::string_view, 4> kKinds = {"file", "blank", "line", "heading"};

bool is_blank(std::string_view text) { return trim(text).empty(); }

// " = Title = ", but not the " = = Section = = " below it.
bool is_heading(std::string_view line) {
  line = trim(line);
  return line.size() > 4 && line.starts_with("= ") && line.ends_with(" =") && !line.starts_with("= =") &&
         !line.ends_with("= =");
}

// Takes the next line, with its end, off the front of `rest`.
std::string_view next_line(std::string_view& rest) {
  const size_t end = rest.find('\n');
  const std::string_view line = rest.substr(0, end == rest.npos ? end : end + 1);
  rest.remove_prefix(line.size());
  return line;
}

std::string_view without_end(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool offer(std::string_view text, const OnDocument& on_document) {
  return is_blank(text) || on_document(DocumentText(text));
}

bool read_lines(std::string_view content, const OnDocument& on_document) {
  while (!content.empty())
    if (!offer(without_end(next_line(content)), on_document)) return false;
  return true;
}

// Documents of several lines: `starts` says whether a line is the first of one, `between` whether it belongs
// to none.
template <class Starts, class Between>
bool read_groups(std::string_view content, const OnDocument& on_document, Starts starts, Between between) {
  std::string_view rest = content;
  const char* first = nullptr;  // of the document that is being read
  const char* last = nullptr;   // behind it
  const auto finish = [&] {
    const bool go_on = !first || offer(without_end({first, static_cast<size_t>(last - first)}), on_document);
    first = nullptr;
    return go_on;
  };
  bool after_blank = true;
  while (!rest.empty()) {
    const std::string_view line = next_line(rest);
    const bool separates = between(line);
    if ((separates || (after_blank && starts(line))) && !finish()) return false;
    after_blank = is_blank(line);
    if (separates) continue;
    if (!first) first = line.data();
    last = line.data() + line.size();
  }
  return finish();
}

bool read_jsonl(std::string_view content, const std::string& name, const std::string& field,
                const OnDocument& on_document) {
  int64_t number = 0;
  while (!content.empty()) {
    const std::string_view line = without_end(next_line(content));
    ++number;
    if (is_blank(line)) continue;
    const std::string where = fmt::format("{}: line {}", name, number);
    const SortedJson value = parse_unique_json(line, where);
    require(value.is_object(), "{}: {}; expected an object with a member '{}'", where, value.type_name(),
            field);
    const auto found = value.find(field);
    if (found == value.end()) {
      std::vector<std::string> members;
      for (const auto& item : value.items())
        if (members.size() < 20) members.push_back(printable(item.key(), 40));
      fail("{}: no member '{}' among {}{}", where, field, members.empty() ? "none" : join(members, ", "),
           did_you_mean(field, members));
    }
    require(found->is_string(), "{}: the member '{}' is {}; expected a string", where, field,
            found->type_name());
    const auto& text = found->get_ref<const std::string&>();
    if (!is_blank(text) && !on_document(DocumentText(text))) return false;
  }
  return true;
}

std::string_view content_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

}  // namespace

std::vector<std::filesystem::path> find_data_files(const std::vector<std::string>& patterns) {
  std::vector<std::filesystem::path> result;
  for (const std::string& pattern : patterns) {
    require(!pattern.empty(), "data: the name of a file is empty; expected a path, or [] for no file");
    std::error_code ignored;
    if (pattern.find_first_of("*?[") == pattern.npos || std::filesystem::exists(pattern, ignored)) {
      result.emplace_back(pattern);
      continue;
    }
    glob_t found{};
    const int status = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
    std::vector<std::filesystem::path> paths(found.gl_pathv,
                                             found.gl_pathv + (status == 0 ? found.gl_pathc : 0));
    ::globfree(&found);
    require(!paths.empty(), "data: no file fits '{}'", pattern);
    std::ranges::sort(paths, {}, &std::filesystem::path::native);
    result.insert(result.end(), paths.begin(), paths.end());
  }
  return result;
}

bool read_documents(std::string_view content, const std::string& name, const DocumentFormat& format,
                    const OnDocument& on_document) {
  if (content.starts_with("\xEF\xBB\xBF")) content.remove_prefix(3);
  if (format.jsonl) return read_jsonl(content, name, format.field, on_document);
  const auto never = [](std::string_view) { return false; };
  if (format.documents == "file") return offer(content, on_document);
  if (format.documents == "line") return read_lines(content, on_document);
  if (format.documents == "blank") return read_groups(content, on_document, never, is_blank);
  if (format.documents == "heading") return read_groups(content, on_document, is_heading, never);
  fail("data: documents = '{}'; expected {}{}", printable(format.documents), join(kKinds, ", "),
       did_you_mean(format.documents, kKinds));
}

DocumentFiles::DocumentFiles(const std::vector<std::string>& patterns, DocumentFormat format)
    : format_(std::move(format)) {
  if (!format_.jsonl) read_documents("", "", format_, [](const DocumentText&) { return true; });
  for (const std::filesystem::path& path : find_data_files(patterns)) {
    files_.push_back(std::make_shared<const MappedFile>(path));
    require(!files_.back()->bytes().empty(), "{}: the file is empty", path.string());
  }
}

void DocumentFiles::each(const OnDocument& on_document) const {
  for (const auto& file : files_) {
    bool any = false;
    const bool go_on =
        read_documents(content_of(*file), file->path().string(), format_, [&](DocumentText document) {
          any = true;
          return on_document(std::move(document));
        });
    require(any, "{}: there is no document in it, only white space", file->path().string());
    if (!go_on) return;
  }
}

int64_t DocumentFiles::count() const {
  int64_t result = 0;
  each([&](const DocumentText&) {
    ++result;
    return true;
  });
  return result;
}

int64_t DocumentFiles::bytes() const {
  size_t result = 0;
  for (const auto& file : files_) result += file->bytes().size();
  return static_cast<int64_t>(result);
}

void DocumentFiles::require_apart(const DocumentFiles& other) const {
  for (const auto& mine : files_)
    for (const auto& theirs : other.files_) {
      std::error_code ignored;
      require(!std::filesystem::equivalent(mine->path(), theirs->path(), ignored),
              "data: {} is named for training and for validation", mine->path().string());
    }
}

}  // namespace saccade
