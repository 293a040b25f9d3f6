#include "saccade/weights/hub_config.h"

#include <gmock/gmock.h>

#include "saccade/weights/testing.h"

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

HubConfig parse(std::string_view text) { return HubConfig::parse(text, "config.json"); }

TEST(HubConfig, ReadsValuesOfEveryType) {
  const HubConfig config =
      parse(R"({"hidden_size": 576, "rope_theta": 100000, "eps": 1e-5, "tie": true, "act": "silu",
      "whole": 2.0, "archs": ["Llama"], "layers": [1, 2], "scales": [0.5, 1]})");
  EXPECT_EQ(config.integer("hidden_size"), 576);
  EXPECT_EQ(config.size("hidden_size"), 576);
  EXPECT_EQ(config.integer("whole"), 2);
  EXPECT_EQ(config.real("rope_theta"), 100000);
  EXPECT_EQ(config.positive("eps"), 1e-5);
  EXPECT_TRUE(config.boolean("tie"));
  EXPECT_EQ(config.text("act"), "silu");
  EXPECT_THAT(config.texts("archs"), ElementsAre("Llama"));
  EXPECT_THAT(config.integers("layers"), ElementsAre(1, 2));
  EXPECT_THAT(config.reals("scales"), ElementsAre(0.5, 1));
}

TEST(HubConfig, ANullCountsAsMissing) {
  const HubConfig config = parse(R"({"head_dim": null, "present": 1})");
  EXPECT_FALSE(config.has("head_dim"));
  EXPECT_EQ(config.integer("head_dim", 64), 64);
  EXPECT_EQ(config.size("none", 3), 3);
  EXPECT_EQ(config.real("none", 0.5), 0.5);
  EXPECT_EQ(config.positive("none", 0.5), 0.5);
  EXPECT_EQ(config.text("none", "gelu"), "gelu");
  EXPECT_TRUE(config.boolean("none", true));
  EXPECT_EQ(config.find_object("head_dim"), std::nullopt);
  EXPECT_EQ(message_of([&] { config.integer("head_dim"); }), "config.json: no 'head_dim'");
  EXPECT_THAT(config.keys(), ElementsAre("head_dim", "present"));
}

TEST(HubConfig, NamesTheKeyTheValueAndWhatWasExpected) {
  const HubConfig config =
      parse(R"({"hidden_size": "big", "zero": 0, "half": 0.5, "huge": 1e30, "over": 18446744073709551615,
      "list": [1, "a"], "number": 3, "negative": -1.5})");
  const auto error = [&](auto function) { return message_of([&] { function(); }); };
  EXPECT_EQ(error([&] { config.integer("hiden_size"); }),
            "config.json: no 'hiden_size'; did you mean 'hidden_size'?");
  EXPECT_EQ(error([&] { config.integer("hidden_size", 5); }),
            "config.json: 'hidden_size' is \"big\"; expected an integer");
  EXPECT_EQ(error([&] { config.size("zero"); }),
            "config.json: 'zero' is 0; expected an integer from 1 to 2147483647");
  EXPECT_THAT(error([&] { config.integer("half"); }), HasSubstr("'half' is 0.5; expected an integer"));
  EXPECT_THAT(error([&] { config.integer("huge"); }), HasSubstr("expected an integer"));
  EXPECT_THAT(error([&] { config.integer("over"); }), HasSubstr("'over' is 18446744073709551615"));
  EXPECT_THAT(error([&] { config.positive("negative"); }),
              HasSubstr("'negative' is -1.5; expected a number above zero"));
  EXPECT_THAT(error([&] { config.positive("zero"); }), HasSubstr("expected a number above zero"));
  EXPECT_THAT(error([&] { config.boolean("number"); }), HasSubstr("'number' is 3; expected true or false"));
  EXPECT_THAT(error([&] { config.text("number"); }), HasSubstr("expected a string"));
  EXPECT_THAT(error([&] { config.real("hidden_size"); }), HasSubstr("expected a number"));
  EXPECT_EQ(error([&] { config.integers("list"); }),
            "config.json: 'list' is [1,\"a\"]; expected a list of integers");
  EXPECT_THAT(error([&] { config.texts("number"); }), HasSubstr("expected a list of strings"));
  EXPECT_THAT(error([&] { config.object("number"); }), HasSubstr("expected an object"));
  EXPECT_THAT(error([&] { config.refuse("number", "an even number"); }),
              HasSubstr("'number' is 3; expected an even number"));
}

TEST(HubConfig, MessagesFromANestedObjectNameTheWayToIt) {
  const HubConfig config = parse(R"({"text_config": {"rope_scaling": {"factor": "x"}}})");
  const HubConfig scaling = config.object("text_config").object("rope_scaling");
  EXPECT_EQ(message_of([&] { scaling.real("factor"); }),
            "config.json: 'text_config.rope_scaling.factor' is \"x\"; expected a number");
  EXPECT_EQ(message_of([&] { scaling.real("rope_type"); }),
            "config.json: no 'text_config.rope_scaling.rope_type'");
  EXPECT_TRUE(config.find_object("text_config").has_value());
}

TEST(HubConfig, RefusesWhatIsNoObject) {
  EXPECT_THAT(message_of([] { parse("[1]"); }), HasSubstr("config.json: is array; expected an object"));
  EXPECT_THAT(message_of([] { parse("{"); }), HasSubstr("config.json:1:2: "));
  EXPECT_THAT(message_of([] { parse(R"({"a":1,"a":2})"); }), HasSubstr("'a' is given twice"));
}

using HubConfigFile = DirectoryTest;

TEST_F(HubConfigFile, IsOpenedByItsPathOrItsDirectory) {
  make("config.json", R"({"model_type": "llama"})");
  EXPECT_EQ(HubConfig::open(directory_).text("model_type"), "llama");
  EXPECT_EQ(HubConfig::open(at("config.json")).text("model_type"), "llama");
  EXPECT_THAT(message_of([&] { HubConfig::open(at("none")); }), HasSubstr("No such file"));
}

}  // namespace
}  // namespace saccade
