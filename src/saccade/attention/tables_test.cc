// Reads of params, inputs and tokens: which element a pair of tokens sees, and that its gradient arrives
// there.
#include <gtest/gtest.h>

#include "saccade/attention/attention.h"
#include "saccade/attention/testing.h"

namespace saccade::tables_test {
namespace {

using test::close;
using test::rounding;
using test::Seeded;
using torch::Tensor;

constexpr uint64_t kSeed = 20240605;
constexpr int64_t kBatch = 2, kHeads = 3, kQueries = 4, kKeys = 6, kOffset = 3, kTokens = 7;

// The place of a pair: sequence, head, positions of query and key.
struct Pair {
  int64_t b, h, i, j;
};
using Place = std::vector<int64_t>;

struct TableCase {
  std::string declaration, expression;
  std::vector<int64_t> shape;
  std::function<Place(const Pair&)> place;  // the element that is read
};

int64_t clamped(int64_t value, int64_t size) { return std::clamp<int64_t>(value, 0, size - 1); }

std::vector<TableCase> cases() {
  return {
      {"a[batch]", "a", {kBatch}, [](const Pair& p) { return Place{p.b}; }},
      {"a[head]", "a", {kHeads}, [](const Pair& p) { return Place{p.h}; }},
      {"a[head]", "a", {1}, [](const Pair&) { return Place{0}; }},
      {"a[head]",
       "a",
       {kBatch, kHeads},
       [](const Pair& p) {
         return Place{p.b, p.h};
       }},
      {"a[batch, head]",
       "a",
       {kBatch, kHeads},
       [](const Pair& p) {
         return Place{p.b, p.h};
       }},
      {"a[head, batch]",
       "a",
       {kHeads, kBatch},
       [](const Pair& p) {
         return Place{p.h, p.b};
       }},
      {"a[batch, head]",
       "a",
       {1, kHeads},
       [](const Pair& p) {
         return Place{0, p.h};
       }},
      {"a[token]", "a[i]", {kTokens}, [](const Pair& p) { return Place{p.i}; }},
      {"a[token]", "a[j]", {kTokens}, [](const Pair& p) { return Place{p.j}; }},
      {"a[token]",
       "a[j]",
       {kBatch, kTokens},
       [](const Pair& p) {
         return Place{p.b, p.j};
       }},
      {"a[token]", "a[i - 2]", {kTokens}, [](const Pair& p) { return Place{clamped(p.i - 2, kTokens)}; }},
      {"a[token]", "a[j + 3]", {kTokens}, [](const Pair& p) { return Place{clamped(p.j + 3, kTokens)}; }},
      {"a[token, head]",
       "a[i]",
       {kTokens, kHeads},
       [](const Pair& p) {
         return Place{p.i, p.h};
       }},
      {"a[head, token]",
       "a[i]",
       {kBatch, kHeads, kTokens},
       [](const Pair& p) {
         return Place{p.b, p.h, p.i};
       }},
      {"a[query]", "a[i]", {kQueries}, [](const Pair& p) { return Place{p.i - kOffset}; }},
      {"a[key]", "a[j]", {kKeys}, [](const Pair& p) { return Place{p.j}; }},
      {"a[query, key]",
       "a[i, j]",
       {kQueries, kKeys},
       [](const Pair& p) {
         return Place{p.i - kOffset, p.j};
       }},
      {"a[key, query]",
       "a[j, i]",
       {kKeys, kQueries},
       [](const Pair& p) {
         return Place{p.j, p.i - kOffset};
       }},
      {"a[rel]", "a[d]", {5}, [](const Pair& p) { return Place{clamped(p.i - p.j + 2, 5)}; }},
      {"a[head, rel]",
       "a[-d]",
       {kHeads, 21},
       [](const Pair& p) {
         return Place{p.h, p.j - p.i + 10};
       }},
      {"a[rel]", "a[j]", {1}, [](const Pair&) { return Place{0}; }},
      {"a[4]", "a[j]", {4}, [](const Pair& p) { return Place{clamped(p.j, 4)}; }},
      {"a[4]", "a[d]", {4}, [](const Pair& p) { return Place{clamped(p.i - p.j, 4)}; }},
      {"a[5]", "a[2]", {5}, [](const Pair&) { return Place{2}; }},
      {"a[5]",
       "a[floor(1 / (j - 1))]",
       {5},  // 1 / 0 is beyond the end
       [](const Pair& p) {
         return Place{p.j == 1 ? 4 : p.j == 2 ? 1 : 0};
       }},
      {"a[5]",
       "a[floor((j - j) / (j - j))]",
       {5},
       [](const Pair&) { return Place{0}; }},  // 0 / 0 reads the first
      {"a[*]", "a[i // 2]", {2}, [](const Pair& p) { return Place{clamped(p.i / 2, 2)}; }},
      {"a[head, *, *]",
       "a[i // 2, j // 3]",
       {kHeads, 4, 2},
       [](const Pair& p) {
         return Place{p.h, p.i / 2, p.j / 3};
       }},
      {"a[*, batch, *]",
       "a[j % 2, h]",
       {2, kBatch, 9},
       [](const Pair& p) {
         return Place{p.j % 2, p.b, p.h};
       }},
      {"a[2, 3, 4]",
       "a[i % 2, j % 3, d]",
       {2, 3, 4},
       [](const Pair& p) {
         return Place{p.i % 2, p.j % 3, clamped(p.i - p.j, 4)};
       }},
      {"a[token, 3]",
       "a[j, h]",
       {kBatch, kTokens, 3},
       [](const Pair& p) {
         return Place{p.b, p.j, p.h};
       }},
  };
}

struct Read {
  Tensor result, expected;
  Tensor expected_gradient;
};

// Reads the table as weights, which show every element that was read.
Read read_all(const TableCase& what, const Tensor& table, const std::string& type,
              const std::string& weights) {
  Attention attention(Formula::parse("input " + what.declaration + type + "\nr = " + what.expression +
                                     "\nweights = " + weights),
                      AttentionOptions{.heads = kHeads, .kv_heads = 1, .head_dim = 2});
  const auto ones = [](int64_t heads, int64_t tokens) {
    return torch::ones({kBatch, heads, tokens, 2}, torch::kDouble);
  };
  Read read;
  read.result = attention
                    ->run(ones(kHeads, kQueries), ones(1, kKeys), ones(1, kKeys),
                          {.inputs = {{"a", table}}, .offset = kOffset, .need_weights = true})
                    .weights;
  read.expected = torch::zeros({kBatch, kHeads, kQueries, kKeys}, torch::kDouble);
  read.expected_gradient = torch::zeros(table.sizes(), torch::kDouble);
  for (int64_t b = 0; b < kBatch; ++b)
    for (int64_t h = 0; h < kHeads; ++h)
      for (int64_t i = 0; i < kQueries; ++i)
        for (int64_t j = 0; j < kKeys; ++j) {
          Tensor element = table.detach(), gradient = read.expected_gradient;
          for (int64_t place : what.place({b, h, kOffset + i, j})) {
            element = element[place];
            gradient = gradient[place];
          }
          read.expected[b][h][i][j] = element.to(torch::kDouble);
          gradient.add_(1);
        }
  return read;
}

TEST(Table, IsReadAtItsPlace) {
  Seeded random(kSeed);
  for (const TableCase& what : cases()) {
    SCOPED_TRACE(fmt::format("{} read as {}, given as {}", what.declaration, what.expression,
                             shape_text(torch::empty(what.shape))));
    const Tensor table = random.leaf(what.shape);
    const Read read = read_all(what, table, "", "r");
    EXPECT_TRUE(torch::equal(read.result, read.expected));
    read.result.sum().backward();
    EXPECT_TRUE(torch::equal(table.grad(), read.expected_gradient));
  }
}

TEST(Table, OfIntegersOrConditionsIsReadTheSameWay) {
  Seeded random(kSeed);
  for (const TableCase& what : cases()) {
    SCOPED_TRACE(what.declaration + " read as " + what.expression);
    for (const auto dtype : {torch::kLong, torch::kInt, torch::kByte}) {
      const Read read = read_all(what, random.integers(what.shape, 0, 200).to(dtype), ": int", "r");
      EXPECT_TRUE(torch::equal(read.result, read.expected));
    }
    const Read read = read_all(what, random.booleans(what.shape), ": bool", "where(r, 1, 0)");
    EXPECT_TRUE(torch::equal(read.result, read.expected));
  }
}

TEST(Table, OfAnotherFloatTypeIsConverted) {
  Seeded random(kSeed);
  const TableCase what = cases()[7];
  const Read read = read_all(what, random.normal(what.shape, torch::kFloat), "", "r");
  EXPECT_TRUE(torch::equal(read.result, read.expected));
}

TEST(Table, MayBeANonContiguousView) {
  Seeded random(kSeed);
  for (const TableCase& what : cases()) {
    if (what.shape.size() < 2) continue;
    std::vector<int64_t> reversed(what.shape.rbegin(), what.shape.rend());
    std::vector<int64_t> order(what.shape.size());
    for (size_t place = 0; place < order.size(); ++place)
      order[place] = static_cast<int64_t>(order.size() - 1 - place);
    const Read read = read_all(what, random.normal(reversed).permute(order), "", "r");
    EXPECT_TRUE(torch::equal(read.result, read.expected))
        << what.declaration << " read as " << what.expression;
  }
}

// A position that is itself read from a table may differ between sequences and heads.
TEST(Table, IsReadAtSubscriptsThatComeFromAnotherTable) {
  Seeded random(kSeed);
  Attention attention(Formula::parse("input group[head, token]: int\ninput a[4]\nweights = a[group[j]]"),
                      AttentionOptions{.heads = 2, .head_dim = 1});
  const Tensor group = random.integers({2, 2, 5}, -1, 4), table = random.leaf({4});
  const Tensor ones = torch::ones({2, 2, 5, 1}, torch::kDouble);
  const Tensor weights =
      attention->run(ones, ones, ones, {.inputs = {{"group", group}, {"a", table}}, .need_weights = true})
          .weights;
  const Tensor expected = table.detach().index({group.clamp(0, 3)}).unsqueeze(2).expand({2, 2, 5, 5});
  EXPECT_TRUE(torch::equal(weights, expected));
}

// Token numbers are read for queries and keys that are not the same tokens.
TEST(Table, OfTokensServesQueriesAfterTheKeysAndBefore) {
  Seeded random(kSeed);
  Attention attention(Formula::parse("token f = project(x)\nweights = f[i] - 10 * f[j]"),
                      AttentionOptions{.heads = 2, .head_dim = 1, .model_dim = 3});
  attention->to(torch::kDouble);
  const Tensor x = random.normal({1, 6, 3});
  const Tensor parameters = attention->named_parameters()["f.project.weight"],
               bias = attention->named_parameters()["f.project.bias"];
  const Tensor f = (torch::matmul(x, parameters.t()) + bias).transpose(1, 2);  // [1, 2, 6]
  const auto weights = [&](int64_t queries, int64_t keys, int64_t offset, int64_t tokens) {
    return attention
        ->run(torch::ones({1, 2, queries, 1}, torch::kDouble), torch::ones({1, 2, keys, 1}, torch::kDouble),
              torch::ones({1, 2, keys, 1}, torch::kDouble),
              {.x = x.narrow(1, 0, tokens), .offset = offset, .need_weights = true})
        .weights;
  };
  const auto expected = [&](int64_t queries, int64_t keys, int64_t offset) {
    return f.narrow(2, offset, queries).unsqueeze(3) - 10 * f.narrow(2, 0, keys).unsqueeze(2);
  };
  const double tolerance = rounding(torch::kDouble, 8, 11 * test::largest(f));
  EXPECT_TRUE(close(weights(2, 6, 4, 6), expected(2, 6, 4), tolerance));
  EXPECT_TRUE(close(weights(6, 2, 0, 6), expected(6, 2, 0), tolerance));
  EXPECT_TRUE(close(weights(2, 2, 3, 5), expected(2, 2, 3), tolerance));
}

// A float has 24 bits: beyond them two numbers of documents would become one.
TEST(Table, RefusesIntegersThatAFloatCannotTellApart) {
  Attention attention(Formula::parse("input doc[token]: int\nmask = doc[i] == doc[j]", {.name = "document"}),
                      AttentionOptions{.heads = 1, .head_dim = 1});
  const auto run = [&](at::ScalarType dtype, int64_t id) {
    const Tensor ones = torch::ones({1, 1, 2, 1}, dtype);
    return test::error_of([&] {
      attention->forward(ones, ones, ones, {.inputs = {{"doc", torch::tensor({id, int64_t{0}})}}});
    });
  };
  const int64_t most = int64_t{1} << 24;
  EXPECT_EQ(run(torch::kFloat, most), "no error");
  EXPECT_EQ(run(torch::kFloat, -most), "no error");
  EXPECT_EQ(run(torch::kDouble, most + 1), "no error");
  EXPECT_EQ(run(torch::kFloat, most + 1),
            "attention: 'doc' holds 16777217; in float whole numbers are exact up to 16777216");
  EXPECT_EQ(run(torch::kBFloat16, -most - 1),
            "attention: 'doc' holds -16777217; in float whole numbers are exact up to 16777216");
  EXPECT_EQ(
      run(torch::kDouble, (int64_t{1} << 53) + 1),
      "attention: 'doc' holds 9007199254740993; in double whole numbers are exact up to 9007199254740992");
}

}  // namespace
}  // namespace saccade::tables_test
