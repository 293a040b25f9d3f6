#include "saccade/report/web.h"

#include <gmock/gmock.h>

#include "saccade/base/testing.h"

namespace saccade {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Web, JsonCannotEndItsScript) {
  const Json value{
      {"</script><script>alert(1)</script>", "<!-- & ]]> \xe2\x80\xa8 \xe2\x80\xa9 \xe2\x80\xaa \"quoted\""}};
  const std::string text = json_for_script(value);
  for (const char* part : {"<", ">", "&", "\xe2\x80\xa8", "\xe2\x80\xa9"})
    EXPECT_THAT(text, Not(HasSubstr(part)));
  EXPECT_EQ(parse_json(text, "text"), value);
}

TEST(Web, NumbersThatJsonDoesNotHaveAreNull) {
  EXPECT_EQ(json_for_script(Json{1.5, std::numeric_limits<double>::quiet_NaN()}), "[1.5,null]");
}

TEST(Web, ContentIsAllowedByItsHash) {
  // openssl dgst -sha256 -binary | base64
  EXPECT_EQ(allowed_by_content("alert('Hello, world.');"),
            "'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='");
}

TEST(Web, ScriptsAskForNothingAndSayWhoseTheyAre) {
  const std::string scripts = plot_scripts();
  EXPECT_THAT(scripts, HasSubstr("Permission is hereby granted"));
  EXPECT_THAT(scripts, Not(HasSubstr("</script")));
  for (const char* word : {"fetch(", "XMLHttpRequest", "import(", "eval(", "innerHTML ="})
    EXPECT_THAT(scripts.substr(scripts.find("Small helpers")), Not(HasSubstr(word)));
  const std::string styles = plot_styles();
  for (const char* word : {"@import", "url(", "</style"}) EXPECT_THAT(styles, Not(HasSubstr(word)));
}

}  // namespace
}  // namespace saccade
