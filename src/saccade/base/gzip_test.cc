#include "saccade/base/gzip.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include "saccade/base/error.h"
#include "saccade/base/file.h"
#include "saccade/base/testing.h"

namespace saccade {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::string packed(std::string_view text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string result(text.size() + 100, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  deflate(&stream, Z_FINISH);
  result.resize(result.size() - stream.avail_out);
  deflateEnd(&stream);
  return result;
}

constexpr size_t kMost = 1 << 20;

TEST(Gzip, GivesBackWhatWasPacked) {
  const std::string text = std::string(100'000, 'a') + "\nend\n";
  EXPECT_EQ(unpack_gzip(packed(text), "x", kMost), text);
  EXPECT_EQ(unpack_gzip(packed(""), "x", kMost), "");
}

TEST(Gzip, PartsOneAfterAnotherAreOneText) {
  EXPECT_EQ(unpack_gzip(packed("one\n") + packed("two\n") + std::string(8, '\0'), "x", kMost), "one\ntwo\n");
}

TEST(Gzip, EveryCutIsNoticed) {
  const std::string bytes = packed("a text of some length, and a text of some length again");
  for (size_t length = 2; length < bytes.size(); ++length)
    EXPECT_THAT([&] { unpack_gzip(bytes.substr(0, length), "corpus.gz", kMost); },
                ThrowsMessage<Error>(HasSubstr("corpus.gz: ")))
        << length;
}

TEST(Gzip, DamageIsNoticed) {
  std::string bytes = packed("a text of some length");
  bytes[bytes.size() - 6] ^= 1;  // the checksum
  EXPECT_THAT([&] { unpack_gzip(bytes, "x", kMost); }, ThrowsMessage<Error>(HasSubstr("damaged")));
}

TEST(Gzip, AFileThatUnpacksToTooMuchIsRefused) {
  EXPECT_THAT([&] { unpack_gzip(packed(std::string(100'000, 'a')), "bomb", 1000); },
              ThrowsMessage<Error>(HasSubstr("more than 1000 bytes")));
}

}  // namespace
}  // namespace saccade
