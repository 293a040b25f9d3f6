#include "saccade/report/chart.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <regex>

#include "saccade/base/testing.h"

namespace saccade {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const double kNan = std::nan(""), kInfinite = std::numeric_limits<double>::infinity();

int times(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

std::string body(const std::string& svg) { return svg.substr(svg.find("</style>")); }

// Elements opened are closed in order, and no coordinate is anything but a number.
void expect_well_formed(const std::string& svg) {
  std::vector<std::string> open;
  const std::regex tag("<(/?)([a-z]+)[^>]*?(/?)>");
  for (auto at = std::sregex_iterator(svg.begin(), svg.end(), tag); at != std::sregex_iterator(); ++at) {
    const bool closes = (*at)[1].length() > 0, alone = (*at)[3].length() > 0;
    if (closes) {
      ASSERT_FALSE(open.empty()) << at->str();
      ASSERT_EQ(open.back(), (*at)[2].str());
      open.pop_back();
    } else if (!alone) {
      open.push_back((*at)[2].str());
    }
  }
  EXPECT_TRUE(open.empty());
  for (const char* wrong : {"=\"nan", "=\"-nan", "=\"inf", "=\"-inf", ",nan", ",inf", " nan,", " inf,"})
    EXPECT_THAT(body(svg), Not(HasSubstr(wrong)));
}

LineChart lines(std::vector<double> x, std::vector<double> y) {
  return {.title = "loss", .series = {{.name = "a", .x = std::move(x), .y = std::move(y)}}};
}

// The points of the only line.
std::vector<std::pair<double, double>> points_of(const std::string& svg,
                                                 const std::string& element = "polyline") {
  std::vector<std::pair<double, double>> points;
  const size_t at = svg.find("<" + element);
  if (at == std::string::npos) return points;
  const size_t from = svg.find("points=\"", at) + 8, end = svg.find('"', from);
  std::istringstream list(svg.substr(from, end - from));
  for (std::string pair; list >> pair;)
    points.emplace_back(std::stod(pair), std::stod(pair.substr(pair.find(',') + 1)));
  return points;
}

TEST(LineChart, PointsStandWhereTheirNumbersSay) {
  const auto points = points_of(to_svg(lines({0, 1, 2}, {0, 10, 5})));
  ASSERT_EQ(points.size(), 3u);
  EXPECT_NEAR(points[1].first - points[0].first, points[2].first - points[1].first, 0.11);
  EXPECT_GT(points[0].second, points[2].second);  // y grows downwards
  EXPECT_NEAR(points[0].second - points[2].second, points[2].second - points[1].second, 0.11);
}

TEST(LineChart, LogarithmicAxesTurnPowersIntoSteps) {
  LineChart chart = lines({1, 10, 100}, {1e-3, 1e-2, 1e-1});
  chart.log_x = chart.log_y = true;
  const auto points = points_of(to_svg(chart));
  ASSERT_EQ(points.size(), 3u);
  EXPECT_NEAR(points[1].first - points[0].first, points[2].first - points[1].first, 0.11);
  EXPECT_NEAR(points[1].second - points[0].second, points[2].second - points[1].second, 0.11);
}

TEST(LineChart, WhatIsNotFiniteLeavesAGap) {
  const std::string svg = to_svg(lines({0, 1, 2, 3, 4, 5, 6}, {1, 2, kNan, 3, 4, kInfinite, 5}));
  expect_well_formed(svg);
  EXPECT_EQ(times(svg, "<polyline"), 2);
  EXPECT_EQ(times(svg, "<circle"), 1);  // the last point stands alone
}

TEST(LineChart, WhatHasNoLogarithmLeavesAGap) {
  LineChart chart = lines({1, 2, 3, 4, 5}, {1, 2, 0, 4, 5});
  chart.log_y = true;
  EXPECT_EQ(times(to_svg(chart), "<polyline"), 2);
  chart.series[0].y = {0, -1, 0, -2, 0};
  EXPECT_THAT(to_svg(chart), HasSubstr("nothing to show"));
}

TEST(LineChart, ABandHoldsItsLine) {
  LineChart chart = lines({0, 1}, {5, 6});
  chart.series[0].low = {4, 4};
  chart.series[0].high = {7, 8};
  const std::string svg = to_svg(chart);
  const auto band = points_of(svg, "polygon"), line = points_of(svg);
  ASSERT_EQ(band.size(), 4u);  // the upper edge there, the lower edge back
  EXPECT_LT(band[0].second, line[0].second);
  EXPECT_GT(band[3].second, line[0].second);
  chart.log_y = true;
  chart.series[0].low = {-1, 0};  // below every logarithm: down to the frame
  expect_well_formed(to_svg(chart));
}

TEST(LineChart, StrangeNumbersGiveAPicture) {
  const double most = std::numeric_limits<double>::max();
  for (const bool log : {false, true})
    for (const auto& y : std::vector<std::vector<double>>{{},
                                                          {1},
                                                          {0},
                                                          {kNan},
                                                          {3, 3, 3},
                                                          {-most, most},
                                                          {5e-324, 1e308},
                                                          {1e15, 1e15 + 0.125},
                                                          {-kInfinite, kInfinite}}) {
      LineChart chart = lines({}, y);
      for (size_t index = 0; index < y.size(); ++index)
        chart.series[0].x.push_back(static_cast<double>(index));
      chart.log_x = chart.log_y = log;
      const std::string svg = to_svg(chart);
      expect_well_formed(svg);
      EXPECT_LT(svg.size(), 20000u);
    }
  expect_well_formed(to_svg(LineChart{}));
}

TEST(LineChart, TextIsEscaped) {
  LineChart chart = lines({0, 1}, {0, 1});
  chart.title = "a < b & \"c\" \x1b \xff";
  chart.series[0].name = "<script>";
  chart.series.push_back({.name = "</svg>", .x = {0, 1}, .y = {1, 2}});
  const std::string svg = to_svg(chart);
  expect_well_formed(svg);
  EXPECT_THAT(svg, HasSubstr("a &lt; b &amp; &quot;c&quot;   \uFFFD"));
  EXPECT_THAT(svg, HasSubstr("&lt;script&gt;"));
  EXPECT_EQ(times(svg, "</svg>"), 1);
}

TEST(LineChart, NamesAtTheEndsDoNotTouch) {
  LineChart chart{.title = "t"};
  for (int index = 0; index < 6; ++index)
    chart.series.push_back({.name = "name" + std::to_string(index), .x = {0, 1}, .y = {0, 1 + index * 1e-3}});
  const std::string svg = to_svg(chart);
  std::vector<double> places;
  const std::regex name("y=\"([0-9.]+)\" class=\"fp[0-9]\">name");
  for (auto at = std::sregex_iterator(svg.begin(), svg.end(), name); at != std::sregex_iterator(); ++at)
    places.push_back(std::stod((*at)[1]));
  ASSERT_EQ(places.size(), 6u);
  for (size_t index = 1; index < places.size(); ++index) EXPECT_GE(places[index] - places[index - 1], 13);
}

TEST(LineChart, ManyOrderedSeriesShareAShortLegend) {
  LineChart chart{.title = "t", .ordered = true};
  for (int index = 0; index < 30; ++index)
    chart.series.push_back({.name = "layer" + std::to_string(index), .x = {0, 1}, .y = {0, 1.0 + index}});
  const std::string svg = to_svg(chart);
  EXPECT_EQ(times(svg, ">layer"), 7);
  EXPECT_THAT(svg, HasSubstr(">layer0<"));
  EXPECT_THAT(svg, HasSubstr(">layer29<"));
  EXPECT_EQ(times(to_svg(LinePanels{.panels = {chart, chart}}), ">layer"), 7);
}

TEST(LineChart, AHundredThousandPointsStaySmall) {
  LineChart chart = lines({}, {});
  for (int index = 0; index < 100000; ++index) {
    chart.series[0].x.push_back(index);
    chart.series[0].y.push_back(index == 50000 ? 100 : std::sin(index));
  }
  const std::string svg = to_svg(chart);
  EXPECT_LT(svg.size(), 80000u);
  const auto points = points_of(svg);
  const auto highest = std::ranges::min_element(points, {}, [](const auto& point) { return point.second; });
  EXPECT_LT(highest->second, points.front().second - 200);  // the one peak is still there
}

TEST(LineChart, FollowsTheReadersTheme) {
  const std::string svg = to_svg(lines({0, 1}, {0, 1}));
  EXPECT_THAT(svg, HasSubstr("@media (prefers-color-scheme:dark)"));
  EXPECT_EQ(svg, to_svg(lines({0, 1}, {0, 1})));
}

TEST(LineChart, RefusesListsThatDoNotFit) {
  EXPECT_EQ(message_of([] { to_svg(lines({0, 1}, {1})); }), "chart: the series 'a' has 2 x and 1 y");
  LineChart chart = lines({0}, {1});
  chart.series[0].low = {1, 2};
  EXPECT_THAT(message_of([&] { to_svg(chart); }), HasSubstr("the band of 'a' has 2 points; expected 1"));
  chart.series[0].low = {1};
  EXPECT_THAT(message_of([&] { to_svg(chart); }), HasSubstr("one edge"));
}

TEST(BarChart, BarsAreAsLongAsTheirNumbers) {
  const BarChart chart{
      .title = "speed", .categories = {"a", "b", "c"}, .series = {{.name = "x", .values = {1, 2, -1}}}};
  const std::regex bar("height=\"([0-9.]+)\" class=\"bar");
  std::vector<double> heights;
  const std::string svg = to_svg(chart);
  expect_well_formed(svg);
  for (auto at = std::sregex_iterator(svg.begin(), svg.end(), bar); at != std::sregex_iterator(); ++at)
    heights.push_back(std::stod((*at)[1]));
  ASSERT_EQ(heights.size(), 3u);
  EXPECT_NEAR(heights[1], 2 * heights[0], 0.2);
  EXPECT_NEAR(heights[2], heights[0], 0.2);
}

TEST(BarChart, WhiskersHaveThreeStrokesAndMissingBarsNone) {
  BarChart chart{.title = "t",
                 .categories = {"a", "b"},
                 .series = {{.name = "x", .values = {1, kNan}, .low = {0.5, 0}, .high = {1.5, 0}},
                            {.name = "y", .values = {2, 3}}}};
  for (const bool horizontal : {false, true}) {
    chart.horizontal = horizontal;
    const std::string svg = to_svg(chart);
    expect_well_formed(svg);
    EXPECT_EQ(times(svg, "class=\"whisker\""), 3);
    EXPECT_EQ(times(body(svg), "class=\"bar fp"), 3 + 2);  // and two in the legend
  }
  chart.series[0].values = {1};
  EXPECT_THAT(message_of([&] { to_svg(chart); }), HasSubstr("1 numbers for 2 categories"));
  expect_well_formed(to_svg(BarChart{}));
}

TEST(HeatMap, CellsHaveTheColoursOfTheirValues) {
  const HeatMap map{.title = "t", .rows = 2, .columns = 3, .values = {0, 1, 2, 2, 1, kNan}};
  const std::string svg = to_svg(map);
  expect_well_formed(svg);
  EXPECT_EQ(times(svg, "class=\"missing\""), 1);
  const auto colour_of = [&](const std::string& note) {
    const size_t at = svg.find("<title>" + note + "</title>");
    const size_t from = svg.rfind("fill=\"", at);
    return svg.substr(from + 6, 7);
  };
  EXPECT_EQ(colour_of("0, 2: 2"), colour_of("1, 0: 2"));
  EXPECT_NE(colour_of("0, 0: 0"), colour_of("0, 1: 1"));
}

TEST(HeatMap, SignedColoursMeetAtNought) {
  const HeatMap map{.title = "t", .rows = 1, .columns = 3, .values = {-1, 0, 4}, .diverging = true};
  EXPECT_THAT(to_svg(map), HasSubstr("fill=\"#f3f3f1\"><title>0, 1: 0</title>"));
}

TEST(HeatMap, LargeMapsAreAveraged) {
  const HeatMap map{.title = "t", .rows = 1000, .columns = 1000, .values = std::vector<double>(1000000, 0.5)};
  const std::string svg = to_svg(map);
  EXPECT_LT(svg.size(), 3000000u);
  EXPECT_THAT(svg, HasSubstr("averaged"));
}

TEST(HeatMap, StrangeNumbersGiveAPicture) {
  for (const bool diverging : {false, true})
    for (const double value : {0.0, kNan, kInfinite, 1e300, -7.0})
      expect_well_formed(
          to_svg(HeatMap{.rows = 1, .columns = 2, .values = {value, value}, .diverging = diverging}));
  EXPECT_THAT(to_svg(HeatMap{}), HasSubstr("nothing to show"));
  EXPECT_THAT(message_of([] { to_svg(HeatMap{.rows = 2, .columns = 2, .values = {1}}); }),
              HasSubstr("1 values for 2 rows and 2 columns"));
}

TEST(Panels, ShareTheirAxesAndColours) {
  const LineChart one{.title = "one", .x_label = "x", .series = {{.name = "a", .x = {0, 1}, .y = {0, 1}}}};
  const LineChart two{
      .title = "two",
      .series = {{.name = "b", .x = {0, 1}, .y = {0, 10}}, {.name = "a", .x = {0, 1}, .y = {0, 5}}}};
  const std::string svg = to_svg(LinePanels{.title = "t", .columns = 2, .panels = {one, two}});
  expect_well_formed(svg);
  EXPECT_EQ(times(svg, "sp0\"/>"), 3);  // a in both, and in the legend
  EXPECT_EQ(times(svg, "sp1\"/>"), 2);
  EXPECT_THAT(message_of([] { to_svg(LinePanels{}); }), HasSubstr("no panels"));
}

TEST(Panels, OfHeatMapsShareTheirColours) {
  const HeatMap one{.title = "head 0", .rows = 1, .columns = 1, .values = {1}};
  HeatMap two{.title = "head 1", .rows = 1, .columns = 2, .values = {0, 2}};
  EXPECT_THAT(message_of([&] {
                to_svg(HeatPanels{.panels = {one, two}});
              }),
              HasSubstr("1 by 2 values beside one of 1 by 1"));
  two = {.title = "head 1", .rows = 1, .columns = 1, .values = {2}};
  expect_well_formed(to_svg(HeatPanels{.title = "t", .panels = {one, two}}));
}

}  // namespace
}  // namespace saccade
