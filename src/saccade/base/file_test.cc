#include "saccade/base/file.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <fstream>

#include "saccade/base/testing.h"

namespace saccade {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

namespace fs = std::filesystem;

using FileTest = DirectoryTest;
using ReadFile = FileTest;
using WriteAtomic = FileTest;

TEST_F(ReadFile, ReturnsEveryByte) {
  const std::string content("a\0b\r\n\xff", 6);
  EXPECT_EQ(read_file(make("data", content), 6), content);
  EXPECT_EQ(read_file(make("empty", ""), 0), "");
}

TEST_F(ReadFile, ReadsFilesLargerThanOnePiece) {
  const std::string content(1'000'003, 'x');
  EXPECT_EQ(read_file(make("large", content), 2'000'000), content);
}

TEST_F(ReadFile, ReadsFilesThatClaimToBeEmpty) {
  EXPECT_THAT(read_file("/proc/self/status", 1 << 20), HasSubstr("Name:"));
  EXPECT_THAT(message_of([] { read_file("/proc/self/status", 10); }), HasSubstr("more than the 10 bytes"));
}

TEST_F(ReadFile, NamesThePathAndTheReason) {
  EXPECT_THAT(message_of([&] { read_file(at("none"), 10); }),
              AllOf(HasSubstr(at("none").string()), HasSubstr("No such file")));
  EXPECT_THAT(message_of([&] { read_file(directory_, 10); }), HasSubstr("it is a directory"));
  EXPECT_THAT(message_of([&] { read_file(make("big", "12345"), 4); }), HasSubstr("more than the 4 bytes"));
  EXPECT_THAT(message_of([&] { read_file("/dev/zero", 10); }), HasSubstr("it is a device"));
}

TEST_F(ReadFile, DoesNotWaitForAPipe) {
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  EXPECT_THAT(message_of([&] { read_file(at("pipe"), 10); }), HasSubstr("it is a pipe"));
}

TEST_F(WriteAtomic, CreatesAndReplaces) {
  write_atomic(at("data"), "first");
  EXPECT_EQ(read_file(at("data"), 100), "first");
  write_atomic(at("data"), std::string("a\0b", 3));
  EXPECT_EQ(read_file(at("data"), 100), std::string("a\0b", 3));
  EXPECT_THAT(names(), UnorderedElementsAre("data"));
}

TEST_F(WriteAtomic, WritesIntoTheWorkingDirectory) {
  const auto before = fs::current_path();
  fs::current_path(directory_);
  write_atomic("plain", "x");
  fs::current_path(before);
  EXPECT_EQ(read_file(at("plain"), 10), "x");
}

TEST_F(WriteAtomic, KeepsPermissionsOfAnExistingFile) {
  fs::permissions(make("secret", "old"), fs::perms(0600));
  write_atomic(at("secret"), "new");
  EXPECT_EQ(fs::status(at("secret")).permissions(), fs::perms(0600));
}

TEST_F(WriteAtomic, GivesANewFileTheUsualPermissions) {
  const mode_t before = ::umask(027);
  write_atomic(at("new"), "x");
  ::umask(before);
  EXPECT_EQ(fs::status(at("new")).permissions(), fs::perms(0640));
}

TEST_F(WriteAtomic, WritesThroughASymbolicLink) {
  make("target", "old");
  fs::create_symlink("target", at("link"));
  write_atomic(at("link"), "new");
  EXPECT_TRUE(fs::is_symlink(at("link")));
  EXPECT_EQ(read_file(at("target"), 10), "new");
}

TEST_F(WriteAtomic, StopsAtALoopOfLinks) {
  fs::create_symlink("b", at("a"));
  fs::create_symlink("a", at("b"));
  EXPECT_THAT(message_of([&] { write_atomic(at("a"), "x"); }), HasSubstr("too many symbolic links"));
}

TEST_F(WriteAtomic, NamesThePathAndTheReason) {
  EXPECT_THAT(message_of([&] { write_atomic(at("no/such/file"), "x"); }),
              AllOf(HasSubstr("no/such/file: cannot write"), HasSubstr("No such file or directory")));
  EXPECT_THAT(message_of([&] { write_atomic(directory_, "x"); }), HasSubstr("it is a directory"));
  EXPECT_THAT(message_of([&] { write_atomic("", "x"); }), HasSubstr("names no file"));
}

TEST_F(WriteAtomic, RefusesToReplaceADevice) {
  EXPECT_THAT(message_of([] { write_atomic("/dev/null", "x"); }), HasSubstr("it is a device"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(WriteAtomic, LeavesTheOldFileAndNoRestWhenTheDiskIsFull) {
  make("data", "old");
  // A limit on file sizes fails like a full disk, in the middle of a write.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 1000, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto message = message_of([&] { write_atomic(at("data"), std::string(100'000, 'x')); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);

  EXPECT_THAT(message, AllOf(HasSubstr("data: cannot write"), HasSubstr("File too large")));
  EXPECT_EQ(read_file(at("data"), 10), "old");
  EXPECT_THAT(names(), UnorderedElementsAre("data"));
}

TEST_F(WriteAtomic, JoinsWhatIsAppended) {
  AtomicFile file(make("data", "old"));
  file.append("one ");
  file.append("two");
  EXPECT_EQ(read_file(at("data"), 100), "old") << "nothing changes before the commit";
  file.commit();
  EXPECT_EQ(read_file(at("data"), 100), "one two");
  EXPECT_THAT(names(), UnorderedElementsAre("data"));
}

TEST_F(WriteAtomic, LeavesNothingWithoutACommit) {
  { AtomicFile(at("data")).append("half"); }
  EXPECT_THAT(names(), testing::IsEmpty());
}

TEST(MakeDirectories, MakesAllAndNamesWhatFails) {
  const std::filesystem::path top = std::filesystem::path(::testing::TempDir()) / "saccade_make_directories";
  std::filesystem::remove_all(top);
  make_directories(top / "a" / "b");
  make_directories(top / "a" / "b");
  EXPECT_TRUE(std::filesystem::is_directory(top / "a" / "b"));
  write_atomic(top / "file", "x");
  for (const std::filesystem::path& path :
       {top / "file", top / "file" / "below", std::filesystem::path("/proc/none/x")})
    EXPECT_THROW(make_directories(path), Error) << path;
  std::filesystem::remove_all(top);
}

}  // namespace
}  // namespace saccade
