#include "saccade/base/base64.h"

#include "saccade/base/testing.h"

namespace saccade {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(Base64, IsTheOneOfTheStandard) {
  const std::pair<std::string_view, std::string_view> vectors[] = {{"", ""},
                                                                   {"f", "Zg=="},
                                                                   {"fo", "Zm8="},
                                                                   {"foo", "Zm9v"},
                                                                   {"foob", "Zm9vYg=="},
                                                                   {"fooba", "Zm9vYmE="},
                                                                   {"foobar", "Zm9vYmFy"},
                                                                   {"\xff\xfe\xfd", "//79"}};
  for (const auto& [plain, text] : vectors) EXPECT_EQ(to_base64(bytes_of(plain)), text);
}

TEST(Base64, GivesBackEveryByteOfEveryLength) {
  std::vector<std::byte> bytes;
  for (int length = 0; length < 300; ++length) {
    EXPECT_EQ(from_base64(to_base64(bytes), "test"), bytes) << length;
    bytes.push_back(static_cast<std::byte>(length * 7 % 256));
  }
}

TEST(Base64, RefusesWhatItDidNotWrite) {
  const auto message = [](std::string_view text) {
    return message_of([&] { from_base64(text, "file: values"); });
  };
  EXPECT_EQ(message("Zg="), "file: values: 3 letters of base64; expected a multiple of four");
  EXPECT_EQ(message("Zg=*"), "file: values: letter 3 is not base64");
  EXPECT_EQ(message("Zg==Zg=="), "file: values: letter 3 is not base64");
  EXPECT_EQ(message("Zm9v====").substr(0, 13), "file: values:");
  EXPECT_EQ(message("Zh=="), "file: values: its last letters hold bits beyond its end");
}

}  // namespace
}  // namespace saccade
