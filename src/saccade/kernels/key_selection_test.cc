// Selection held to its definition, written out in double precision, over shapes, tiles and masks.
#include "saccade/kernels/key_selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "saccade/base/random.h"

namespace saccade::kernels {
namespace {

struct Problem {
  Shape shape;
  int64_t width = 8, rank = 3;
  bool by_feature = false;  // the numbers of one kind of all keys side by side
  std::vector<float> query, key, groups, keys, keys_by_feature, factors, thresholds;
  std::vector<uint8_t> real;
  std::vector<int64_t> counts;
  SelectionTask task;
};

// The problem owns what its task points to, so it is filled where it stays.
void fill(Problem& p, uint64_t seed) {
  RandomStream random(seed, "key selection");
  const auto numbers = [&](int64_t count, double scale) {
    std::vector<float> out(static_cast<size_t>(count));
    for (float& x : out) x = static_cast<float>(scale * random.normal());
    return out;
  };
  const Shape& s = p.shape;
  p.query = numbers(s.batch * s.heads * s.queries * p.width, 1);
  p.key = numbers(s.batch * s.key_heads * s.keys * p.width, 1);
  p.groups = numbers(s.batch * s.heads * p.task.group_count() * (p.rank + 1), 1);
  p.keys = numbers(s.batch * s.heads * s.keys * (p.rank + 1), 1);
  p.factors = std::vector<float>(static_cast<size_t>(s.heads), 1.5F);
  const auto array = [&](std::vector<float>& data, int64_t heads, int64_t tokens, int64_t width) {
    return Array{.data = data.data(),
                 .batch_stride = heads * tokens * width,
                 .head_stride = tokens * width,
                 .token_stride = width,
                 .width = width};
  };
  p.task.shape = s;
  p.task.query = array(p.query, s.heads, s.queries, p.width);
  p.task.key = array(p.key, s.key_heads, s.keys, p.width);
  p.task.scale = 0.4;
  p.task.rank = p.rank;
  p.task.groups = p.groups.data();
  p.task.keys = array(p.keys, s.heads, s.keys, p.rank + 1);
  if (p.by_feature) {
    const int64_t whole = (s.keys + 31) / 32 * 32, numbers_of_head = (p.rank + 1) * whole;
    p.keys_by_feature.assign(static_cast<size_t>(s.batch * s.heads * numbers_of_head), NAN);
    for (int64_t head = 0; head < s.batch * s.heads; ++head)
      for (int64_t key = 0; key < s.keys; ++key)
        for (int64_t f = 0; f <= p.rank; ++f)
          p.keys_by_feature[static_cast<size_t>(head * numbers_of_head + f * whole + key)] =
              p.keys[static_cast<size_t>((head * s.keys + key) * (p.rank + 1) + f)];
    p.task.keys = {.data = p.keys_by_feature.data(),
                   .batch_stride = s.heads * numbers_of_head,
                   .head_stride = numbers_of_head,
                   .token_stride = 1,
                   .feature_stride = whole,
                   .width = p.rank + 1};
  }
  p.task.factors = p.factors.data();
  p.task.thresholds = p.thresholds.data();
  if (!p.real.empty()) p.task.real = p.real.data();
  if (!p.counts.empty()) p.task.counts = p.counts.data();
}

bool is_real(const Problem& p, int64_t batch, int64_t key) {
  return p.real.empty() || p.real[static_cast<size_t>(batch * p.shape.keys + key)] != 0;
}

double near_weight(const Problem& p, int64_t batch, int64_t head, int64_t row,
                   const std::set<int64_t>& always) {
  const Shape& s = p.shape;
  double sum = 0;
  for (const int64_t key : always) {
    const bool seen = !p.task.causal || s.first_key + key <= s.offset + row;
    if (!seen || !is_real(p, batch, key)) continue;
    double dot = 0;
    for (int64_t k = 0; k < p.width; ++k)
      dot +=
          p.query[static_cast<size_t>(((batch * s.heads + head) * s.queries + row) * p.width + k)] *
          p.key[static_cast<size_t>(((batch * s.key_heads + head / s.group()) * s.keys + key) * p.width + k)];
    sum += std::exp(p.task.scale * dot);
  }
  return std::log(sum);
}

// The list of a tile by the definition; keys whose estimate is near the limit may be in it or not.
struct Expected {
  std::set<int64_t> sure, perhaps;
};

Expected expected_list(const Problem& p, int64_t batch, int64_t head, int64_t tile) {
  const Shape& s = p.shape;
  const SelectionTask& t = p.task;
  const int64_t begin = tile * t.query_tile, end = std::min(begin + t.query_tile, s.queries);
  const int64_t first = s.offset + begin, last = s.offset + end - 1;
  std::set<int64_t> always_tiles, always;
  for (int64_t key = 0; key < s.keys; ++key) {
    const int64_t position = s.first_key + key;
    if (position < t.sinks || (position >= first - t.near && position <= last + (t.causal ? 0 : t.near)))
      always_tiles.insert(key / t.key_tile);
  }
  for (int64_t key = 0; key < s.keys; ++key)
    if (always_tiles.contains(key / t.key_tile)) always.insert(key);
  // Rounding a causal tile's near keys outwards takes in keys that no query of it sees: they count nowhere.
  std::vector<double> total(static_cast<size_t>(s.keys), 0);
  const int64_t last_listed = always.empty() ? -1 : *always.rbegin();
  const auto far = [&](int64_t key) { return !always.contains(key) && (!t.causal || key < last_listed); };
  double near_before = 0;
  for (int64_t group = begin / t.pool; group * t.pool < end; ++group) {
    const int64_t step = t.pool / t.samples;
    double near = 0;
    int64_t samples = 0;
    for (int64_t row = group * t.pool + step / 2; row < std::min((group + 1) * t.pool, end);
         row += step, ++samples)
      near += near_weight(p, batch, head, row, always);
    // A group without a sample takes the one before it.
    near = samples > 0 ? near / static_cast<double>(samples) : near_before;
    near_before = near;
    std::vector<double> e(static_cast<size_t>(s.keys), 0);
    double sum = 1;
    for (int64_t key = 0; key < s.keys; ++key) {
      if (!far(key) || !is_real(p, batch, key)) continue;
      const float* g =
          &p.groups[static_cast<size_t>(((batch * s.heads + head) * t.group_count() + group) * (p.rank + 1))];
      const float* x = &p.keys[static_cast<size_t>(((batch * s.heads + head) * s.keys + key) * (p.rank + 1))];
      double a = g[p.rank] + x[p.rank];
      for (int64_t k = 0; k < p.rank; ++k) a += g[k] * x[k];
      sum += e[static_cast<size_t>(key)] = std::exp(a - near);
    }
    for (int64_t key = 0; key < s.keys; ++key)
      total[static_cast<size_t>(key)] += std::pow(1.5 * e[static_cast<size_t>(key)] / sum, 2);
  }
  std::map<int64_t, double> by_tile;
  for (int64_t key = 0; key < s.keys; ++key)
    if (far(key)) by_tile[key / t.key_tile] += total[static_cast<size_t>(key)];
  double limit = 0;
  if (t.counts) {
    std::vector<double> all;
    for (const auto& [number, value] : by_tile) all.push_back(value);
    std::ranges::sort(all, std::greater{});
    const int64_t wanted = (t.counts[head] + t.key_tile - 1) / t.key_tile;
    limit = wanted == 0 ? INFINITY : wanted > std::ssize(all) ? 0 : all[static_cast<size_t>(wanted - 1)];
  } else {
    limit = std::pow(t.thresholds[head] *
                         std::pow(1024 / (s.offset + 0.5 * static_cast<double>(begin + end)), t.length_power),
                     2);
  }
  Expected result{.sure = always_tiles, .perhaps = always_tiles};
  for (const auto& [number, value] : by_tile) {
    if (value >= limit * 1.001 || limit == 0) result.sure.insert(number);
    if (value >= limit * 0.999) result.perhaps.insert(number);
  }
  return result;
}

void expect_definition(const Problem& p) {
  const SelectedKeys lists = select_keys(p.task);
  const int64_t tiles = p.task.tiles();
  ASSERT_EQ(std::ssize(lists.starts), p.shape.batch * p.shape.heads * (tiles + 1));
  for (int64_t batch = 0; batch < p.shape.batch; ++batch)
    for (int64_t head = 0; head < p.shape.heads; ++head)
      for (int64_t tile = 0; tile < tiles; ++tile) {
        const auto at = static_cast<size_t>((batch * p.shape.heads + head) * (tiles + 1) + tile);
        const std::vector<int64_t> list(lists.keys.begin() + lists.starts[at],
                                        lists.keys.begin() + lists.starts[at + 1]);
        EXPECT_TRUE(std::ranges::is_sorted(list));
        const Expected expected = expected_list(p, batch, head, tile);
        const std::set<int64_t> set(list.begin(), list.end());
        EXPECT_EQ(set.size(), list.size()) << "a key is listed twice";
        EXPECT_TRUE(std::ranges::includes(set, expected.sure)) << "head " << head << " tile " << tile;
        EXPECT_TRUE(std::ranges::includes(expected.perhaps, set)) << "head " << head << " tile " << tile;
      }
}

TEST(KeySelection, FollowsItsDefinition) {
  uint64_t seed = 0;
  for (const bool causal : {true, false})
    for (const int64_t query_tile : {1, 16, 64})
      for (const int64_t key_tile : {1, 16})
        for (const int64_t pool : {1, 16})
          for (const int64_t offset : {0, 37}) {
            if (query_tile % pool != 0) continue;
            SCOPED_TRACE(testing::Message() << "causal " << causal << " tile " << query_tile << " x "
                                            << key_tile << " pool " << pool << " offset " << offset);
            Problem p{.shape = {.batch = 2,
                                .heads = 4,
                                .key_heads = 2,
                                .queries = 150,
                                .keys = 150 + offset,
                                .offset = offset}};
            p.task.query_tile = query_tile;
            p.task.key_tile = key_tile;
            p.task.pool = pool;
            p.task.samples = pool == 1 ? 1 : 4;
            p.task.causal = causal;
            p.task.near = 20;
            p.thresholds = {0.005F, 0.02F, kKeepAll, kKeepNone};
            p.task.shape = p.shape;
            if (!causal) p.task.length_power = 0;
            fill(p, ++seed);
            expect_definition(p);
          }
}

// Decoding: a query by itself, and the numbers of keys as a cache holds them.
TEST(KeySelection, OneQueryFollowsTheDefinition) {
  uint64_t seed = 0;
  for (const int64_t width : {8, 64})
    for (const int64_t queries : {1, 3})
      for (const bool by_feature : {true, false})
        for (const bool padded : {true, false}) {
          SCOPED_TRACE(testing::Message() << "width " << width << ", " << queries << " queries, by feature "
                                          << by_feature << ", padded " << padded);
          Problem p{
              .shape = {
                  .batch = 2, .heads = 6, .key_heads = 2, .queries = queries, .keys = 333, .offset = 330}};
          p.width = width;
          p.by_feature = by_feature;
          if (padded) {
            p.real.assign(666, 1);
            for (size_t key = 0; key < 666; key += 5) p.real[key] = 0;
          }
          p.task.query_tile = p.task.pool = p.task.samples = 1;
          p.task.near = 20;
          p.thresholds = {0.005F, 0.02F, 0.05F, 0.01F, kKeepAll, kKeepNone};
          p.task.shape = p.shape;
          fill(p, ++seed);
          if (width == 64) p.task.scale = 0.1;
          expect_definition(p);
        }
}

TEST(KeySelection, AGroupWithoutASampleTakesTheOneBefore) {
  for (const int64_t queries : {17, 20, 24, 64 + 20}) {
    Problem p{.shape = {.batch = 1,
                        .heads = 2,
                        .key_heads = 1,
                        .queries = queries,
                        .keys = queries + 200,
                        .offset = 200}};
    p.width = 64;
    p.thresholds = {0.01F, 0.02F};
    p.task.near = 8;
    p.task.samples = 1;
    p.task.shape = p.shape;
    fill(p, static_cast<uint64_t>(queries));
    p.task.scale = 0.1;
    expect_definition(p);
  }
}

TEST(KeySelection, PaddingIsNeverWeighedAndCountsAreKept) {
  Problem p{.shape = {.batch = 2, .heads = 2, .key_heads = 1, .queries = 96, .keys = 96}};
  p.thresholds = {0.01F, 0.01F};
  p.task.near = 8;
  p.task.query_tile = 32;
  p.real.assign(192, 1);
  for (size_t key = 0; key < 40; ++key) p.real[key] = 0;
  p.task.shape = p.shape;
  fill(p, 5);
  expect_definition(p);
  for (const int64_t count : {0, 1, 7, 1000}) {
    p.counts = {count, count + 1};
    p.task.counts = p.counts.data();
    p.task.real = nullptr;
    p.real.clear();
    expect_definition(p);
  }
}

TEST(KeySelection, RangesOfPositionsHaveTheirOwnThresholds) {
  Problem p{.shape = {.batch = 1, .heads = 2, .key_heads = 1, .queries = 128, .keys = 128}};
  p.thresholds = {0.01F, kKeepAll, kKeepNone, 0.01F};
  p.task.near = 8;
  p.task.query_tile = 32;
  p.task.ranges = {0, 64};
  p.task.shape = p.shape;
  fill(p, 6);
  const SelectedKeys lists = select_keys(p.task);
  const auto length = [&](size_t at) { return lists.starts[at + 1] - lists.starts[at]; };
  EXPECT_LT(length(1), 64);              // by score
  EXPECT_EQ(length(2), 96);              // all that the tile sees
  EXPECT_EQ(length(5 + 1), 4 + 8 + 32);  // the always-kept ones
  EXPECT_GT(length(5 + 3), 4 + 8 + 32);
}

TEST(KeySelection, HugeScoresDoNotOverflow) {
  Problem p{.shape = {.batch = 1, .heads = 1, .key_heads = 1, .queries = 128, .keys = 128}};
  p.thresholds = {0.5F};
  p.task.near = 4;
  p.task.shape = p.shape;
  fill(p, 9);
  for (float& x : p.keys) x *= 1e6F;
  const SelectedKeys lists = select_keys(p.task);
  EXPECT_GT(lists.keys.size(), 0U);
  for (const int32_t key : lists.keys) EXPECT_TRUE(key >= 0 && key < 128);
}

TEST(KeySelection, PoolsQueries) {
  Problem p{.shape = {.batch = 1, .heads = 2, .key_heads = 2, .queries = 21, .keys = 21}};
  p.thresholds = {1, 1};
  p.task.shape = p.shape;
  fill(p, 3);
  std::vector<float> out(static_cast<size_t>(2 * 2 * 24));
  pool_queries(p.shape, p.task.query, 16, 2, out.data());
  for (int64_t head = 0; head < 2; ++head)
    for (int64_t group = 0; group < 2; ++group)
      for (int64_t k = 0; k < 8; ++k) {
        float sum = 0, largest = -1e9F, smallest = 1e9F;
        const int64_t end = std::min<int64_t>(21, group * 16 + 16);
        for (int64_t row = group * 16; row < end; ++row) {
          const float x = 2 * p.query[static_cast<size_t>((head * 21 + row) * 8 + k)];
          sum += x;
          largest = std::max(largest, x);
          smallest = std::min(smallest, x);
        }
        const float* got = &out[static_cast<size_t>((head * 2 + group) * 24 + k)];
        EXPECT_NEAR(got[0], sum / static_cast<float>(end - group * 16), 1e-5);
        EXPECT_EQ(got[8], largest);
        EXPECT_EQ(got[16], smallest);
      }
}

}  // namespace
}  // namespace saccade::kernels
