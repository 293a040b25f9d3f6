#include "saccade/report/report.h"

#include <gmock/gmock.h>

#include "saccade/base/testing.h"
#include "saccade/report/plots.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class ReportTest : public DirectoryTest {
 protected:
  fs::path run(const std::string& name, const std::string& attention, int seed,
               const std::string& metrics) const {
    fs::create_directories(at(name));
    make(name + "/recipe.toml",
         fmt::format("name = \"t\"\nattention = \"{}\"\nseed = {}\n", attention, seed));
    make(name + "/metrics.jsonl", metrics);
    return at(name);
  }
};

constexpr const char* kEvil = "</script><script>alert('x')</script>";

size_t count(const std::string& text, std::string_view part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST_F(ReportTest, HoldsWhatItShowsAndAsksForNothing) {
  const fs::path paths[] = {run("a", "causal", 1, "{\"step\":1,\"loss\":2.5}\n")};
  const Report report = make_report(paths);
  EXPECT_EQ(report.title, "Training: a");
  EXPECT_THAT(report.html, HasSubstr("default-src 'none'; script-src 'sha256-"));
  for (const char* word : {"src=", "<link", "@import", "url(", "http-equiv=\"refresh"})
    EXPECT_THAT(report.html, Not(HasSubstr(word)));
  EXPECT_THAT(report.html, HasSubstr("\"x\":[1.0],\"y\":[2.5]"));
  EXPECT_EQ(report.html, make_report(paths).html);
}

TEST_F(ReportTest, TextIsTextWhereverItCameFrom) {
  const Json frontier{
      {"tokens", 4},
      {"curves",
       {{{"name", kEvil}, {"meaning", kEvil}, {"points", {{{"density", 0.5}, {"divergence", 0.1}}}}}}}};
  const Json samples{
      {"models",
       {{{"model", kEvil}, {"attention", kEvil}, {"texts", {{{"prompt", kEvil}, {"text", kEvil}}}}},
        {{"model", "b"}, {"attention", ""}, {"texts", {{{"prompt", kEvil}, {"text", "</p>"}}}}}}},
      {"first_differences", {1}}};
  const fs::path paths[] = {make("a.json", dump(frontier)), make("b.json", dump(samples))};
  const Report report = make_report(paths, kEvil);
  // Of scripts there are ours and one with numbers for each plot.
  EXPECT_EQ(count(report.html, "<script"), 1 + count(report.html, "<figure class=\"plot\""));
  EXPECT_EQ(count(report.html, "</script"), count(report.html, "<script"));
  EXPECT_EQ(count(report.html, "<mark>"), 2u);
}

TEST_F(ReportTest, SeedsOfOneRecipeAreOneLine) {
  const fs::path paths[] = {run("a", "causal", 1, "{\"step\":1,\"loss\":2}\n"),
                            run("b", "causal", 2, "{\"step\":1,\"loss\":4}\n"),
                            run("c", "prior", 1, "{\"step\":1,\"loss\":1}\n{\"st")};
  const Report report = make_report(paths);
  ASSERT_EQ(report.parts.size(), 1u);
  EXPECT_EQ(report.parts[0].title, "Training: 3 runs");
  EXPECT_THAT(report.parts[0].notes,
              testing::ElementsAre(HasSubstr("c/metrics.jsonl: the last line is cut off")));
  EXPECT_THAT(report.html, HasSubstr("\"name\":\"causal\",\"x\":[1.0],\"y\":[3.0],\"low\":"));
  EXPECT_THAT(report.html, HasSubstr("\"name\":\"prior\",\"x\":[1.0],\"y\":[1.0]"));
}

TEST_F(ReportTest, AResultThatIsNamedTwiceIsShownOnce) {
  const fs::path file = make("a.json", R"({"tokens": 4, "curves": []})");
  const fs::path paths[] = {file, directory_, fs::path(directory_) / "." / "a.json"};
  EXPECT_EQ(make_report(paths).parts.size(), 1u);
}

TEST_F(ReportTest, NothingIsNoReport) {
  EXPECT_EQ(message_of([] { make_report({}); }), "report: no input; name runs, folders or files");
}

TEST(Plots, KeepNumbersAndRefuseWhatDoesNotFit) {
  LineChart chart{.title = "t",
                  .log_y = true,
                  .y_unit = Unit::bytes,
                  .series = {{.name = "s", .x = {1, 2}, .y = {0.1, 1e300}}}};
  const Json json = plot_json(chart);
  EXPECT_EQ(json["series"][0]["y"], Json({0.1, 1e300}));
  EXPECT_EQ(json["y_unit"], "bytes");
  EXPECT_EQ(json["log_y"], true);
  chart.series[0].x.pop_back();
  EXPECT_THROW(plot_json(chart), Error);
  EXPECT_THROW(plot_json(HeatMap{.rows = 2, .columns = 2, .values = {1}}), Error);
}

TEST(Plots, OneChartNeedsNoChoice) {
  const LineChart chart{.title = "t", .series = {{.name = "s", .x = {1}, .y = {1}}}};
  EXPECT_THAT(plot_html("layer", Choices<LineChart>{{"layer 0", chart}}), Not(HasSubstr("data-choice")));
  const std::string two = plot_html("layer <", Choices<LineChart>{{"layer 0", chart}, {"layer 1", chart}});
  EXPECT_THAT(two, HasSubstr("data-choice=\"layer &lt;\""));
  EXPECT_THAT(two, HasSubstr("{\"choices\":[{\"name\":\"layer 0\""));
}

}  // namespace
}  // namespace saccade
