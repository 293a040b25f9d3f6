#include "saccade/base/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>

#include "saccade/base/error.h"
#include "saccade/base/file.h"

namespace saccade {
namespace {

// Ends what zlib holds, however a function is left.
struct Inflater {
  z_stream stream{};
  explicit Inflater(const std::string& name) {
    constexpr int kGzipOnly = 15 + 16;  // the largest window, and no other format
    require(inflateInit2(&stream, kGzipOnly) == Z_OK, "{}: cannot be unpacked: zlib does not start", name);
  }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
};

}  // namespace

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

std::string unpack_gzip(std::string_view bytes, const std::string& name, std::size_t max_bytes) {
  std::string result;
  std::array<char, 1 << 16> buffer;
  while (!bytes.empty()) {
    // Zeros behind the last part are padding, as tapes and some programs leave it.
    if (!result.empty() && bytes.find_first_not_of('\0') == bytes.npos) break;
    Inflater inflater(name);
    z_stream& stream = inflater.stream;
    int state = Z_OK;
    while (state != Z_STREAM_END) {
      const size_t offered =
          std::min<size_t>(bytes.size(), static_cast<size_t>(std::numeric_limits<int>::max()));
      // zlib does not write there; its interface is older than const.
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
      stream.avail_in = static_cast<uInt>(offered);
      stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
      stream.avail_out = static_cast<uInt>(buffer.size());
      state = inflate(&stream, Z_NO_FLUSH);
      const size_t taken = offered - stream.avail_in, made = buffer.size() - stream.avail_out;
      require(state != Z_BUF_ERROR && (state == Z_STREAM_END || taken + made > 0),
              "{}: the compressed text is cut off", name);
      require(state == Z_OK || state == Z_STREAM_END, "{}: the compressed text is damaged: {}", name,
              stream.msg ? stream.msg : "zlib cannot read it");
      require(made <= max_bytes - result.size(), "{}: it unpacks to more than {} bytes", name, max_bytes);
      result.append(buffer.data(), made);
      bytes.remove_prefix(taken);
    }
  }
  return result;
}

std::string read_text_file(const std::filesystem::path& path, std::size_t max_bytes) {
  std::string content = read_file(path, max_bytes);
  return is_gzip(content) ? unpack_gzip(content, path.string(), max_bytes) : content;
}

}  // namespace saccade
