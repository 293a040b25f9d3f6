// A header of 64 bytes, the ends of the documents, the tokens. Numbers are little-endian. The header's
// checksum tells a damaged file from one of another kind; the size of the file tells whether it was cut off.
#include "saccade/data/token_shard.h"

#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "saccade/base/error.h"
#include "saccade/base/file.h"
#include "saccade/base/mapped_file.h"
#include "saccade/data/hash.h"

namespace saccade {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

struct Header {
  char magic[8];
  uint32_t version, width;
  uint64_t tokens, documents, vocabulary, fingerprint;
  uint32_t number, last;
  uint64_t checksum;  // of all bytes before it
};
static_assert(sizeof(Header) == 64);

constexpr char kMagic[8] = {'S', 'A', 'C', 'C', 'T', 'O', 'K', 'S'};
constexpr uint32_t kVersion = 1;
constexpr uint64_t kMostNarrow = 65536;
constexpr uint64_t kMostIds = uint64_t{1} << 31;

uint64_t checksum(const Header& header) {
  return hash_bytes({reinterpret_cast<const char*>(&header), offsetof(Header, checksum)});
}

template <class Stored>
void copy_as(const std::byte* from, std::span<int32_t> result) {
  for (size_t place = 0; place < result.size(); ++place) {
    Stored token;
    std::memcpy(&token, from + place * sizeof(Stored), sizeof(Stored));
    result[place] = static_cast<int32_t>(token);
  }
}

std::string_view characters(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void TokenShard::copy(int64_t first, std::span<int32_t> result) const {
  invariant(first >= 0 && first <= count() && static_cast<int64_t>(result.size()) <= count() - first,
            "tokens beyond the end of a shard");
  const std::byte* const from = tokens.data() + first * width;
  width == 2 ? copy_as<uint16_t>(from, result) : copy_as<uint32_t>(from, result);
  for (size_t place = 0; place < result.size(); ++place)
    require(result[place] >= 0 && result[place] < vocabulary,
            "{}: token {} is {}; expected less than {}, the size of the vocabulary", name,
            first + static_cast<int64_t>(place), static_cast<uint32_t>(result[place]), vocabulary);
}

TokenShard parse_shard(std::span<const std::byte> file, std::string name) {
  invariant(reinterpret_cast<uintptr_t>(file.data()) % alignof(uint64_t) == 0, "a shard is not aligned");
  require(file.size() >= sizeof(Header) && std::memcmp(file.data(), kMagic, sizeof kMagic) == 0,
          "{}: this is no file of tokens; `saccade prepare` makes them", name);
  Header header;
  std::memcpy(&header, file.data(), sizeof header);
  require(header.version == kVersion, "{}: version {} of the format; this program reads version {}", name,
          header.version, kVersion);
  require(header.checksum == checksum(header), "{}: the header is damaged: its checksum is wrong", name);
  require(header.width == 2 || header.width == 4, "{}: tokens of {} bytes; expected 2 or 4", name,
          header.width);
  require(header.vocabulary >= 1 && header.vocabulary <= (header.width == 2 ? kMostNarrow : kMostIds),
          "{}: a vocabulary of {} tokens does not fit {} bytes", name, header.vocabulary, header.width);
  require(header.last <= 1, "{}: the mark of the last file is {}; expected 0 or 1", name, header.last);
  const uint64_t room = file.size() - sizeof(Header);
  // In this order no product can be too large for its type.
  const bool fits = header.documents <= room / 8 &&
                    header.tokens <= (room - header.documents * 8) / header.width &&
                    header.documents * 8 + header.tokens * header.width == room;
  require(fits, "{}: {} bytes are not {} documents of {} tokens: the file was cut off or is damaged", name,
          file.size(), header.documents, header.tokens);
  require(header.documents > 0, "{}: there is no document in it", name);
  TokenShard shard{.name = std::move(name),
                   .width = static_cast<int>(header.width),
                   .vocabulary = static_cast<int64_t>(header.vocabulary),
                   .fingerprint = header.fingerprint,
                   .number = header.number,
                   .last = header.last == 1};
  shard.ends = {reinterpret_cast<const uint64_t*>(file.data() + sizeof(Header)),
                static_cast<size_t>(header.documents)};
  shard.tokens = file.subspan(sizeof(Header) + shard.ends.size_bytes());
  uint64_t before = 0;
  for (const uint64_t end : shard.ends) {
    require(end > before && end <= header.tokens,
            "{}: a document ends at token {}, the one before it at {}, and there are {}", shard.name, end,
            before, header.tokens);
    before = end;
  }
  require(before == header.tokens, "{}: the last document ends at token {} of {}", shard.name, before,
          header.tokens);
  return shard;
}

TokenShard open_shard(const std::filesystem::path& path) {
  const auto file = std::make_shared<const MappedFile>(path);
  TokenShard shard = parse_shard(file->bytes(), path.string());
  shard.memory = file;
  return shard;
}

void write_shard(const TokenShard& shard, const std::filesystem::path& path) {
  Header header{.version = kVersion,
                .width = static_cast<uint32_t>(shard.width),
                .tokens = static_cast<uint64_t>(shard.count()),
                .documents = shard.ends.size(),
                .vocabulary = static_cast<uint64_t>(shard.vocabulary),
                .fingerprint = shard.fingerprint,
                .number = static_cast<uint32_t>(shard.number),
                .last = shard.last ? 1U : 0U};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.checksum = checksum(header);
  AtomicFile file(path);
  file.append(characters(std::as_bytes(std::span(&header, 1))));
  file.append(characters(std::as_bytes(shard.ends)));
  file.append(characters(shard.tokens));
  file.commit();
}

TokenBuffer::TokenBuffer(int64_t vocabulary, uint64_t fingerprint)
    : vocabulary_(vocabulary),
      fingerprint_(fingerprint),
      width_(static_cast<uint64_t>(vocabulary) <= kMostNarrow ? 2 : 4) {
  require(vocabulary >= 1 && static_cast<uint64_t>(vocabulary) <= kMostIds,
          "tokens: a vocabulary of {}; expected 1 to {}", vocabulary, kMostIds);
}

void TokenBuffer::add(std::span<const int32_t> document) {
  invariant(!document.empty(), "a document without tokens");
  const size_t before = bytes_.size();
  bytes_.resize(before + document.size() * static_cast<size_t>(width_));
  std::byte* to = bytes_.data() + before;
  for (const int32_t id : document) {
    require(id >= 0 && id < vocabulary_, "tokens: the id {} is not in the vocabulary of {}", id, vocabulary_);
    const auto stored = static_cast<uint32_t>(id);  // its low half comes first
    std::memcpy(to, &stored, static_cast<size_t>(width_));
    to += width_;
  }
  ends_.push_back(static_cast<uint64_t>(count()));
}

TokenShard TokenBuffer::take(std::string name) {
  struct Memory {
    std::vector<std::byte> bytes;
    std::vector<uint64_t> ends;
  };
  const auto memory = std::make_shared<Memory>(Memory{std::exchange(bytes_, {}), std::exchange(ends_, {})});
  return {.name = std::move(name),
          .width = width_,
          .vocabulary = vocabulary_,
          .fingerprint = fingerprint_,
          .tokens = memory->bytes,
          .ends = memory->ends,
          .memory = memory};
}

}  // namespace saccade
