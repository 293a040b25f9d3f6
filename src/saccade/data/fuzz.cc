// Feeds the readers of token files and JSONL what nobody would write: good files, made at random and then
// spoilt. A file must either be refused with an Error that names it, or be readable to its last token.
// Anything else (another exception, a crash, more than a few seconds) ends the program with the number that
// makes the file again.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "saccade/base/error.h"
#include "saccade/base/fuzz_driver.h"
#include "saccade/base/json.h"
#include "saccade/data/document_files.h"
#include "saccade/data/hash.h"
#include "saccade/data/packed.h"
#include "saccade/data/token_shard.h"

// The files are small: whoever asks for a hundred megabytes has believed a number in one.
// NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" const char* __asan_default_options() {
  return "malloc_context_size=6:quarantine_size_mb=16:max_allocation_size_mb=100";
}

namespace saccade {
namespace {

constexpr size_t kHeader = 64, kChecksum = 56;

void expect(bool ok, const char* what) {
  if (!ok) throw FuzzFailure{what};
}

std::string bytes_of(const auto& value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }

void mend_checksum(std::string& file) {
  if (file.size() < kHeader) return;
  const uint64_t sum = hash_bytes(std::string_view(file).substr(0, kChecksum));
  std::memcpy(file.data() + kChecksum, &sum, sizeof sum);
}

std::string good_shard(RandomStream& random) {
  const bool wide = random.below(2) == 1;
  const uint64_t vocabulary = wide ? 65537 + random.below(100'000) : 1 + random.below(65536);
  const uint64_t documents = 1 + random.below(6);
  std::string ends, tokens;
  uint64_t count = 0;
  for (uint64_t document = 0; document < documents; ++document) {
    count += 1 + random.below(9);
    ends += bytes_of(count);
  }
  for (uint64_t token = 0; token < count; ++token) {
    const auto id = static_cast<uint32_t>(random.below(vocabulary));
    tokens += bytes_of(id).substr(0, wide ? 4 : 2);
  }
  std::string file = "SACCTOKS";
  file += bytes_of(uint32_t{1}) + bytes_of(wide ? uint32_t{4} : uint32_t{2}) + bytes_of(count) +
          bytes_of(documents) + bytes_of(vocabulary) + bytes_of(random.next()) +
          bytes_of(static_cast<uint32_t>(random.below(5))) +
          bytes_of(static_cast<uint32_t>(random.below(2))) + bytes_of(uint64_t{0});
  mend_checksum(file);
  return file + ends + tokens;
}

void spoil(std::string& file, RandomStream& random) {
  static const uint64_t numbers[] = {0,
                                     1,
                                     2,
                                     4,
                                     65535,
                                     65536,
                                     65537,
                                     uint64_t{1} << 31,
                                     uint64_t{1} << 61,
                                     uint64_t{1} << 63,
                                     ~uint64_t{0},
                                     ~uint64_t{0} - 7};
  switch (random.below(5)) {
    case 0:
      file.resize(random.below(file.size() + 1));
      break;
    case 1:
      file[random.below(file.size())] = static_cast<char>(random.below(256));
      break;
    case 2:
      file.insert(random.below(file.size() + 1), 1 + random.below(20), static_cast<char>(random.below(256)));
      break;
    default: {
      const uint64_t number = random.below(2) ? numbers[random.below(std::size(numbers))] : random.below(60);
      const size_t width = random.below(2) ? 8 : 4, place = random.below(file.size() / 4 + 1) * 4;
      if (place + width <= file.size()) std::memcpy(file.data() + place, &number, width);
    }
  }
}

// Returns whether the file is a shard all of whose tokens are in the vocabulary.
bool examine_shard(const std::string& text) {
  // In a block of its own, so that the sanitizer sees a step beyond its end.
  const auto copy = std::make_unique<std::byte[]>(text.size());
  std::memcpy(copy.get(), text.data(), text.size());
  try {
    const TokenShard shard = parse_shard({copy.get(), text.size()}, "the file");
    expect(shard.documents() >= 1 && shard.count() >= shard.documents(), "a document has no token");
    const std::vector<TokenShard> shards = {shard};
    if (shard.count() < 3) return true;
    const DividedDocuments parts = divide_documents(shards, 0.3);
    for (const auto& runs : {all_documents(shards), parts.train, parts.validation}) {
      int64_t tokens = 0;
      for (const DocumentRun& run : runs) tokens += run.tokens;
      for (const int64_t length : {1, 5}) {
        if (tokens <= length) continue;
        const auto data = packed_dataset(shards, runs, length, 1, "the file");
        for (int64_t row = 0; row < 2 * data->size(); ++row)
          for (const int32_t id : data->read(row).ids)
            expect(id >= 0 && id < shard.vocabulary, "an id is outside the vocabulary");
      }
    }
    return true;
  } catch (const Error& error) {
    expect(std::string_view(error.what()).starts_with("the file"), "a message does not name the file");
    return false;
  }
}

std::string good_jsonl(RandomStream& random) {
  static const std::vector<std::string> texts = {"",   " ",     "one\ntwo", "\u00e9\U0001F600",
                                                 "\"", "= a =", "\x7f"};
  std::string file = random.below(8) == 0 ? "\xEF\xBB\xBF" : "";
  const uint64_t lines = random.below(5);
  for (uint64_t line = 0; line < lines; ++line) {
    Json value = {{"id", line}, {"text", texts[random.below(texts.size())]}, {"more", {1, nullptr, "x"}}};
    file += dump(value) + (random.below(3) ? "\n" : "\r\n");
    if (random.below(5) == 0) file += "\n";
  }
  if (random.below(2) && file.ends_with('\n')) file.pop_back();
  return file;
}

bool examine_documents(const std::string& text, const DocumentFormat& format) {
  try {
    size_t bytes = 0;
    read_documents(text, "the file", format, [&](const DocumentText& document) {
      expect(!document.text().empty(), "a document is empty");
      bytes += document.text().size();
      return true;
    });
    expect(bytes <= text.size(), "documents are longer than their file");
    return true;
  } catch (const Error& error) {
    expect(std::string_view(error.what()).starts_with("the file"), "a message does not name the file");
    return false;
  }
}

bool fuzz(RandomStream& random, std::string& shown) {
  if (random.below(2)) {
    std::string file = good_shard(random);
    expect(examine_shard(file), "a good shard is refused");
    const uint64_t changes = 1 + random.below(3);
    for (uint64_t count = 0; count < changes && !file.empty(); ++count) spoil(file, random);
    if (random.below(4)) mend_checksum(file);
    return examine_shard(file);
  }
  shown = good_jsonl(random);
  expect(examine_documents(shown, {.jsonl = true}), "good JSONL is refused");
  const uint64_t changes = 1 + random.below(3);
  for (uint64_t count = 0; count < changes && !shown.empty(); ++count) spoil(shown, random);
  for (const char* kind : {"file", "blank", "line", "heading"})
    expect(examine_documents(shown, {.documents = kind}), "text is refused");
  return examine_documents(shown, {.jsonl = true});
}

}  // namespace
}  // namespace saccade

int main(int count, char** arguments) {
  return saccade::run_fuzzer(
      count, arguments,
      {.program = "data_fuzz", .inputs = "files", .valid = "valid", .examine = saccade::fuzz});
}
