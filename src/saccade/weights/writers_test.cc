// Both writers: what they write, the readers read back.
#include <gmock/gmock.h>

#include <algorithm>

#include "saccade/base/file.h"
#include "saccade/base/json.h"
#include "saccade/weights/checkpoint.h"
#include "saccade/weights/dequantise.h"
#include "saccade/weights/gguf_writer.h"
#include "saccade/weights/safetensors.h"
#include "saccade/weights/safetensors_writer.h"
#include "saccade/weights/testing.h"

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

// Tensors of several types whose bytes are different letters.
struct Samples {
  std::string letters = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz";
  std::vector<TensorView> views;
  std::vector<TensorSource> sources;

  void add(std::string name, ElementType type, std::vector<std::int64_t> shape) {
    const auto size = static_cast<std::size_t>(count_bytes(type, shape, name));
    views.push_back({std::move(name), type, std::move(shape), as_bytes(letters).subspan(views.size(), size)});
    sources.push_back(TensorSource::of(views.back()));
  }
};

void expect_same(const Checkpoint& checkpoint, const Samples& samples) {
  EXPECT_EQ(checkpoint.tensors().size(), samples.views.size());
  for (const TensorView& view : samples.views) {
    const TensorView& read = checkpoint.get(view.name);
    EXPECT_EQ(read.type, view.type) << view.name;
    EXPECT_EQ(read.shape, view.shape) << view.name;
    EXPECT_TRUE(std::ranges::equal(read.bytes, view.bytes)) << view.name;
  }
}

using SafetensorsWriter = DirectoryTest;
using GgufWriter = DirectoryTest;

TEST_F(SafetensorsWriter, WritesWhatIsReadBack) {
  Samples samples;
  samples.add("narrow", ElementType::U8, {3});
  samples.add("wide", ElementType::F64, {2, 2});
  samples.add("scalar", ElementType::F32, {});
  samples.add("empty", ElementType::BF16, {0, 7});
  samples.add("quote \" and \xc3\xa4", ElementType::F16, {5});
  write_safetensors(at("model.safetensors"), samples.sources);
  expect_same(Checkpoint::open(directory_), samples);
  EXPECT_THAT(names(), ElementsAre("model.safetensors"));

  const std::string bytes = read_file(at("model.safetensors"), 1 << 20);
  const Safetensors content = parse_safetensors(as_bytes(bytes), "");
  EXPECT_THAT(content.metadata, ElementsAre(Pair("format", "pt")));
  for (const TensorView& tensor : content.tensors) {
    const auto offset = tensor.bytes.data() - as_bytes(bytes).data();
    EXPECT_EQ(offset % format_of(tensor.type).block_bytes, 0) << tensor.name;
  }
}

TEST_F(SafetensorsWriter, WritesAModelWithoutTensors) {
  write_safetensors(at("model.safetensors"), {}, {});
  EXPECT_EQ(read_file(at("model.safetensors"), 100), safetensors_file("{}      ", ""));
  EXPECT_THAT(Checkpoint::open(directory_).names(), IsEmpty());
}

TEST_F(SafetensorsWriter, DividesAModelIntoShards) {
  Samples samples;
  for (const char* name : {"a", "b", "c", "d"}) samples.add(name, ElementType::F32, {2});
  samples.add("large", ElementType::F32, {5});
  samples.add("last", ElementType::F32, {1});
  make("model.safetensors", "of an earlier model");
  const auto files = write_safetensors_shards(directory_, samples.sources, 16);
  EXPECT_THAT(files, ElementsAre("model-00001-of-00004.safetensors", "model-00002-of-00004.safetensors",
                                 "model-00003-of-00004.safetensors", "model-00004-of-00004.safetensors"));
  expect_same(Checkpoint::open(directory_), samples);
  const Json index = parse_json(read_file(at("model.safetensors.index.json"), 1 << 20), "");
  EXPECT_EQ(index["metadata"]["total_size"], 4 * 8 + 20 + 4);
  EXPECT_EQ(index["weight_map"]["large"], files[2]);

  EXPECT_THAT(write_safetensors_shards(directory_, samples.sources, 1 << 20),
              ElementsAre("model.safetensors"));
  expect_same(Checkpoint::open(directory_), samples);
  EXPECT_FALSE(std::filesystem::exists(at("model.safetensors.index.json")));
}

TEST_F(SafetensorsWriter, RefusesWhatTheFormatCannotHold) {
  const auto error = [&](const TensorSource& source) {
    return message_of([&] { write_safetensors(at("m"), std::vector{source}); });
  };
  const auto nothing = [](const ByteSink&) {};
  EXPECT_THAT(error({"q", ElementType::Q8_0, {32}, nothing}),
              HasSubstr("'q' has type Q8_0, which safetensors does not have"));
  EXPECT_THAT(error({"__metadata__", ElementType::F32, {0}, nothing}), HasSubstr("keeps for itself"));
  EXPECT_THAT(error({"\xff", ElementType::F32, {0}, nothing}), HasSubstr("is not UTF-8"));
  EXPECT_THAT(error({"n", ElementType::F32, {-1}, nothing}), HasSubstr("tensor 'n': shape is [-1]"));
  const TensorSource twice{"t", ElementType::F32, {0}, nothing};
  EXPECT_THAT(message_of([&] {
                write_safetensors(at("m"), std::vector{twice, twice});
              }),
              HasSubstr("'t': is given twice"));
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(SafetensorsWriter, LeavesNothingWhenASourceFails) {
  const TensorSource broken{"t", ElementType::F32, {4}, [](const ByteSink& sink) {
                              sink(as_bytes("1234"));
                              fail("the source is gone");
                            }};
  const TensorSource brief{"t", ElementType::F32, {4}, [](const ByteSink& sink) { sink(as_bytes("1234")); }};
  EXPECT_EQ(message_of([&] { write_safetensors(at("m"), std::vector{broken}); }), "the source is gone");
  EXPECT_THROW(write_safetensors(at("m"), std::vector{brief}), std::logic_error);
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(GgufWriter, WritesWhatIsReadBack) {
  const GgufArray nested{
      std::vector<GgufArray>{{std::vector<bool>{true, false}}, {std::vector<double>{0.5}}}};
  const GgufMetadata metadata{{"general.architecture", "llama"},
                              {"general.alignment", std::uint32_t{64}},
                              {"u8", std::uint8_t{1}},
                              {"i8", std::int8_t{-1}},
                              {"u16", std::uint16_t{2}},
                              {"i16", std::int16_t{-2}},
                              {"i32", std::int32_t{-3}},
                              {"f32", 1.5f},
                              {"bool", true},
                              {"u64", std::uint64_t{4}},
                              {"i64", std::int64_t{-4}},
                              {"f64", 0.1},
                              {"nested", nested},
                              {"tokens", GgufArray{std::vector<std::string>{"<s>", ""}}},
                              {"empty", GgufArray{std::vector<float>{}}}};
  Samples samples;
  samples.add("a", ElementType::F32, {2, 3});
  samples.add("q", ElementType::Q8_0, {1, 32});
  samples.add("half", ElementType::F16, {3});
  write_gguf(at("m.gguf"), metadata, samples.sources);
  const Checkpoint read = Checkpoint::open(at("m.gguf"));
  expect_same(read, samples);
  for (const TensorView& tensor : read.tensors())
    EXPECT_EQ((tensor.bytes.data() - read.get("a").bytes.data()) % 64, 0) << tensor.name;

  // Writing what was read must give the same file.
  std::vector<TensorSource> again;
  for (const TensorView& tensor : read.tensors()) again.push_back(TensorSource::of(tensor));
  write_gguf(at("again.gguf"), read.gguf()->metadata(), again);
  EXPECT_EQ(read_file(at("m.gguf"), 1 << 20), read_file(at("again.gguf"), 1 << 20));
  EXPECT_THAT(read.gguf()->texts("tokens"), ElementsAre("<s>", ""));
  EXPECT_EQ(read.gguf()->metadata().size(), metadata.size());
  EXPECT_THAT(names(), UnorderedElementsAre("m.gguf", "again.gguf"));
}

TEST_F(GgufWriter, RefusesWhatCouldNotBeRead) {
  const auto nothing = [](const ByteSink&) {};
  const auto error = [&](const TensorSource& source) {
    return message_of([&] { write_gguf(at("m"), {}, std::vector{source}); });
  };
  EXPECT_THAT(error({std::string(64, 'n'), ElementType::F32, {0}, nothing}),
              HasSubstr("has 64 bytes; expected fewer than 64"));
  EXPECT_THAT(error({"t", ElementType::F32, {0, 1, 1, 1, 1}, nothing}),
              HasSubstr("expected at most 4 dimensions"));
  EXPECT_THAT(error({"t", ElementType::BOOL, {0}, nothing}),
              HasSubstr("type BOOL, which GGUF does not have"));
  EXPECT_THAT(message_of([&] {
                write_gguf(at("m"), {{"k", 1.0f}, {"k", 2.0f}}, {});
              }),
              HasSubstr("'k' is given twice"));
  EXPECT_THAT(message_of([&] {
                write_gguf(at("m"), {{"general.alignment", std::uint32_t{3}}}, {});
              }),
              HasSubstr("power of two"));
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(GgufWriter, QuantisesRowByRow) {
  const auto row = [](std::int64_t number, float* out) {
    for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(number * 127);
  };
  std::vector<TensorSource> sources;
  for (const ElementType type : {ElementType::F32, ElementType::F16, ElementType::BF16, ElementType::Q8_0})
    sources.push_back(TensorSource::from_rows(std::string(format_of(type).name), type, {2, 2, 32}, row));
  EXPECT_THAT(message_of([&] {
                TensorSource::from_rows("t", ElementType::Q4_K, {1, 256}, row);
              }),
              HasSubstr("tensor 't': cannot be written as Q4_K"));
  write_gguf(at("m.gguf"), {}, sources);
  const Checkpoint read = Checkpoint::open(at("m.gguf"));
  for (const TensorView& tensor : read.tensors()) {
    float values[128];
    to_floats(tensor, values);
    for (int i = 0; i < 128; ++i) EXPECT_NEAR(values[i], static_cast<float>(i / 32 * 127), 2) << tensor.name;
    EXPECT_EQ(values[127] == 381, tensor.name != "BF16") << "needs nine bits";
  }
}

}  // namespace
}  // namespace saccade
