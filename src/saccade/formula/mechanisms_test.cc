// What holds for every shipped mechanism: how its file reads, and whether and how it decodes.
#include "saccade/formula/mechanisms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>

#include "saccade/formula/dense_map_testing.h"
#include "saccade/formula/identify.h"

namespace saccade::dense {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

struct Expectation {
  std::string_view name;
  bool decodable = true;
  std::optional<int64_t> ring = {};
  std::string_view why_not = "";
};

void PrintTo(const Expectation& expectation, std::ostream* out) { *out << expectation.name; }

constexpr std::string_view kLooksAhead = "d < 0", kReadsLength = "reads n";

constexpr Expectation kExpectations[] = {
    {"alibi"},
    {"ape", false, {}, kReadsLength},
    {"block_diffusion", false, {}, kLooksAhead},
    {"block_list"},
    {"causal"},
    {"chunked", true, 256},
    {"cog"},
    {"column_ranges"},
    {"diff"},
    {"dilated", true, 64 * 4},
    {"document"},
    {"fox"},
    {"full", false, {}, kLooksAhead},
    {"gpam"},
    {"kerple_log"},
    {"kerple_power"},
    {"last10", true, 10},
    {"logn"},
    {"longformer"},
    {"natten1d", false, {}, kReadsLength},
    {"natten2d", false, {}, kReadsLength},
    {"off_by_one"},
    {"prefix_lm", false, {}, kLooksAhead},
    {"prior"},
    {"rel_table", false, {}, kLooksAhead},
    {"relu2"},
    {"retention"},
    {"sigmoid"},
    {"sink_logit"},
    {"sink_window"},
    {"softcap"},
    {"softpick"},
    {"t5"},
    {"window", true, 256},
};

class ShippedMechanism : public testing::TestWithParam<Expectation> {
 protected:
  Formula formula() const { return Formula::load(std::string(GetParam().name)); }
};

TEST(ShippedMechanisms, AreThoseListedHere) {
  std::vector<std::string_view> listed, embedded;
  for (const Expectation& expectation : kExpectations) listed.push_back(expectation.name);
  for (const EmbeddedMechanism& mechanism : embedded_mechanisms()) embedded.push_back(mechanism.name);
  EXPECT_EQ(embedded, listed);
}

TEST(ShippedMechanisms, AreFoundBesideAFileOrFolderOfTheSameName) {
  namespace fs = std::filesystem;
  const fs::path before = fs::current_path(),
                 folder = fs::path(testing::TempDir()) / "shipped_mechanisms_test";
  fs::create_directories(folder / "causal");
  std::ofstream(folder / "window") << "mask = full\n";
  fs::current_path(folder);
  EXPECT_NO_THROW(EXPECT_EQ(Formula::load("causal").print(), "mask = causal\n"));
  EXPECT_NO_THROW(EXPECT_EQ(Formula::load("window").plan().decoding.ring, 256));
  EXPECT_NO_THROW(EXPECT_EQ(Formula::load("./window").print(), "mask = full\n"));
  fs::current_path(before);
  fs::remove_all(folder);
}

TEST_P(ShippedMechanism, OpensWithOneSentence) {
  const std::string summary = formula().summary();
  EXPECT_TRUE(summary.ends_with('.')) << summary;
  EXPECT_LT(summary.size(), 110u) << summary;
  EXPECT_EQ(summary.find(". "), std::string::npos) << "more than one sentence: " << summary;
}

TEST_P(ShippedMechanism, HasShortLinesAndEndsWithANewline) {
  const std::string text = formula().text();
  EXPECT_TRUE(text.ends_with('\n'));
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    EXPECT_LE(end - begin, 110u) << text.substr(begin, end - begin);
}

TEST_P(ShippedMechanism, GivesNoWarning) { EXPECT_THAT(formula().plan().warnings, IsEmpty()); }

TEST_P(ShippedMechanism, PrintsToAnEqualFormula) {
  const std::string printed = formula().print();
  const Formula again = Formula::parse(printed);
  EXPECT_EQ(again, formula());
  EXPECT_EQ(again.print(), printed);
}

TEST_P(ShippedMechanism, DecodesAsListed) {
  const Decoding decoding = formula().plan().decoding;
  EXPECT_EQ(decoding.possible, GetParam().decodable) << decoding.reason;
  EXPECT_EQ(decoding.ring, GetParam().ring);
  EXPECT_THAT(decoding.reason, HasSubstr(std::string(GetParam().why_not)));
}

// Values for everything that the shipped formulas read, for n tokens and one of four heads.
Call any_call(const Formula& formula, int64_t n) {
  Call call{.shape = square(n), .head = 2, .heads = 4};
  for (const StreamInfo& stream : formula.plan().streams) call.streams[stream.name] = scores(n);
  for (const TableInfo& table : formula.plan().tables) {
    if (table.learned()) continue;
    std::vector<int64_t> size;
    int64_t elements = 1;
    for (const Dimension& dimension : table.subscripted()) {
      size.push_back(dimension.kind == Dimension::Kind::any   ? 8
                     : dimension.kind == Dimension::Kind::rel ? 2 * n - 1
                                                              : n);
      elements *= size.back();
    }
    std::vector<double> values;
    for (int64_t index = 0; index < elements; ++index)
      values.push_back(table.type == Type::real ? -0.3 * static_cast<double>(index)
                                                : static_cast<double>((index / 5) % 2));
    call.tables.insert_or_assign(table.name, Table(values, size));
  }
  return call;
}

class DecodableMechanism : public ShippedMechanism {};

TEST_P(DecodableMechanism, GivesTheSameWeightsTokenByToken) {
  constexpr int64_t kTokens = 40;
  const Call whole = any_call(formula(), kTokens);
  const Matrix expected = weights(formula(), whole);
  for (int64_t length = 1; length <= kTokens; ++length) {
    Call step = whole;
    step.shape = last_row(length);
    for (auto& [name, stream] : step.streams) {
      std::vector<double> row = stream[static_cast<size_t>(length - 1)];
      row.resize(static_cast<size_t>(length));
      stream = {row};
    }
    std::vector<double> found = weights(formula(), step)[0];
    found.resize(kTokens, 0.0);  // later keys must have no weight in the whole map
    EXPECT_EQ(found, expected[static_cast<size_t>(length - 1)]) << "token " << length - 1;
  }
}

class RingMechanism : public ShippedMechanism {};

TEST_P(RingMechanism, NeedsNoMoreKeysThanItsRing) {
  const int64_t ring = *GetParam().ring, n = ring + 50;
  const Call whole = any_call(formula(), n);
  const Matrix expected = weights(formula(), whole);
  for (int64_t token = ring; token < n; ++token) {
    const int64_t dropped = token + 1 - ring;
    Call step = whole;
    step.shape = {.queries = 1, .keys = ring, .offset = token, .first_key = dropped};
    const std::vector<double>& scored = whole.streams.at("s")[static_cast<size_t>(token)];
    step.streams["s"] = {{scored.begin() + dropped, scored.begin() + token + 1}};
    std::vector<double> found = weights(formula(), step)[0];
    found.insert(found.begin(), static_cast<size_t>(dropped), 0.0);
    found.resize(static_cast<size_t>(n), 0.0);
    ASSERT_EQ(found, expected[static_cast<size_t>(token)]) << "token " << token;
  }
}

TEST_P(ShippedMechanism, HasFiniteWeights) {
  for (const std::vector<double>& row : weights(formula(), any_call(formula(), 40)))
    for (double weight : row) EXPECT_TRUE(std::isfinite(weight));
}

template <class Condition>
auto mechanisms_where(Condition condition) {
  std::vector<Expectation> chosen;
  std::ranges::copy_if(kExpectations, std::back_inserter(chosen), condition);
  return testing::ValuesIn(chosen);
}

std::string name_of_instance(const testing::TestParamInfo<Expectation>& instance) {
  return std::string(instance.param.name);
}

TEST(MechanismName, IsFoundWithoutTheFilesName) {
  const auto stored = [](const Formula& formula) {
    return Formula::parse(formula.resolved(), {.name = "runs/x/attention.attn"});
  };
  for (const EmbeddedMechanism& mechanism : embedded_mechanisms()) {
    const std::string name(mechanism.name);
    EXPECT_EQ(mechanism_name(stored(Formula::load(name))), name);
  }
  EXPECT_EQ(mechanism_name(stored(Formula::load("ape", {{"n", 256}}))), "ape");
  EXPECT_EQ(mechanism_name(stored(Formula::load("prior", {{"alpha", 0.5}}))), "prior");
  EXPECT_EQ(mechanism_name(Formula::parse("score = s * 3", {.name = "runs/x/own.attn"})), "own");
}

INSTANTIATE_TEST_SUITE_P(All, ShippedMechanism, testing::ValuesIn(kExpectations), name_of_instance);
INSTANTIATE_TEST_SUITE_P(All, DecodableMechanism,
                         mechanisms_where([](const auto& row) { return row.decodable; }), name_of_instance);
INSTANTIATE_TEST_SUITE_P(All, RingMechanism,
                         mechanisms_where([](const auto& row) { return row.ring.has_value(); }),
                         name_of_instance);

}  // namespace
}  // namespace saccade::dense
