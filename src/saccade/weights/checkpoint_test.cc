#include "saccade/weights/checkpoint.h"

#include <gmock/gmock.h>

#include "saccade/weights/testing.h"

namespace saccade {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// One tensor of one byte for each letter, whose value is the letter.
std::string letters(std::string_view names) {
  std::string header = "{";
  for (std::size_t i = 0; i < names.size(); ++i) {
    header += fmt::format(R"({}"{}":{{"dtype":"U8","shape":[],"data_offsets":[{},{}]}})", i ? "," : "",
                          names[i], i, i + 1);
  }
  return safetensors_file(header + "}", names);
}

class CheckpointTest : public DirectoryTest {
 protected:
  std::string error() const {
    return message_of([&] { Checkpoint::open(directory_); });
  }
};

TEST_F(CheckpointTest, OpensAFileOrItsDirectory) {
  const auto file = make("model.safetensors", letters("ab"));
  for (const auto& path : {file, directory_}) {
    const Checkpoint checkpoint = Checkpoint::open(path);
    EXPECT_EQ(checkpoint.path(), file);
    EXPECT_THAT(checkpoint.names(), ElementsAre("a", "b"));
    EXPECT_TRUE(checkpoint.has("b"));
    EXPECT_FALSE(checkpoint.has("c"));
    EXPECT_EQ(checkpoint.get("b").bytes[0], std::byte{'b'});
    EXPECT_EQ(checkpoint.gguf(), nullptr);
  }
}

TEST_F(CheckpointTest, SuggestsANearName) {
  make("model.safetensors",
       safetensors_file(R"({"wte.weight":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", ""));
  const Checkpoint checkpoint = Checkpoint::open(directory_);
  EXPECT_THAT(
      message_of([&] { checkpoint.get("wte.weigth"); }),
      AllOf(HasSubstr("model.safetensors: no tensor 'wte.weigth'"), HasSubstr("did you mean 'wte.weight'?")));
}

TEST_F(CheckpointTest, OpensShardsThroughTheirIndex) {
  make("x.safetensors", letters("ab"));
  make("y.safetensors", letters("cd"));
  const auto index = make("model.safetensors.index.json",
                          R"({"weight_map":{"d":"y.safetensors","a":"x.safetensors","c":"y.safetensors"}})");
  for (const auto& path : {index, directory_}) {
    Checkpoint opened = Checkpoint::open(path);
    const Checkpoint checkpoint = std::move(opened);
    EXPECT_THAT(checkpoint.names(), ElementsAre("a", "b", "c", "d"));
    EXPECT_EQ(checkpoint.get("d").bytes[0], std::byte{'d'});
  }
}

TEST_F(CheckpointTest, RefusesShardsThatDoNotHoldWhatTheIndexSays) {
  make("x.safetensors", letters("ab"));
  const auto with_map = [&](std::string_view map) {
    make("model.safetensors.index.json", fmt::format(R"({{"weight_map":{}}})", map));
    return error();
  };
  EXPECT_THAT(with_map(R"({"a":"x.safetensors","c":"y.safetensors"})"),
              AllOf(HasSubstr("index.json: "), HasSubstr("y.safetensors: cannot read: No such file")));
  EXPECT_THAT(with_map(R"({"a":"x.safetensors","c":"x.safetensors"})"),
              HasSubstr("lists the tensor 'c' in x.safetensors, which does not hold it"));
  make("y.safetensors", letters("cd"));
  EXPECT_THAT(with_map(R"({"a":"y.safetensors","b":"x.safetensors"})"),
              HasSubstr("lists the tensor 'a' in y.safetensors, which does not hold it"));
  make("y.safetensors", letters("bc"));
  EXPECT_THAT(with_map(R"({"a":"x.safetensors","c":"y.safetensors"})"),
              HasSubstr("'b' is also in another file"));
}

TEST_F(CheckpointTest, OpensAGgufFileWithItsMetadata) {
  GgufBytes bytes(1, 1);
  bytes.key("general.architecture", 8).text("llama").tensor("t", {1}, 0, 0).align().data(raw<float>({2}));
  make("tiny.gguf", bytes.bytes());
  const Checkpoint opened = Checkpoint::open(directory_);
  ASSERT_NE(opened.gguf(), nullptr);
  EXPECT_EQ(opened.gguf()->text("general.architecture"), "llama");
  EXPECT_THAT(opened.names(), ElementsAre("t"));
}

TEST_F(CheckpointTest, SaysWhyADirectoryHasNoWeights) {
  EXPECT_THAT(error(), HasSubstr("holds no weights"));
  make("pytorch_model.bin", "");
  EXPECT_THAT(error(), AllOf(HasSubstr("has its weights in pytorch_model.bin"),
                             HasSubstr("expected model.safetensors")));
  make("b.gguf", "");
  make("a.safetensors", "");
  EXPECT_THAT(error(), HasSubstr("holds a.safetensors, b.gguf; expected"));
  EXPECT_THAT(message_of([&] { Checkpoint::open(at("none")); }),
              HasSubstr("none: cannot read: No such file"));
}

}  // namespace
}  // namespace saccade
