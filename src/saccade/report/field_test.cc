#include "saccade/report/field.h"

#include <cmath>

#include "saccade/base/testing.h"

namespace saccade {
namespace {

TEST(Field, NamesThePlaceOfWhatIsWrong) {
  const Json json = parse_json(R"({"a": [{"b": "x"}, 3], "n": null, "big": 18446744073709551615})", "text");
  const Field file(json, "runs/a.json");
  const auto message = [](auto read) { return message_of([&] { read(); }); };
  EXPECT_EQ(message([&] { file.at("a").items()[0].at("b").number(); }),
            "runs/a.json: a[0].b is text; expected a number");
  EXPECT_EQ(message([&] { file.at("a").items()[1].at("b"); }),
            "runs/a.json: a[1] is the number 3; expected an object with 'b'");
  EXPECT_EQ(message([&] { file.at("c"); }), "runs/a.json: 'c' is missing");
  EXPECT_EQ(message([&] { file.at("a").items()[0].at("c"); }), "runs/a.json: a[0]: 'c' is missing");
  EXPECT_EQ(message([&] { file.text(); }), "runs/a.json: it is an object; expected text");
  EXPECT_EQ(message([&] { file.at("big").whole(); }),
            "runs/a.json: big is the number 18446744073709551615; expected a whole number below 2^63");
}

TEST(Field, TakesNullForWhatIsNotKnown) {
  const Json json = parse_json(R"({"n": null, "list": [1, null]})", "text");
  const Field file(json, "a.json");
  EXPECT_TRUE(std::isnan(file.at("n").number()));
  EXPECT_FALSE(file.find("n"));
  EXPECT_FALSE(file.find("m"));
  EXPECT_EQ(file.number_or("n", 7), 7);
  EXPECT_EQ(file.text_or("m", "none"), "none");
  EXPECT_EQ(file.at("list").numbers()[0], 1);
  EXPECT_TRUE(std::isnan(file.at("list").numbers()[1]));
}

}  // namespace
}  // namespace saccade
