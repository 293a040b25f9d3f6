// As many random numbers are drawn per place whether it is hit or not: that keeps the rates comparable.
#include "saccade/evaluate/corruption.h"

#include "saccade/text/utf8.h"

namespace saccade {

std::vector<int32_t> drop_tokens(std::span<const int32_t> ids, double rate, RandomStream random) {
  std::vector<int32_t> kept;
  for (const int32_t id : ids)
    if (random.uniform() >= rate) kept.push_back(id);
  return kept;
}

std::vector<int32_t> swap_tokens(std::span<const int32_t> ids, double rate, RandomStream random) {
  std::vector<int32_t> result(ids.begin(), ids.end());
  bool moved = false;
  for (size_t place = 0; place + 1 < result.size(); ++place) {
    const bool hit = random.uniform() < rate;
    if (hit && !moved) std::swap(result[place], result[place + 1]);
    moved = hit && !moved;
  }
  return result;
}

std::string add_typos(std::string_view text, double rate, RandomStream random) {
  struct Place {
    std::string_view character;
    bool space, hit;
    uint64_t kind, other;
  };
  std::vector<Place> places;
  std::vector<std::string_view> ink;
  for_each_character(text, [&](char32_t value, size_t begin, size_t length) {
    const bool space = value == ' ' || (value >= '\t' && value <= '\r');
    places.push_back({text.substr(begin, length), space, random.uniform() < rate && !space, random.below(4),
                      random.next()});
    if (!space) ink.push_back(places.back().character);
  });
  std::string result;
  for (size_t index = 0; index < places.size(); ++index) {
    const Place& place = places[index];
    const bool has_next = index + 1 < places.size() && !places[index + 1].space;
    if (!place.hit) {
      result += place.character;
    } else if (place.kind == 1) {
      result += place.character;
      result += place.character;
    } else if (place.kind == 2) {
      result += ink[place.other % ink.size()];
    } else if (place.kind == 3 && has_next) {
      result += places[++index].character;
      result += place.character;
    }
  }
  return result;
}

}  // namespace saccade
