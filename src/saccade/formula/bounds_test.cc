#include "saccade/formula/bounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "saccade/formula/formula.h"
#include "saccade/formula/naive_evaluation.h"
#include "saccade/formula/random_formula.h"

namespace saccade {
namespace {

Plan plan_of(const std::string& text) { return Formula::parse(text).plan(); }

TileState state(const std::string& mask, const Tile& tile) { return classify(plan_of(mask), tile); }

TEST(Classify, SortsTheTilesOfACausalMask) {
  for (const char* mask : {"mask = causal", "mask = i >= j", "mask = j <= i", "mask = not (d < 0)",
                           "mask = 2 * d > -1", "mask = j - i <= 0", "mask = i + 1 > j"}) {
    EXPECT_EQ(state(mask, {0, 64, 64, 128}), TileState::empty) << mask;
    EXPECT_EQ(state(mask, {64, 128, 0, 64}), TileState::full) << mask;
    EXPECT_EQ(state(mask, {64, 128, 64, 128}), TileState::mixed) << mask;
    EXPECT_EQ(state(mask, {63, 64, 0, 64}), TileState::full) << "the diagonal's end belongs to it: " << mask;
    EXPECT_EQ(state(mask, {63, 64, 64, 65}), TileState::empty) << mask;
  }
}

TEST(Classify, SortsTheTilesOfAWindow) {
  const std::string mask = "mask = 0 <= d < 100";
  EXPECT_EQ(state(mask, {163, 200, 0, 64}), TileState::empty) << "d is at least 100";
  EXPECT_EQ(state(mask, {162, 200, 0, 64}), TileState::mixed);
  EXPECT_EQ(state(mask, {63, 100, 0, 64}), TileState::full) << "d is 0 to 99";
  EXPECT_EQ(state(mask, {63, 101, 0, 64}), TileState::mixed);
}

TEST(Classify, SortsTilesOfBlocks) {
  const std::string mask = "mask = i // 64 == j // 64";
  EXPECT_EQ(state(mask, {64, 128, 64, 128}), TileState::full);
  EXPECT_EQ(state(mask, {64, 128, 0, 64}), TileState::empty);
  EXPECT_EQ(state(mask, {64, 129, 64, 128}), TileState::mixed);
}

TEST(Classify, KnowsThatARemainderIsBelowItsDivisor) {
  EXPECT_EQ(state("mask = d % 4 < 4", {0, 64, 0, 64}), TileState::full);
  EXPECT_EQ(state("mask = d % -4 == -4", {0, 64, 0, 64}), TileState::empty);
  EXPECT_EQ(state("mask = (d + 0.0) % 4 < 4", {0, 64, 0, 64}), TileState::mixed) << "rounding may reach it";
}

TEST(Classify, UsesHeadAndLengthWhenTheyAreKnown) {
  const Plan plan = plan_of("mask = d < 32 * (h + 1)");
  const Tile tile{100, 110, 40, 50};  // d is 51 to 69
  EXPECT_EQ(classify(plan, tile), TileState::mixed);
  EXPECT_EQ(classify(plan, tile, 0), TileState::empty);
  EXPECT_EQ(classify(plan, tile, 1), TileState::mixed);
  EXPECT_EQ(classify(plan, tile, 2), TileState::full);
  const Plan share = plan_of("mask = j < n // 2");
  EXPECT_EQ(classify(share, tile, {}, {}, 100), TileState::full);
  EXPECT_EQ(classify(share, tile, {}, {}, 80), TileState::empty);
  EXPECT_EQ(classify(share, tile), TileState::mixed);
}

TEST(CountTiles, CountsEachTileOnce) {
  const Plan causal = plan_of("mask = causal");
  const TileCount count = count_tiles(causal, 256, 64);
  EXPECT_EQ(count.empty, 6);
  EXPECT_EQ(count.full, 6);
  EXPECT_EQ(count.mixed, 4);
  EXPECT_EQ(count_tiles(causal, 250, 64).total(), 16) << "the last tiles are smaller";
  EXPECT_EQ(count_tiles(causal, 1, 64).full, 1);
  EXPECT_EQ(count_tiles(causal, 0, 64).total(), 0);
  EXPECT_EQ(count_tiles(plan_of(""), 256, 64).full, 16);
}

TEST(Bounds, KnowsWhatHoldsForEveryCall) {
  const Plan plan = plan_of("param a = 1 in [0.5, 4]; input b[token]: bool; score = s + a + i\nmask = b[j]");
  Bounds bounds(plan);
  const Interval mask = bounds.of(plan.mask);
  EXPECT_EQ(mask.low, 0);
  EXPECT_EQ(mask.high, 1);
  for (NodeId id : plan.graph.reachable({plan.score})) {
    const Interval interval = bounds.of(id);
    if (plan.graph[id].op == Op::read) {
      EXPECT_EQ(interval.low, 0.5);
      EXPECT_EQ(interval.high, 4);
    }
    if (plan.graph[id].op == Op::variable) {
      EXPECT_EQ(interval.low, 0);
      EXPECT_EQ(interval.high, kMostPositions);
    }
  }
}

TEST(Bounds, KnowsNothingOfPositionsThatAreGiven) {
  const Tile tile{64, 128, 0, 64};
  EXPECT_EQ(state("mask = i >= 0", tile), TileState::full);
  EXPECT_EQ(state("input pos[token]: int\nmask = i >= 0", tile), TileState::mixed) << "padding may have -1";
  EXPECT_EQ(state("input pos[token]: int\nmask = causal", tile), TileState::mixed);
  EXPECT_EQ(state("input pos[token]\nmask = pos[j] >= 0", tile), TileState::mixed)
      << "an input like any other";
}

TEST(Bounds, TakesWhatIsKnownOfATable) {
  const Plan plan = plan_of("input doc[token]: int; mask = doc[i] == doc[j] and doc[i] > 2");
  Bounds bounds(plan);
  bounds.set_table(0, {0, 2});
  EXPECT_TRUE(bounds.of(plan.mask).always_false());
}

// --- what is decided must hold for every pair, in both precisions ---

template <class Real>
void expect_state(const Plan& plan, const Tile& tile, TileState state, RandomStream& random,
                  const std::string& where) {
  const MapShape shape{.queries = static_cast<int64_t>(tile.row_end - tile.row_begin),
                       .keys = static_cast<int64_t>(tile.column_end - tile.column_begin),
                       .offset = static_cast<int64_t>(tile.row_begin),
                       .first_key = static_cast<int64_t>(tile.column_begin)};
  const RandomTables<Real> tables(plan, shape, random);
  Pair<Real> pair{.shape = shape, .head = static_cast<int64_t>(random.below(3)), .heads = 3};
  pair.streams.assign(plan.streams.size(), static_cast<Real>(random.normal()));
  for (pair.row = 0; pair.row < shape.queries; ++pair.row)
    for (pair.column = 0; pair.column < shape.keys; ++pair.column) {
      const Real allowed = NaiveGraph<Real>(plan.graph, tables.views(), pair).at(plan.mask);
      ASSERT_EQ(allowed, state == TileState::full ? 1 : 0)
          << where << "\nat i = " << pair.i() << ", j = " << pair.j() << " in "
          << (sizeof(Real) == 4 ? "single" : "double") << " precision";
    }
}

TEST(Classify, IsRightAboutEveryPairOfRandomMasks) {
  constexpr uint64_t kSeed = 40;
  int decided = 0;
  for (int number = 0; number < 1500; ++number) {
    RandomStream random = RandomStream(kSeed, "masks").split(std::to_string(number));
    const RandomFormula::Options options{.depth = 1 + static_cast<int>(random.below(4)),
                                         .length = false,
                                         .positions_input = random.below(8) == 0};
    const std::string text = print(RandomFormula(random, options).formula());
    const Plan plan = plan_of(text);
    const auto edge = [&] {
      return static_cast<double>(random.below(4) ? random.below(80) : random.below(9'000));
    };
    Tile tile{.row_begin = edge(), .row_end = 0, .column_begin = edge(), .column_end = 0};
    tile.row_end = tile.row_begin + static_cast<double>(1 + random.below(9));
    tile.column_end = tile.column_begin + static_cast<double>(1 + random.below(9));
    const TileState state = classify(plan, tile, {}, 3);
    if (state == TileState::mixed || plan.graph[plan.mask].op == Op::number) continue;
    ++decided;
    const std::string where =
        fmt::format("seed {} number {}, tile {}-{} x {}-{}:\n{}", kSeed, number, tile.row_begin, tile.row_end,
                    tile.column_begin, tile.column_end, text);
    for (int again = 0; again < 3; ++again) {
      expect_state<double>(plan, tile, state, random, where);
      expect_state<float>(plan, tile, state, random, where);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GE(decided, 200) << "the test should not be vacuous";
}

// Masks that are decided in exact arithmetic, but not in single precision: there, literals and bounds are
// rounded, and what jumps may jump one step early.
TEST(Classify, DoesNotTrustDigitsThatSinglePrecisionLoses) {
  const Tile tile{0, 8, 0, 8};
  for (const char* text : {
           "input t[token]; mask = max(t[j], 0.1) > 0.0999999999",
           "param p = 1 in [0.1, 4]; mask = p > 0.0999999999",
           "mask = floor(0.99999999999 + 0 * d) == 0",
           "mask = floor(min(d, 0.99999999999)) < 1",
           "mask = (d + 0.1) % 0.1 < 0.01",
           "input t[token]; mask = clamp(t[j], 0, 100000000) % 0.1 >= 0",
           "input t[token]; mask = clamp(t[j], 99999998, 99999999) // 0.001 < 99999999500",
           "mask = where(d < 3, 0 / 0, 5) < 6",
           "input t[token]; mask = not (max(t[j], 0) * 0 < 0) and max(t[j], 0) * 0 <= 0",
       })
    EXPECT_EQ(state(text, tile), TileState::mixed) << text;
}

// At a single pair an interval is a point: only its margins keep it from deciding by double precision alone.
TEST(Classify, AgreesWithBothPrecisionsAtSinglePairs) {
  for (const char* mask :
       {"1 / d * d == 1", "sqrt(d) ^ 2 == d", "exp(log(d)) >= d", "d * 0.125 % 0.75 < 0.7"}) {
    const Plan plan = plan_of(std::string("mask = ") + mask);
    for (double d = 1; d < 200; ++d) {
      const TileState state = classify(plan, {d, d + 1, 0, 1});
      if (state == TileState::mixed) continue;
      RandomStream random(0, "unused");
      expect_state<float>(plan, {d, d + 1, 0, 1}, state, random, mask);
      expect_state<double>(plan, {d, d + 1, 0, 1}, state, random, mask);
    }
  }
  // This quotient is 8615931.999... and rounds up in single precision.
  EXPECT_EQ(state("mask = d // 0.6183804869651794 == 8615931", {5327924, 5327925, 0, 1}), TileState::mixed);
}

}  // namespace
}  // namespace saccade
