// The cache by itself, fed with tokens whose value is their position.
#include "saccade/attention/cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/attention/testing.h"

namespace saccade::cache_test {
namespace {

using test::error_of;
using test::Seeded;
using torch::Tensor;

constexpr uint64_t kSeed = 20240608;

// [batch, 1, count, 1]: the position, plus 1000 for each sequence.
Tensor tokens(int64_t first, int64_t count, int64_t batch = 1) {
  return (torch::arange(first, first + count).view({1, 1, -1, 1}) +
          1000 * torch::arange(batch).view({-1, 1, 1, 1}))
      .to(torch::kDouble);
}

// One step as Attention takes it; returns what the step sees.
Tensor step(KvCache& cache, int64_t count, int64_t batch = 1) {
  cache.make_room(count);
  const Tensor seen = cache.append("k", tokens(cache.length(), count, batch));
  cache.advance(count);
  return seen;
}

TEST(KvCache, RemembersEveryToken) {
  Seeded random(kSeed);
  KvCache cache;
  EXPECT_EQ(cache.length(), 0);
  EXPECT_FALSE(cache.has("k"));
  for (int64_t total = 0; total < 200;) {
    const int64_t count = random.between(0, 20);
    EXPECT_TRUE(torch::equal(step(cache, count, 2), tokens(0, total + count, 2)));
    total += count;
    EXPECT_EQ(cache.length(), total);
    EXPECT_EQ(cache.first(), 0);
    EXPECT_EQ(cache.bytes_held(), total * 2 * 8);
    EXPECT_GE(cache.bytes_allocated(), cache.bytes_held());
    EXPECT_LE(cache.bytes_allocated(), std::max<int64_t>(2 * total, 20) * 2 * 8);  // it doubles
  }
}

TEST(KvCache, KeepsAtLeastTheRing) {
  for (const int64_t ring : {1, 2, 3, 7, 40, 300})
    for (const uint64_t seed : {kSeed, kSeed + 1}) {
      Seeded random(seed);
      KvCache cache(ring);
      for (int64_t total = 0; total < 5 * ring + 50;) {
        SCOPED_TRACE(fmt::format("ring {}, {} tokens, seed {}", ring, total, seed));
        const int64_t count = random.between(1, seed == kSeed ? 1 : 9);
        const Tensor seen = step(cache, count);
        // The oldest new token sees ring - 1 before it.
        EXPECT_LE(cache.first(), std::max<int64_t>(0, total - (ring - 1)));
        EXPECT_TRUE(torch::equal(seen, tokens(cache.first(), total + count - cache.first())));
        total += count;
        EXPECT_LE(cache.bytes_allocated(), (4 * ring + 4 * 9 + 16) * 8);
        EXPECT_LE(cache.bytes_held(), cache.bytes_allocated());
      }
    }
}

// Sliding costs a copy of what is kept; done at every token, that would be ring copies per token.
TEST(KvCache, SlidesSeldom) {
  for (const int64_t ring : {1, 2, 16, 128, 256, 1000}) {
    KvCache cache(ring);
    int64_t copied = 0;
    const int64_t total = 6 * ring + 100;
    for (int64_t token = 0; token < total; ++token) {
      const int64_t before = cache.first();
      step(cache, 1);
      if (cache.first() != before) copied += cache.length() - 1 - cache.first();
    }
    EXPECT_LE(copied, 2 * total) << "ring " << ring;
  }
}

TEST(KvCache, LetsGoOfALongPromptThatTheRingDoesNotNeed) {
  KvCache cache(8);
  step(cache, 5000);
  for (int token = 0; token < 3; ++token) step(cache, 1);
  EXPECT_LE(cache.bytes_allocated(), (4 * 8 + 16) * 8);
  EXPECT_TRUE(torch::equal(step(cache, 1), tokens(cache.first(), 5004 - cache.first())));
  EXPECT_LE(cache.first(), 5003 - 7);
}

TEST(KvCache, RemembersTheLastValue) {
  for (const std::optional<int64_t> ring :
       {std::optional<int64_t>(), std::optional<int64_t>(1), std::optional<int64_t>(3)}) {
    KvCache cache(ring);
    EXPECT_FALSE(cache.last("k").defined());
    for (int64_t token = 0; token < 40; ++token) {
      cache.make_room(1);
      if (token > 0) {
        ASSERT_TRUE(cache.last("k").defined()) << token;
        EXPECT_EQ(cache.last("k").item<double>(), static_cast<double>(token - 1));
      }
      cache.append("k", tokens(token, 1));
      cache.advance(1);
    }
  }
}

TEST(KvCache, CropsToAnEarlierLength) {
  KvCache cache;
  step(cache, 10);
  cache.crop(10);
  EXPECT_EQ(cache.length(), 10);
  cache.crop(4);
  EXPECT_EQ(cache.length(), 4);
  EXPECT_EQ(cache.last("k").item<double>(), 3);
  EXPECT_TRUE(torch::equal(step(cache, 3), tokens(0, 7)));
  cache.crop(0);
  EXPECT_EQ(cache.length(), 0);
  EXPECT_FALSE(cache.last("k").defined());
  EXPECT_TRUE(torch::equal(step(cache, 2, 3), tokens(0, 2, 3)));  // another batch
  EXPECT_EQ(error_of([&] { cache.crop(3); }), "cache: cannot crop to 3 tokens; it has 2");
  EXPECT_EQ(error_of([&] { cache.crop(-1); }), "cache: cannot crop to -1 tokens; it has 2");
}

// After any allowed crop the next token sees its ring, and running sums know the last token.
TEST(KvCache, CropsARingOnlyAsFarAsItRemembers) {
  for (const int64_t ring : {1, 2, 5})
    for (int64_t total = 1; total < 24; ++total)
      for (int64_t length = 1; length <= total; ++length) {
        SCOPED_TRACE(fmt::format("ring {}, {} tokens, cropped to {}", ring, total, length));
        KvCache cache(ring);
        for (int64_t token = 0; token < total; ++token) step(cache, 1);
        const std::string error = error_of([&] { cache.crop(length); });
        if (error != "no error") {
          EXPECT_EQ(cache.length(), total);
          EXPECT_LT(length, total);
          EXPECT_TRUE(error.starts_with(
              fmt::format("cache: cannot crop to {} tokens; its ring buffer holds", length)))
              << error;
          continue;
        }
        EXPECT_EQ(cache.length(), length);
        cache.make_room(1);
        ASSERT_TRUE(cache.last("k").defined());
        EXPECT_EQ(cache.last("k").item<double>(), static_cast<double>(length - 1));
        EXPECT_TRUE(torch::equal(step(cache, 1), tokens(cache.first(), length + 1 - cache.first())));
        EXPECT_LE(cache.first(), std::max<int64_t>(0, length - (ring - 1)));
      }
}

TEST(KvCache, ReordersGrowsAndShrinksTheBatch) {
  KvCache cache;
  step(cache, 3, 2);
  cache.reorder(torch::tensor({1, 0, 1}));
  const Tensor prefix = tokens(0, 3, 2).index_select(0, torch::tensor({1, 0, 1}));
  EXPECT_TRUE(torch::equal(step(cache, 2, 3), torch::cat({prefix, tokens(3, 2, 3)}, 2)));
  cache.reorder(torch::tensor({2}, torch::kInt));
  EXPECT_EQ(cache.length(), 5);
  EXPECT_TRUE(torch::equal(step(cache, 1, 1).narrow(2, 0, 3), prefix.narrow(0, 2, 1)));
}

// A track whose features stand apart holds what any other does, through everything that moves tokens, and can
// be read up to a whole number of tokens.
TEST(KvCache, TracksMayLieByFeature) {
  torch::manual_seed(kSeed);
  KvCache cache;
  const auto expect_same = [&](const char* what) {
    const Tensor k = cache.held("k"), f = cache.held("f");
    EXPECT_TRUE(torch::equal(k, f)) << what;
    EXPECT_EQ(f.stride(2), 1) << what;
    EXPECT_EQ(f.stride(3) % KvCache::kWholeTokens, 0) << what;
    EXPECT_GE(f.stride(3), f.size(2)) << what;
  };
  const auto grow = [&](int64_t count, int64_t batch) {
    const Tensor values = torch::randn({batch, 2, count, 3});
    cache.make_room(count);
    cache.append("k", values);
    const Tensor seen = cache.append("f", values, KvCache::Order::features);
    EXPECT_TRUE(torch::equal(seen.narrow(2, seen.size(2) - count, count), values));
    cache.advance(count);
    expect_same("growth");
  };
  for (const int64_t count : {5, 1, 60, 1, 200}) grow(count, 2);
  cache.crop(100);
  grow(1, 2);
  cache.reorder(torch::tensor({1, 1, 0}));
  expect_same("reordering");
  grow(3, 3);
  const KvCache copy = cache;
  grow(1, 3);
  cache = copy;
  expect_same("copying");
  grow(2, 3);
  Tensor keep = torch::rand({3, 2, cache.length()}) < 0.5;
  keep.select(2, cache.length() - 1).fill_(true);
  cache.evict(keep, "none", 1);
  expect_same("evicting");
  grow(100, 3);
  KvCache ring(10);
  for (int64_t token = 0; token < 1000; ++token) {
    ring.make_room(1);
    const Tensor values = torch::full({1, 1, 1, 2}, token);
    const Tensor seen = ring.append("f", values, KvCache::Order::features);
    ring.advance(1);
    ASSERT_EQ(seen.stride(2), 1);
    ASSERT_TRUE(torch::equal(seen.select(3, 1).flatten(),
                             torch::arange(ring.first(), ring.length()).to(torch::kFloat)));
  }
  EXPECT_GT(ring.first(), 0);
}

TEST(KvCache, RefusesWrongOrders) {
  KvCache cache;
  step(cache, 3, 2);
  EXPECT_EQ(error_of([&] {
              cache.reorder(torch::tensor({0, 2}));
            }),
            "cache: reorder has an index outside 0..1");
  EXPECT_EQ(error_of([&] { cache.reorder(torch::tensor({-1})); }),
            "cache: reorder has an index outside 0..1");
  EXPECT_EQ(error_of([&] { cache.reorder(torch::tensor({0.0})); }),
            "cache: reorder needs a list of batch indices, not Float of shape [1]");
  EXPECT_EQ(error_of([&] { cache.reorder(torch::tensor({{0}})); }),
            "cache: reorder needs a list of batch indices, not Long of shape [1, 1]");
  EXPECT_EQ(error_of([&] { cache.reorder({}); }),
            "cache: reorder needs a list of batch indices, not nothing");
  EXPECT_TRUE(torch::equal(step(cache, 1, 2), tokens(0, 4, 2)));
}

TEST(KvCache, BeginsATrackLate) {
  KvCache cache(4);
  for (int token = 0; token < 20; ++token) step(cache, 1);
  cache.make_room(1);
  const int64_t held = cache.length() - cache.first();
  EXPECT_EQ(error_of([&] { cache.begin("mask", tokens(0, held + 1)); }),
            fmt::format("cache: 'mask' begins with {} tokens; it holds {}", held + 1, held));
  cache.begin("mask", tokens(cache.first(), held));
  for (int token = 0; token < 30; ++token) {
    cache.make_room(1);
    const Tensor fresh = tokens(cache.length(), 1);
    EXPECT_TRUE(torch::equal(cache.append("mask", fresh), cache.append("k", fresh)));
    cache.advance(1);
  }
}

TEST(KvCache, RefusesTokensThatDoNotFit) {
  KvCache cache;
  step(cache, 3, 2);
  EXPECT_EQ(error_of([&] { cache.append("k", tokens(3, 1, 1)); }),
            "cache: it holds 2 sequences, the new tokens have 1");
  EXPECT_EQ(
      error_of([&] { cache.append("k", tokens(3, 1, 2).to(torch::kFloat)); }),
      "cache: 'k' was Double with 1 heads of width 1; the new tokens are Float with 1 heads of width 1");
  EXPECT_EQ(error_of([&] { cache.append("table doc", tokens(3, 1, 2)); }),
            "cache: 'table doc' was not given for the first 3 tokens");
}

// A call that failed may have appended to some tracks; the next one may be another batch.
TEST(KvCache, ForgetsWhatWasAppendedButNeverCounted) {
  KvCache cache;
  cache.append("k", tokens(0, 3, 2));
  EXPECT_TRUE(torch::equal(step(cache, 2, 1), tokens(0, 2, 1)));
  cache.append("k", tokens(100, 5, 1));
  EXPECT_TRUE(torch::equal(step(cache, 1, 1), tokens(0, 3, 1)));
}

TEST(KvCache, IsAValue) {
  KvCache cache;
  step(cache, 3);
  const KvCache copy = cache;  // beams that part ways
  step(cache, 1);
  EXPECT_EQ(copy.length(), 3);
  KvCache other = copy;
  other.append("k", tokens(50, 1));
  EXPECT_EQ(cache.last("k").item<double>(), 3);
}

// Two sequences and two key heads, of which each drops other slots; a plain loop says where the others go.
TEST(KvCache, EvictsForEachHeadByItself) {
  Seeded random(kSeed);
  KvCache cache;
  // The position, plus 1000 for each sequence and 10000 for each head.
  const auto values = [&](int64_t heads, int64_t count) {
    return (torch::arange(cache.length(), cache.length() + count).view({1, 1, -1, 1}) +
            1000 * torch::arange(2).view({-1, 1, 1, 1}) + 10000 * torch::arange(heads).view({1, -1, 1, 1}))
        .to(torch::kDouble);
  };
  std::vector<std::vector<double>> slots(4);  // of sequence and key head: what the keys must be; 0: nothing
  for (int round = 0; round < 4; ++round) {
    const int64_t count = random.between(30, 60);
    const Tensor fresh = values(2, count);
    cache.append("k", fresh);
    cache.append("gate", values(4, count));
    cache.append("mask", torch::ones({2, 1, count, 1}, torch::kBool));
    for (size_t at = 0; at < 4; ++at)
      for (int64_t token = 0; token < count; ++token)
        slots[at].push_back(
            fresh[static_cast<int64_t>(at / 2)][static_cast<int64_t>(at % 2)][token][0].item<double>());
    cache.advance(count);
    const int64_t held = cache.length() - cache.first();
    Tensor keep = torch::zeros({2, 2, held}, torch::kBool);
    std::vector<std::vector<double>> kept(4);
    size_t most = 0;
    for (size_t at = 0; at < 4; ++at) {
      for (int64_t slot = 0; slot < held; ++slot) {
        const double value = slots[at][static_cast<size_t>(slot)];
        if (value == 0 || (slot < held - 5 && random.between(0, 3) > 0)) continue;
        keep[static_cast<int64_t>(at / 2)][static_cast<int64_t>(at % 2)][slot] = true;
        kept[at].push_back(value);
      }
      most = std::max(most, kept[at].size());
    }
    for (std::vector<double>& of_head : kept) of_head.insert(of_head.begin(), most - of_head.size(), 0.0);
    slots = kept;
    const int64_t before = cache.bytes_allocated();
    cache.evict(keep, "gate", cache.length() - 3);
    EXPECT_EQ(cache.length() - cache.first(), static_cast<int64_t>(most));
    EXPECT_LE(cache.bytes_allocated(), std::max<int64_t>(before, 2 * (2 * 8 + 4 * 8 + 1) * (64 + 60)));
    const Tensor key = cache.held("k"), gate = cache.held("gate");
    for (int64_t batch = 0; batch < 2; ++batch)
      for (int64_t head = 0; head < 4; ++head)
        for (int64_t slot = 0; slot < static_cast<int64_t>(most); ++slot) {
          const double expected = slots[static_cast<size_t>(batch * 2 + head / 2)][static_cast<size_t>(slot)];
          const double number = gate[batch][head][slot][0].item<double>();
          if (expected == 0) {
            EXPECT_EQ(number, -INFINITY);
            continue;
          }
          EXPECT_EQ(key[batch][head / 2][slot][0].item<double>(), expected);
          EXPECT_EQ(number, expected + 10000 * static_cast<double>(head - head / 2));
        }
  }
  const int64_t length = cache.length();
  EXPECT_THAT(error_of([&] { cache.crop(length - 4); }), testing::HasSubstr("evicted would count again"));
  cache.crop(length - 3);
  EXPECT_EQ(cache.length(), length - 3);
}

TEST(KvCache, RefusesToEvictWhatDoesNotFit) {
  KvCache cache;
  step(cache, 20, 2);
  const auto evict = [&](const Tensor& keep, int64_t shortest = 0) {
    return error_of([&] { cache.evict(keep, "gate", shortest); });
  };
  EXPECT_THAT(evict(torch::ones({2, 1, 19}, torch::kBool)),
              testing::HasSubstr("expected [2, key heads, 20]"));
  EXPECT_THAT(evict(torch::ones({2, 1, 20})), testing::HasSubstr("of bool"));
  EXPECT_THAT(evict(torch::ones({2, 1, 20}, torch::kBool), 21), testing::HasSubstr("21 tokens"));
  EXPECT_THAT(evict(torch::ones({2, 3, 20}, torch::kBool)), testing::HasSubstr("'k' has 1 heads"));
  EXPECT_EQ(cache.first(), 0);
  cache.evict(torch::zeros({2, 1, 20}, torch::kBool), "gate", 20);  // all of it
  EXPECT_EQ(cache.first(), 20);
  EXPECT_TRUE(torch::equal(step(cache, 3, 2), tokens(20, 3, 2)));
  KvCache ring(8);
  step(ring, 5);
  EXPECT_THAT(error_of([&] {
                ring.evict(torch::ones({1, 1, 5}, torch::kBool), "gate", 0);
              }),
              testing::HasSubstr("ring buffer of 8"));
}

}  // namespace
}  // namespace saccade::cache_test
