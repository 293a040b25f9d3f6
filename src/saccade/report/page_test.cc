#include "saccade/report/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/base/error.h"

namespace saccade {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Page, TextIsShownAsText) {
  const std::string evil = "<script>alert('x')</script> & \"quotes\"";
  Page page(evil);
  page.banner(Tone::good, evil, evil);
  page.heading(evil);
  page.paragraph(evil);
  page.table({evil}, {{.cells = {evil}, .tone = Tone::bad, .note = evil}});
  page.code(evil);
  const std::string html = page.finish();
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  size_t count = 0;
  const std::string written = "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;quotes&quot;";
  for (size_t at = html.find(written); at != std::string::npos; at = html.find(written, at + 1)) ++count;
  EXPECT_EQ(count, 10);  // every place above, and the title twice
}

TEST(Page, AsksForNothingElse) {
  Page page("a page");
  page.chart("<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>");
  const std::string html = page.finish();
  for (const char* word : {"src=", "href=", "@import", "url("}) EXPECT_THAT(html, Not(HasSubstr(word)));
  EXPECT_THAT(html, HasSubstr("color-scheme: light dark"));
}

TEST(Page, ARowMustFitItsTable) {
  Page page("a page");
  EXPECT_THROW(page.table({"a", "b"}, {{.cells = {"1"}, .tone = {}, .note = {}}}), Error);
}

TEST(Page, AToneIsAlsoAMark) {
  Page page("a page");
  page.banner(Tone::bad, "no");
  EXPECT_THAT(page.finish(), HasSubstr("✗"));
}

}  // namespace
}  // namespace saccade
