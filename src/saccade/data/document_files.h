// Documents out of files of text or JSONL. Files are mapped, and a document of text is a view into its file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/base/mapped_file.h"

namespace saccade {

/// The files that patterns name, those of each pattern in the order of their bytes. A path without *, ? and
/// [, or of a file that is there, names itself. Throws Error when a pattern fits nothing.
std::vector<std::filesystem::path> find_data_files(const std::vector<std::string>& patterns);

/// How a file is divided into documents.
struct DocumentFormat {
  bool jsonl = false;
  std::string documents = "file";  // of text, as DataOptions has it
  std::string field = "text";      // of JSONL
};

/// A document's text, which lies in its file or in the document itself.
class DocumentText {
 public:
  explicit DocumentText(std::string_view in_file) : view_(in_file) {}
  explicit DocumentText(std::string own) : own_(std::move(own)) {}
  std::string_view text() const { return own_.empty() ? view_ : std::string_view(own_); }

 private:
  std::string_view view_;
  std::string own_;
};

/// Called with one document after another; false: that is enough.
using OnDocument = std::function<bool(DocumentText document)>;

/// Reads the documents of a file's content in their order. Those without a character that is not white space
/// are passed over. A byte order mark at the beginning is no text. Lines may end in CR LF. Returns false if
/// it was told to stop. Throws Error, with the name and the line, for what is no JSONL.
bool read_documents(std::string_view content, const std::string& name, const DocumentFormat& format,
                    const OnDocument& on_document);

/// Some files. Copies are cheap.
class DocumentFiles {
 public:
  /// Throws Error for a file that cannot be read or is empty.
  DocumentFiles(const std::vector<std::string>& patterns, DocumentFormat format);

  /// All documents of all files. Throws Error when a file has none.
  void each(const OnDocument& on_document) const;

  int64_t count() const;
  int64_t bytes() const;

  /// Throws Error when one of the files is among those of the other.
  void require_apart(const DocumentFiles& other) const;

 private:
  DocumentFormat format_;
  std::vector<std::shared_ptr<const MappedFile>> files_;
};

}  // namespace saccade
