// Pairs of sentences out of files: two files that go together line by line, or one of TSV or JSONL. All of
// them may be compressed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "saccade/data/translation.h"

namespace saccade {

/// The lines of a file, compressed or not, without their ends; "-" is standard input. An empty line is a
/// line: nothing is left out, so that line n stays line n. A byte order mark at the beginning is no text. Of
/// the files that evaluation campaigns give away, the sentences alone: <seg> elements of .sgm and .xml, and
/// of IWSLT's train.tags.* the lines that are no description of the talk.
std::vector<std::string> read_parallel_lines(const std::string& file);

struct ParallelFormat {
  std::string source_field = "source", target_field = "target";  // of JSONL; "translation.en" goes deeper
};

/// Pairs in the order of the files. Without `target`, files are TSV (source, tab, target), or JSONL when
/// their name says so (.jsonl, .json, also .gz behind it). Patterns are as find_data_files has them. Throws
/// Error, with file and line, when two files have different numbers of lines, or a line is no pair.
std::vector<TranslationPair> read_pairs(const std::vector<std::string>& source,
                                        const std::vector<std::string>& target, const ParallelFormat& format);

}  // namespace saccade
