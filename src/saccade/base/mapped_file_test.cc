#include "saccade/base/mapped_file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "saccade/base/testing.h"

namespace saccade {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using MappedFileTest = DirectoryTest;

std::string content_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST_F(MappedFileTest, ShowsEveryByte) {
  const std::string content("a\0b\xff", 4);
  const MappedFile file(make("data", content));
  EXPECT_EQ(content_of(file), content);
  EXPECT_EQ(file.path(), at("data"));
}

TEST_F(MappedFileTest, AnEmptyFileHasNoBytes) { EXPECT_TRUE(MappedFile(make("empty", "")).bytes().empty()); }

TEST_F(MappedFileTest, KeepsItsBytesInPlaceWhenItIsMoved) {
  MappedFile first(make("one", "1"));
  const std::byte* place = first.bytes().data();
  MappedFile second(std::move(first));
  EXPECT_EQ(second.bytes().data(), place);
  MappedFile third(make("two", "22"));
  third = std::move(second);
  EXPECT_EQ(third.bytes().data(), place);
  EXPECT_EQ(content_of(third), "1");
}

TEST_F(MappedFileTest, OutlivesTheNameOfItsFile) {
  const MappedFile file(make("data", "still here"));
  std::filesystem::remove(at("data"));
  EXPECT_EQ(content_of(file), "still here");
}

TEST_F(MappedFileTest, NamesThePathAndTheReason) {
  EXPECT_THAT(message_of([&] { MappedFile(at("none")); }),
              AllOf(HasSubstr(at("none").string()), HasSubstr("No such file")));
  EXPECT_THAT(message_of([&] { MappedFile{directory_}; }), HasSubstr("it is a directory"));
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  EXPECT_THAT(message_of([&] { MappedFile(at("pipe")); }), HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace saccade
