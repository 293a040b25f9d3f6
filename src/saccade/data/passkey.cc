// The sentences around a pass key.
#include "saccade/data/passkey.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string_view>

#include "saccade/data/generator.h"

namespace saccade {
namespace {

constexpr std::string_view kOpening =
    "A number is hidden in this text. Read it with care, for it will be asked for at the end.";
constexpr std::string_view kNeedle = " The pass key is {}. Do not forget it: {} is the pass key.";
constexpr std::string_view kQuestion = " What is the pass key? The pass key is";

constexpr std::array<std::string_view, 16> kFilling = {
    " The baker opens his shop before the sun is up.",
    " Two boats lie in the harbour and wait for the tide.",
    " In spring the meadow behind the school is full of flowers.",
    " My neighbour repairs old clocks and sells them in winter.",
    " The road goes over the hill and down to the mill.",
    " A grey cat sleeps on the warm stones of the wall.",
    " Every evening the lamps are lit along the river.",
    " The children count the wagons of the passing train.",
    " It rained all day, and nobody went to the market.",
    " The old bridge was built of oak and iron.",
    " She keeps her letters in a box under the stairs.",
    " From the tower one can see the sea on clear days.",
    " The gardener plants beans where the roses used to be.",
    " A quiet wind moves the leaves of the tall trees.",
    " The library closes early on the last day of the week.",
    " They walked home slowly and spoke about the harvest.",
};

class PasskeyGenerator : public Generator {
 public:
  std::vector<Segment> write(const DocumentSize& size, RandomStream random) const override {
    const Passkey passkey = draw_passkey(random);
    const double depth = random.uniform();
    return {{.text = passkey_prompt(passkey, size.filling, depth)},
            {.text = " " + passkey.key, .answer = true}};
  }
  int64_t most_items() const override { return 1; }
  DocumentSize natural_size(int64_t filling) const override { return {.items = 1, .filling = filling - 1}; }
  bool has_filling() const override { return true; }
};

}  // namespace

size_t passkey_filling_count() { return kFilling.size(); }

std::string passkey_filling() {
  std::string result;
  for (const std::string_view sentence : kFilling) result += sentence;
  return result;
}

Passkey draw_passkey(RandomStream& random) {
  Passkey result;
  result.key = std::to_string(10000 + random.below(90000));
  result.start = random.below(kFilling.size());
  return result;
}

std::string passkey_prompt(const Passkey& passkey, int64_t sentences, double depth) {
  std::string text(kOpening);
  const auto before = static_cast<int64_t>(std::lround(depth * static_cast<double>(sentences)));
  for (int64_t index = 0; index <= sentences; ++index) {
    if (index == before) text += fmt::format(kNeedle, passkey.key, passkey.key);
    if (index < sentences) text += kFilling[(passkey.start + static_cast<size_t>(index)) % kFilling.size()];
  }
  return text += kQuestion;
}

std::unique_ptr<Generator> make_passkey() { return std::make_unique<PasskeyGenerator>(); }

}  // namespace saccade
