// The header is known before any tensor is looked at, so a file is written from front to back.
#include "saccade/weights/safetensors_writer.h"

#include <algorithm>
#include <numeric>
#include <system_error>

#include "saccade/base/error.h"
#include "saccade/base/file.h"
#include "saccade/base/json.h"

namespace saccade {
namespace {

// Names and metadata become JSON, which is UTF-8; anything else would come back as another name.
void require_utf8(std::string_view text, std::string_view what) {
  try {
    const std::string unused = Json(text).dump();
  } catch (const Json::exception&) {
    fail("{} '{}' is not UTF-8; expected text", what, text);
  }
}

std::string print_header(std::span<const TensorSource* const> order, std::span<const std::int64_t> sizes,
                         const SafetensorsMetadata& metadata) {
  // Appended to a text rather than to one object: that would look through all members for each new one.
  std::string header = "{";
  if (!metadata.empty()) header += fmt::format("\"__metadata__\":{},", dump(Json(metadata)));
  std::int64_t position = 0;
  for (std::size_t index = 0; index < order.size(); ++index) {
    const TensorSource& source = *order[index];
    const Json entry{{"dtype", format_of(source.type).name},
                     {"shape", source.shape},
                     {"data_offsets", {position, position + sizes[index]}}};
    header += fmt::format("{}:{},", dump(Json(source.name)), dump(entry));
    position += sizes[index];
  }
  if (header.back() == ',') header.pop_back();
  header += '}';
  header.resize((header.size() + 7) / 8 * 8, ' ');  // with the length before it, the data start aligned
  return header;
}

void require_writable(std::span<const TensorSource> sources, std::string_view where) {
  for (const TensorSource& source : sources) {
    require_utf8(source.name, fmt::format("{}: the name of tensor", where));
    require(source.name != "__metadata__", "{}: a tensor is called '{}', which the format keeps for itself",
            where, source.name);
    require(format_of(source.type).in_safetensors,
            "{}: tensor '{}' has type {}, which safetensors does not have", where, source.name,
            format_of(source.type).name);
  }
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, std::span<const TensorSource> sources,
                       const SafetensorsMetadata& metadata) {
  const std::string where = path.string();
  require_writable(sources, where);
  for (const auto& [key, value] : metadata)
    for (const std::string& text : {key, value}) require_utf8(text, fmt::format("{}: metadata", where));
  const std::vector<std::int64_t> given_sizes = measure(sources, where);

  std::vector<std::size_t> order(sources.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t left, std::size_t right) {
    const int left_width = format_of(sources[left].type).block_bytes;
    const int right_width = format_of(sources[right].type).block_bytes;
    return left_width != right_width ? left_width > right_width : sources[left].name < sources[right].name;
  });
  std::vector<const TensorSource*> ordered;
  std::vector<std::int64_t> sizes;
  for (const std::size_t index : order) {
    ordered.push_back(&sources[index]);
    sizes.push_back(given_sizes[index]);
  }

  const std::string header = print_header(ordered, sizes, metadata);
  const std::uint64_t length = header.size();
  AtomicFile file(path);
  file.append({reinterpret_cast<const char*>(&length), sizeof length});
  file.append(header);
  for (std::size_t index = 0; index < ordered.size(); ++index)
    append_tensor(file, *ordered[index], sizes[index]);
  file.commit();
}

std::vector<std::string> write_safetensors_shards(const std::filesystem::path& directory,
                                                  std::span<const TensorSource> sources,
                                                  std::int64_t shard_bytes,
                                                  const SafetensorsMetadata& metadata) {
  const std::string where = directory.string();
  require(shard_bytes > 0, "{}: the size of a shard is {} bytes; expected more than 0", where, shard_bytes);
  require_writable(sources, where);
  const std::vector<std::int64_t> sizes = measure(sources, where);

  std::vector<std::size_t> begins;  // of the shards, in `sources`
  std::int64_t total = 0, filled = 0;
  for (std::size_t index = 0; index < sources.size(); ++index) {
    if (begins.empty() || sizes[index] > shard_bytes - filled) {
      begins.push_back(index);
      filled = 0;
    }
    filled += std::min(sizes[index], shard_bytes);
    total += sizes[index];
  }

  const auto single = directory / "model.safetensors";
  const auto index_path = directory / "model.safetensors.index.json";
  std::error_code ignored;  // what could not be removed is what is not there
  if (begins.size() <= 1) {
    write_safetensors(single, sources, metadata);
    std::filesystem::remove(index_path, ignored);
    return {single.filename().string()};
  }
  std::vector<std::string> names;
  SortedJson map = SortedJson::object();
  for (std::size_t shard = 0; shard < begins.size(); ++shard) {
    const std::size_t end = shard + 1 < begins.size() ? begins[shard + 1] : sources.size();
    const auto content = sources.subspan(begins[shard], end - begins[shard]);
    names.push_back(fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, begins.size()));
    write_safetensors(directory / names.back(), content, metadata);
    for (const TensorSource& source : content) map[source.name] = names.back();
  }
  const SortedJson index{{"metadata", {{"total_size", total}}}, {"weight_map", std::move(map)}};
  write_atomic(index_path, index.dump(2) + "\n");
  std::filesystem::remove(single, ignored);
  return names;
}

}  // namespace saccade
