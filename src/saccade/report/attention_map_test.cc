#include "saccade/report/attention_map.h"

#include <cmath>
#include <limits>

#include "saccade/base/testing.h"

namespace saccade {
namespace {

AttentionCapture small_capture() {
  AttentionCapture capture{
      .model = "tiny <b>", .attention = "gpam", .data = "a.txt", .tokens = {"a", "\"", "</script>", "d"}};
  AttentionMap causal{.layer = 1, .head = 2, .first_row = 1, .rows = 3, .columns = 4};
  causal.values = {0.25f, 0.75f, 0, 0, 0.1f, 0.2f, 0.7f, 0, 1e-38f, 1 / 3.f, 0.5f, 0.125f};
  causal.mask = BlockMask{.query_block = 2, .key_block = 3, .kept = {1, 0, 0.5f, 1}};
  AttentionMap whole{.layer = 0, .head = 0, .rows = 2, .columns = 2, .values = {0.5f, 0.5f, -1.5f, 2.5f}};
  capture.maps = {causal, whole};
  return capture;
}

TEST(AttentionMap, ComesBackFromItsFileBitForBit) {
  const AttentionCapture capture = small_capture();
  const std::string file = dump(to_json(capture));
  const AttentionCapture again = attention_from_json(parse_json(file, "file"), "file");
  EXPECT_EQ(again.model, capture.model);
  EXPECT_EQ(again.attention, capture.attention);
  EXPECT_EQ(again.data, capture.data);
  EXPECT_EQ(again.tokens, capture.tokens);
  EXPECT_TRUE(again.queries.empty());
  ASSERT_EQ(again.maps.size(), 2u);
  for (size_t index = 0; index < 2; ++index) {
    EXPECT_EQ(again.maps[index].values, capture.maps[index].values);
    EXPECT_EQ(again.maps[index].layer, capture.maps[index].layer);
    EXPECT_EQ(again.maps[index].head, capture.maps[index].head);
    EXPECT_EQ(again.maps[index].first_row, capture.maps[index].first_row);
  }
  ASSERT_TRUE(again.maps[0].mask);
  EXPECT_EQ(again.maps[0].mask->kept, capture.maps[0].mask->kept);
  EXPECT_FALSE(again.maps[1].mask);
}

TEST(AttentionMap, LeavesOutWhatACausalMapDoesNotHave) {
  AttentionCapture capture = small_capture();
  Json json = to_json(capture);
  EXPECT_EQ(json["maps"][0]["triangle"], true);
  EXPECT_EQ(json["maps"][0]["weights"].get<std::string>().size(), 48u);  // 2 + 3 + 4 floats
  EXPECT_EQ(json["maps"][1]["triangle"], false);
  capture.maps[0].values[3] = -0.0f;  // written out, since it would come back as 0
  EXPECT_EQ(to_json(capture)["maps"][0]["triangle"], false);
  capture.maps[0].values[3] = std::numeric_limits<float>::quiet_NaN();
  json = to_json(capture);
  EXPECT_TRUE(std::isnan(attention_from_json(json, "file").maps[0].values[3]));
}

TEST(AttentionMap, HasASignWhenItSaysSoOrShowsIt) {
  AttentionCapture capture = small_capture();
  EXPECT_EQ(to_json(capture)["maps"][0]["signed"], false);
  EXPECT_EQ(to_json(capture)["maps"][1]["signed"], true);
  capture.maps[0].has_sign = true;
  EXPECT_EQ(to_json(capture)["maps"][0]["signed"], true);
}

TEST(AttentionMap, RefusesSizesThatDoNotFit) {
  const auto broken = [](auto change) {
    AttentionCapture capture = small_capture();
    change(capture);
    return message_of([&] { to_json(capture); });
  };
  EXPECT_EQ(broken([](AttentionCapture& c) { c.maps[0].values.pop_back(); }),
            "attention map, layer 1, head 2: 11 values for a map of 3 x 4");
  EXPECT_EQ(broken([](AttentionCapture& c) { c.tokens.pop_back(); }),
            "attention map, layer 1, head 2: 4 columns, but only 3 tokens");
  EXPECT_EQ(broken([](AttentionCapture& c) { c.maps[0].first_row = 2; }),
            "attention map, layer 1, head 2: rows 2 to 4, but only 4 queries");
  EXPECT_EQ(broken([](AttentionCapture& c) { c.maps[0].mask->kept.pop_back(); }),
            "attention map, layer 1, head 2: a mask of 3 blocks; expected 4 for a map of 3 x 4");
  EXPECT_EQ(broken([](AttentionCapture& c) { c.maps[0].mask->key_block = 0; }),
            "attention map, layer 1, head 2: blocks of 2 queries and 0 keys; expected at least one of each");
}

TEST(AttentionMap, NamesWhatIsWrongInAFile) {
  const auto broken = [](auto change) {
    Json json = to_json(small_capture());
    change(json);
    return message_of([&] { attention_from_json(json, "a.json"); });
  };
  EXPECT_EQ(broken([](Json& j) { j["format"] = "other\x1b"; }),
            "a.json: the format is 'other\\x1b'; expected 'saccade attention 1'");
  EXPECT_EQ(broken([](Json& j) { j["maps"][1].erase("rows"); }), "a.json: maps[1]: 'rows' is missing");
  EXPECT_EQ(broken([](Json& j) { j["maps"][1]["weights"] = "AAAA"; }),
            "a.json: maps[1].weights: 3 bytes; expected whole float32 numbers");
  EXPECT_EQ(broken([](Json& j) { j["maps"][1]["weights"] = ""; }),
            "a.json: maps[1].weights: 0 numbers; expected 4 for a map of 2 x 2");
  EXPECT_EQ(broken([](Json& j) { j["maps"][1]["rows"] = std::int64_t{1} << 40; }),
            "a.json: maps[1]: a map of 1099511627776 x 2; expected from 1 to 1048576 rows and columns");
  EXPECT_EQ(broken([](Json& j) { j["tokens"][1] = 5; }), "a.json: tokens[1] is the number 5; expected text");
}

}  // namespace
}  // namespace saccade
