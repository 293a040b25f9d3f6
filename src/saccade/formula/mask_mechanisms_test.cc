// The shipped masks, drawn: a line is a query, '#' is a key that it sees.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/formula/dense_map_testing.h"

namespace saccade::dense {
namespace {

using testing::Each;

std::string draw(const Formula& formula, int64_t n, std::map<std::string, Table> tables = {}) {
  return picture(mask(formula, {.shape = square(n), .tables = std::move(tables)}));
}

TEST(FullMechanism, SeesEverything) {
  EXPECT_EQ(draw(Formula::load("full"), 3),
            "###\n"
            "###\n"
            "###\n");
}

TEST(FullMechanism, IsPlainSoftmax) {
  const Matrix given = scores(5);
  const Matrix found = weights(Formula::load("full"), {.shape = square(5), .streams = {{"s", given}}});
  for (size_t i = 0; i < 5; ++i) {
    double total = 0;
    for (double s : given[i]) total += std::exp(s);
    for (size_t j = 0; j < 5; ++j) EXPECT_NEAR(found[i][j], std::exp(given[i][j]) / total, 1e-15);
  }
}

TEST(CausalMechanism, NeverLooksAhead) {
  EXPECT_EQ(draw(Formula::load("causal"), 5),
            "#....\n"
            "##...\n"
            "###..\n"
            "####.\n"
            "#####\n");
}

TEST(WindowMechanism, SeesItselfAndTheTokensBefore) {
  EXPECT_EQ(draw(Formula::load("window", {{"w", 3}}), 6),
            "#.....\n"
            "##....\n"
            "###...\n"
            ".###..\n"
            "..###.\n"
            "...###\n");
}

TEST(WindowMechanism, HoldsTwoHundredAndFiftySixKeys) {
  const Matrix found = mask(Formula::load("window"), {.shape = square(300)});
  for (size_t i = 0; i < 300; ++i)
    EXPECT_EQ(sum(found[i]), std::min<double>(static_cast<double>(i) + 1, 256));
}

TEST(Last10Mechanism, HoldsTenKeys) {
  EXPECT_EQ(draw(Formula::load("last10"), 12),
            "#...........\n"
            "##..........\n"
            "###.........\n"
            "####........\n"
            "#####.......\n"
            "######......\n"
            "#######.....\n"
            "########....\n"
            "#########...\n"
            "##########..\n"
            ".##########.\n"
            "..##########\n");
}

TEST(SinkWindowMechanism, KeepsTheFirstTokensAndTheNearest) {
  EXPECT_EQ(draw(Formula::load("sink_window", {{"sinks", 2}, {"w", 3}}), 8),
            "#.......\n"
            "##......\n"
            "###.....\n"
            "####....\n"
            "#####...\n"
            "##.###..\n"
            "##..###.\n"
            "##...###\n");
}

TEST(SinkWindowMechanism, NeverLosesTheFirstFour) {
  const Matrix found = mask(Formula::load("sink_window"), {.shape = square(600)});
  for (size_t i = 0; i < 600; ++i) {
    for (size_t j = 0; j < 4; ++j) EXPECT_EQ(found[i][j], j <= i) << "query " << i << ", key " << j;
    EXPECT_EQ(sum(found[i]), std::min<double>(static_cast<double>(i) + 1, 4 + 256));
  }
}

TEST(PrefixLmMechanism, IsBidirectionalInThePrefixOnly) {
  EXPECT_EQ(draw(Formula::load("prefix_lm"), 6, {{"p", {3}}}),
            "###...\n"
            "###...\n"
            "###...\n"
            "####..\n"
            "#####.\n"
            "######\n");
}

TEST(PrefixLmMechanism, IsCausalWithoutAPrefix) {
  EXPECT_EQ(draw(Formula::load("prefix_lm"), 6, {{"p", {0}}}), draw(Formula::load("causal"), 6));
}

TEST(DocumentMechanism, NeverCrossesDocuments) {
  EXPECT_EQ(draw(Formula::load("document"), 7, {{"doc", {0, 0, 0, 1, 1, 2, 2}}}),
            "#......\n"
            "##.....\n"
            "###....\n"
            "...#...\n"
            "...##..\n"
            ".....#.\n"
            ".....##\n");
}

TEST(DocumentMechanism, FindsADocumentThatComesBack) {
  EXPECT_EQ(draw(Formula::load("document"), 4, {{"doc", {7, 3, 7, 3}}}),
            "#...\n"
            ".#..\n"
            "#.#.\n"
            ".#.#\n");
}

TEST(ColumnRangesMechanism, HidesAKeyFromItsRangeOfQueries) {
  // Key 0 is hidden from the queries 2 and 3, key 1 from all after 3, the others from none.
  EXPECT_EQ(draw(Formula::load("column_ranges"), 6, {{"lo", {2, 4, 0, 0, 0, 0}}, {"hi", {4, 6, 0, 0, 0, 0}}}),
            "#.....\n"
            "##....\n"
            ".##...\n"
            ".###..\n"
            "#.###.\n"
            "#.####\n");
}

TEST(ColumnRangesMechanism, ExpressesPackedDocuments) {
  // A key is hidden from everything after the end of its own document.
  EXPECT_EQ(draw(Formula::load("column_ranges"), 5, {{"lo", {2, 2, 5, 5, 5}}, {"hi", {5, 5, 5, 5, 5}}}),
            draw(Formula::load("document"), 5, {{"doc", {0, 0, 1, 1, 1}}}));
}

TEST(ChunkedMechanism, StartsAfreshWithEachChunk) {
  EXPECT_EQ(draw(Formula::load("chunked", {{"c", 3}}), 8),
            "#.......\n"
            "##......\n"
            "###.....\n"
            "...#....\n"
            "...##...\n"
            "...###..\n"
            "......#.\n"
            "......##\n");
}

TEST(DilatedMechanism, SeesEveryOtherToken) {
  EXPECT_EQ(draw(Formula::load("dilated", {{"w", 3}, {"r", 2}}), 8),
            "#.......\n"
            ".#......\n"
            "#.#.....\n"
            ".#.#....\n"
            "#.#.#...\n"
            ".#.#.#..\n"
            "..#.#.#.\n"
            "...#.#.#\n");
}

TEST(LongformerMechanism, GlobalTokensSeeAllAndAreSeenByAll) {
  EXPECT_EQ(draw(Formula::load("longformer", {{"w", 2}}), 7, {{"global", {1, 0, 0, 0, 1, 0, 0}}}),
            "#......\n"
            "##.....\n"
            "###....\n"
            "#.##...\n"
            "#####..\n"
            "#...##.\n"
            "#...###\n");
}

TEST(LongformerMechanism, IsAWindowWithoutGlobalTokens) {
  EXPECT_EQ(draw(Formula::load("longformer", {{"w", 3}}), 6, {{"global", {0, 0, 0, 0, 0, 0}}}),
            draw(Formula::load("window", {{"w", 3}}), 6));
}

TEST(Natten1dMechanism, ShiftsTheWindowAtTheEnds) {
  EXPECT_EQ(draw(Formula::load("natten1d", {{"w", 3}}), 6),
            "###...\n"
            "###...\n"
            ".###..\n"
            "..###.\n"
            "...###\n"
            "...###\n");
}

TEST(Natten1dMechanism, AlwaysHasTheFullWindow) {
  const Matrix found = mask(Formula::load("natten1d"), {.shape = square(40)});
  for (size_t i = 0; i < 40; ++i) {
    EXPECT_EQ(sum(found[i]), 7) << "query " << i;
    EXPECT_EQ(found[i][i], 1) << "query " << i;
  }
}

TEST(Natten1dMechanism, SeesEverythingInAShortSequence) {
  EXPECT_EQ(draw(Formula::load("natten1d"), 3), "###\n###\n###\n");
}

// The keys that one query of an image sees, drawn as the image.
std::string draw_image(const Formula& formula, int64_t height, int64_t width, int64_t row, int64_t column) {
  const Matrix found = mask(formula, {.shape = square(height * width)});
  const std::vector<double>& keys = found[static_cast<size_t>(row * width + column)];
  return picture(
      matrix(height, width, [&](int64_t y, int64_t x) { return keys[static_cast<size_t>(y * width + x)]; }));
}

TEST(Natten2dMechanism, CentresTheWindowInside) {
  EXPECT_EQ(draw_image(Formula::load("natten2d", {{"w", 3}, {"width", 5}}), 4, 5, 2, 2),
            ".....\n"
            ".###.\n"
            ".###.\n"
            ".###.\n");
}

TEST(Natten2dMechanism, ShiftsTheWindowAtCornersAndBorders) {
  const Formula formula = Formula::load("natten2d", {{"w", 3}, {"width", 5}});
  const std::string top_left =
      "###..\n"
      "###..\n"
      "###..\n"
      ".....\n";
  EXPECT_EQ(draw_image(formula, 4, 5, 0, 0), top_left);
  EXPECT_EQ(draw_image(formula, 4, 5, 1, 1), top_left);
  EXPECT_EQ(draw_image(formula, 4, 5, 3, 4),
            ".....\n"
            "..###\n"
            "..###\n"
            "..###\n");
  EXPECT_EQ(draw_image(formula, 4, 5, 0, 3),
            "..###\n"
            "..###\n"
            "..###\n"
            ".....\n");
}

TEST(Natten2dMechanism, AlwaysHasTheFullWindow) {
  const Matrix found = mask(Formula::load("natten2d", {{"width", 10}}), {.shape = square(80)});
  for (size_t i = 0; i < 80; ++i) {
    EXPECT_EQ(sum(found[i]), 49) << "query " << i;
    EXPECT_EQ(found[i][i], 1) << "query " << i;
  }
}

TEST(Natten2dMechanism, KeepsALastRowThatIsNotFull) {
  const Matrix found = mask(Formula::load("natten2d", {{"w", 3}, {"width", 5}}), {.shape = square(17)});
  for (size_t i = 0; i < 17; ++i) EXPECT_EQ(found[i][i], 1) << "query " << i;
}

TEST(BlockDiffusionMechanism, IsCausalOverBlocksAndFullWithinThem) {
  EXPECT_EQ(draw(Formula::load("block_diffusion", {{"b", 3}}), 8),
            "###.....\n"
            "###.....\n"
            "###.....\n"
            "######..\n"
            "######..\n"
            "######..\n"
            "########\n"
            "########\n");
}

TEST(BlockDiffusionMechanism, IsCausalWithBlocksOfOne) {
  EXPECT_EQ(draw(Formula::load("block_diffusion", {{"b", 1}}), 5), draw(Formula::load("causal"), 5));
}

TEST(BlockListMechanism, SeesTheBlocksOfItsTable) {
  const Table keep({1, 0, 0,  //
                    0, 1, 0,  //
                    1, 0, 1},
                   {3, 3});
  EXPECT_EQ(draw(Formula::load("block_list", {{"block", 2}}), 6, {{"keep", keep}}),
            "#.....\n"
            "##....\n"
            "..#...\n"
            "..##..\n"
            "##..#.\n"
            "##..##\n");
}

TEST(BlockListMechanism, HasBlocksOfSixtyFour) {
  const Matrix found =
      mask(Formula::load("block_list"),
           {.shape = square(130), .tables = {{"keep", Table({0, 0, 0, 1, 0, 0, 1, 0, 0}, {3, 3})}}});
  for (size_t i = 0; i < 130; ++i) EXPECT_EQ(sum(found[i]), i < 64 ? 0 : 64) << "query " << i;
}

TEST(BlockListMechanism, GivesNothingToARowWithoutKeys) {
  const Call call{
      .shape = square(4), .tables = {{"keep", Table({0}, {1, 1})}}, .streams = {{"s", scores(4)}}};
  for (const std::vector<double>& row : weights(Formula::load("block_list"), call)) EXPECT_THAT(row, Each(0));
}

}  // namespace
}  // namespace saccade::dense
