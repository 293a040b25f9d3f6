// Random valid files of every kind that this rung reads, and ways to spoil them. For the fuzzer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "saccade/base/json.h"
#include "saccade/base/random.h"
#include "saccade/weights/tensor_view.h"

namespace saccade {

enum class FileKind { safetensors, gguf, config, index };

namespace random_files {

inline std::string bytes(std::size_t size, RandomStream& random) {
  std::string result(size, '\0');
  for (char& byte : result) byte = static_cast<char>(random.below(256));
  return result;
}

inline TensorView tensor(bool gguf, int number, RandomStream& random) {
  const auto formats = element_formats();
  const ElementFormat* format = nullptr;
  do format = &formats[random.below(formats.size())];
  while (gguf ? format->gguf_id < 0 : !format->in_safetensors);
  TensorView result{.name = "t" + std::to_string(number), .type = format->type};
  for (std::uint64_t rank = random.below(4); rank > 0; --rank)
    result.shape.push_back(static_cast<std::int64_t>(random.below(8) == 0 ? 0 : 1 + random.below(3)));
  if (result.shape.empty() && format->block_elements > 1) result.shape.push_back(1);
  if (!result.shape.empty()) result.shape.back() *= format->block_elements;
  return result;
}

inline std::string safetensors_header(const std::vector<TensorView>& tensors, std::int64_t& position) {
  Json header = Json::object();
  header["__metadata__"] = {{"format", "pt"}};
  for (const TensorView& item : tensors) {
    const std::int64_t size = count_bytes(item.type, item.shape, item.name);
    header[item.name] = {{"dtype", format_of(item.type).name},
                         {"shape", item.shape},
                         {"data_offsets", {position, position + size}}};
    position += size;
  }
  return dump(header);
}

inline std::string with_length(const std::string& header) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header;
}

template <class Number>
void put(std::string& out, Number value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

inline void put_text(std::string& out, std::string_view text) {
  put<std::uint64_t>(out, text.size());
  out += text;
}

inline void put_value(std::string& out, std::uint32_t type, int depth, RandomStream& random) {
  constexpr std::size_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  if (type == 7) {
    put<std::uint8_t>(out, static_cast<std::uint8_t>(random.below(2)));
  } else if (type == 8) {
    put_text(out, bytes(random.below(6), random));
  } else if (type == 9) {
    auto element = static_cast<std::uint32_t>(random.below(13));
    if (element == 9 && depth >= 3) element = 8;
    put(out, element);
    const std::uint64_t size = random.below(4);
    put(out, size);
    for (std::uint64_t done = 0; done < size; ++done) put_value(out, element, depth + 1, random);
  } else {
    out += bytes(kSizes[type], random);
  }
}

inline std::string gguf(const std::vector<TensorView>& tensors, RandomStream& random) {
  std::uint64_t alignment = 32;
  std::string out = "GGUF";
  put<std::uint32_t>(out, 2 + static_cast<std::uint32_t>(random.below(2)));
  put<std::uint64_t>(out, tensors.size());
  const std::uint64_t keys = random.below(6);
  const bool aligned = random.below(2) == 0;
  put<std::uint64_t>(out, keys + (aligned ? 1 : 0));
  for (std::uint64_t key = 0; key < keys; ++key) {
    put_text(out, "key" + std::to_string(key));
    const auto type = static_cast<std::uint32_t>(random.below(13));
    put(out, type);
    put_value(out, type, 0, random);
  }
  if (aligned) {
    alignment = std::uint64_t{1} << random.below(8);
    put_text(out, "general.alignment");
    put<std::uint32_t>(out, 4);
    put(out, static_cast<std::uint32_t>(alignment));
  }
  const auto align = [&](std::uint64_t position) {
    return (position + alignment - 1) / alignment * alignment;
  };
  std::uint64_t offset = 0, end = 0;
  for (const TensorView& item : tensors) {
    put_text(out, item.name);
    put(out, static_cast<std::uint32_t>(item.shape.size()));
    for (auto size = item.shape.rbegin(); size != item.shape.rend(); ++size) put(out, *size);
    put(out, static_cast<std::uint32_t>(format_of(item.type).gguf_id));
    put(out, offset);
    end = offset + static_cast<std::uint64_t>(count_bytes(item.type, item.shape, item.name));
    offset = align(end);
  }
  out.resize(align(out.size()));
  return out + bytes(end, random);
}

inline Json config_value(int depth, RandomStream& random) {
  switch (random.below(depth < 3 ? 9 : 7)) {
    case 0:
      return nullptr;
    case 1:
      return random.below(2) == 0;
    case 2:
      return static_cast<std::int64_t>(random.next());
    case 3:
      return random.below(5000);
    case 4:
      return random.normal();
    case 5:
      return random.next();
    case 6:
      return "text";
    case 7: {
      Json list = Json::array();
      for (std::uint64_t size = random.below(4); size > 0; --size)
        list.push_back(config_value(depth + 1, random));
      return list;
    }
    default: {
      Json object = Json::object();
      for (std::uint64_t size = random.below(4); size > 0; --size)
        object["key" + std::to_string(size)] = config_value(depth + 1, random);
      return object;
    }
  }
}

// Numbers that are wrong in most places.
inline std::uint64_t odd_number(RandomStream& random) {
  constexpr std::uint64_t kNumbers[] = {0, 1, 2, 7, 8, 9, 12, 13, 31, 32, 33, 255, 256, 65535, UINT64_MAX};
  const std::uint64_t choice = random.below(std::size(kNumbers) + 2);
  if (choice < std::size(kNumbers)) return kNumbers[choice];
  const std::uint64_t power = std::uint64_t{1} << random.below(64);
  return choice == std::size(kNumbers) ? power : power - 1;
}

inline void spoil_bytes(std::string& text, RandomStream& random) {
  const auto place = [&] { return static_cast<std::size_t>(random.below(text.size() + 1)); };
  const std::size_t at = place(), length = std::min<std::size_t>(text.size() - at, random.below(16));
  switch (random.below(6)) {
    case 0:
      if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << random.below(8)));
      break;
    case 1:
      if (at < text.size()) text[at] = static_cast<char>(random.below(256));
      break;
    case 2:
      text.erase(at, length);
      break;
    case 3:
      text.insert(place(), text.substr(at, length));
      break;
    case 4:
      text.resize(at);
      break;
    default: {
      const std::uint64_t number = odd_number(random);
      const std::size_t size = std::min<std::size_t>(std::size_t{1} << random.below(4), text.size() - at);
      std::memcpy(text.data() + at, &number, size);
    }
  }
}

// A word of JSON in place of another, which keeps more of a text valid than a wrong byte.
inline void spoil_json(std::string& text, RandomStream& random) {
  static const std::vector<std::string> words{"null",
                                              "true",
                                              "-1",
                                              "0",
                                              "1",
                                              "1.5",
                                              "1e400",
                                              "1e30",
                                              "-0",
                                              "18446744073709551616",
                                              "9223372036854775807",
                                              "4611686018427387904",
                                              "[]",
                                              "{}",
                                              "\"\"",
                                              "\"F32\"",
                                              "\"Q8_0\"",
                                              "\"BOOL\"",
                                              "[[[[",
                                              "NaN",
                                              "\"\\u0000\"",
                                              "\"\xff\"",
                                              "\"../x\"",
                                              "\"t0\"",
                                              "\"shape\"",
                                              "\"data_offsets\"",
                                              ",",
                                              ":",
                                              "}",
                                              "]",
                                              " "};
  const std::string& word = words[random.below(words.size())];
  const auto is_part = [&](std::size_t at) {
    return std::string_view(",:[]{}").find(text[at]) == std::string_view::npos;
  };
  std::size_t begin = random.below(text.size() + 1), end = begin;
  while (begin > 0 && is_part(begin - 1)) --begin;
  while (end < text.size() && is_part(end)) ++end;
  text.replace(begin, end - begin, word);
}

}  // namespace random_files

/// A valid file.
inline std::string random_file(FileKind kind, RandomStream& random) {
  std::vector<TensorView> tensors;
  const int count = static_cast<int>(random.below(5));
  for (int number = 0; number < count; ++number)
    tensors.push_back(random_files::tensor(kind == FileKind::gguf, number, random));
  if (kind == FileKind::gguf) return random_files::gguf(tensors, random);
  if (kind == FileKind::safetensors) {
    std::int64_t size = 0;
    const std::string header = random_files::safetensors_header(tensors, size);
    return random_files::with_length(header) + random_files::bytes(static_cast<std::size_t>(size), random);
  }
  Json object = Json::object();
  for (const TensorView& tensor : tensors)
    object[tensor.name] =
        kind == FileKind::index ? Json("model.safetensors") : random_files::config_value(0, random);
  return dump(kind == FileKind::index ? Json{{"weight_map", object}} : object);
}

/// The file with one mistake, or a few.
inline std::string spoil_file(FileKind kind, std::string file, RandomStream& random) {
  for (std::uint64_t times = 1 + (random.below(2) ? 0 : random.below(6)); times > 0; --times) {
    if (kind == FileKind::gguf || random.below(4) == 0 || file.size() < 8) {
      random_files::spoil_bytes(file, random);
    } else if (kind == FileKind::safetensors) {  // within the header, whose length follows
      std::uint64_t length = 0;
      std::memcpy(&length, file.data(), sizeof length);
      length = std::min<std::uint64_t>(length, file.size() - sizeof length);
      std::string header = file.substr(sizeof length, length);
      random_files::spoil_json(header, random);
      file = random_files::with_length(header) + file.substr(sizeof length + length);
    } else {
      random_files::spoil_json(file, random);
    }
  }
  return file;
}

}  // namespace saccade
