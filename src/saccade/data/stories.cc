// Stories of a small town: facts, each told once, among sentences that keep the reader busy; then questions
// in another order, whose answers repeat the words of the fact. A question can only be answered by looking
// back: who, what and where are drawn independently and evenly.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "saccade/base/error.h"
#include "saccade/data/generator.h"

namespace saccade {
namespace {

using Words = std::vector<std::string_view>;

struct Person {
  std::string_view name, possessive;
};
// Words are short and few, so that a vocabulary of a few hundred tokens has most of them whole: of a word in
// pieces, all but the first can be guessed from its spelling.
constexpr std::array<Person, 12> kPeople = {{{"Ann", "her"},
                                             {"Ben", "his"},
                                             {"Eva", "her"},
                                             {"Gus", "his"},
                                             {"Ida", "her"},
                                             {"Jon", "his"},
                                             {"Kim", "her"},
                                             {"Max", "his"},
                                             {"Lea", "her"},
                                             {"Ned", "his"},
                                             {"Mia", "her"},
                                             {"Tom", "his"}}};

const Words kObjects = {"lamp", "rope", "axe", "pot", "jar", "map", "bag", "cup", "net", "saw", "mug", "pan"};
const Words kGifts = {"ring", "book", "coat", "bell", "vase", "hat", "pen", "coin"};
const Words kThings = {"gate", "door", "wall", "cart", "boat", "sign", "deck", "bed"};
const Words kColours = {"red", "blue", "green", "white", "black", "pink", "gold", "grey"};
const Words kJobs = {"cook", "vet", "duke", "monk", "spy", "king", "maid", "poet"};
const Words kPlaceKinds = {"old", "new", "big", "dry", "dark", "cold", "long", "high"};
const Words kPlaces = {"mill", "barn", "hall", "cave", "yard", "park", "port", "camp"};

const Words kTimes = {"At noon", "At night", "Later"};
const Words kWalks = {"to the sea", "up the hill", "past the well"};
const Words kDeeds = {"sang a song", "fed the hens", "told a joke"};
const Words kBelongings = {"keys", "tea", "bike"};
const Words kCares = {"looked for", "asked for"};
const Words kAnimals = {"dog", "cat", "goat"};
const Words kRests = {"slept", "sat", "ran"};
const Words kNear = {"by the fire", "in the sun", "in the rain"};

const auto& pick(const auto& list, RandomStream& random) { return list[random.below(list.size())]; }

std::string_view name(RandomStream& random) { return pick(kPeople, random).name; }

std::string_view someone_but(std::string_view who, RandomStream& random) {
  std::string_view other = who;
  while (other == who) other = name(random);
  return other;
}

std::string filling(RandomStream& random) {
  const Person& person = pick(kPeople, random);
  switch (random.below(4)) {
    case 0:
      return fmt::format("{} went {} and {}.", person.name, pick(kWalks, random), pick(kDeeds, random));
    case 1:
      return fmt::format("{} {} {} {}.", person.name, pick(kCares, random), person.possessive,
                         pick(kBelongings, random));
    case 2:
      return fmt::format("{} the {} {} {}.", pick(kTimes, random), pick(kAnimals, random),
                         pick(kRests, random), pick(kNear, random));
    default:
      return fmt::format("{} {} and {} went {}.", pick(kTimes, random), person.name,
                         someone_but(person.name, random), pick(kWalks, random));
  }
}

struct Fact {
  std::string question;
  std::string clause;  // the statement up to the answer
  std::string answer;
  bool happened = true;  // at some time, which may be told
};

// Draws facts without asking twice for the same: no thing of a kind comes twice, and nobody has two trades.
class FactDrawer {
 public:
  explicit FactDrawer(RandomStream& random)
      : random_(random),
        left_{shuffled(kObjects.size(), random), shuffled(kPeople.size(), random),
              shuffled(kGifts.size(), random), shuffled(kThings.size(), random)} {}

  static int64_t most() {
    return static_cast<int64_t>(kObjects.size() + kPeople.size() + kGifts.size() + kThings.size());
  }

  Fact draw() {
    size_t kind = random_.below(left_.size());
    while (left_[kind].empty()) kind = (kind + 1) % left_.size();
    const size_t which = left_[kind].back();
    left_[kind].pop_back();
    const std::string_view who = name(random_);
    switch (kind) {
      case 0:
        return {.question = fmt::format("Where did {} leave the {}?", who, kObjects[which]),
                .clause = fmt::format("{} left the {} in the", who, kObjects[which]),
                .answer = fmt::format(" {} {}", pick(kPlaceKinds, random_), pick(kPlaces, random_))};
      case 1:
        return {.question = fmt::format("What do they call {}?", kPeople[which].name),
                .clause = fmt::format("They call {}", kPeople[which].name),
                .answer = fmt::format(" {}", pick(kJobs, random_)),
                .happened = false};
      case 2:
        return {.question = fmt::format("Who got the {} from {}?", kGifts[which], who),
                .clause = fmt::format("{} gave the {} to", who, kGifts[which]),
                .answer = fmt::format(" {}", someone_but(who, random_))};
      default:
        return {.question = fmt::format("How did {} paint the {}?", who, kThings[which]),
                .clause = fmt::format("{} painted the {}", who, kThings[which]),
                .answer = fmt::format(" {}", pick(kColours, random_))};
    }
  }

 private:
  RandomStream& random_;
  std::array<std::vector<size_t>, 4> left_;
};

class StoriesGenerator : public Generator {
 public:
  std::vector<Segment> write(const DocumentSize& size, RandomStream random) const override {
    require(size.items >= 1 && size.items <= most_items(), "stories: {} facts; expected 1 to {}", size.items,
            most_items());
    FactDrawer drawer(random);
    std::vector<Fact> facts;
    for (int64_t count = 0; count < size.items; ++count) facts.push_back(drawer.draw());

    // Facts are told in the first two thirds, so that even the last one is some way back.
    const auto fillings = static_cast<size_t>(size.filling);
    std::vector<size_t> places;  // for each fact, before which sentence of filling it stands
    for (size_t count = 0; count < facts.size(); ++count)
      places.push_back(random.below(fillings * 2 / 3 + 1));
    std::ranges::sort(places);
    std::string text;
    size_t told = 0;
    for (size_t sentence = 0; sentence <= fillings; ++sentence) {
      for (; told < facts.size() && places[told] == sentence; ++told) {
        if (facts[told].happened && random.below(2) == 1) text += fmt::format(" {}", pick(kTimes, random));
        text += fmt::format(" {}{}.", facts[told].clause, facts[told].answer);
      }
      if (sentence < fillings) text += " " + filling(random);
    }
    text.erase(0, 1);

    std::vector<Segment> result = {{.text = std::move(text)}};
    for (const size_t asked : shuffled(facts.size(), random)) {
      const Fact& fact = facts[asked];
      result.back().text += fmt::format("\n{} {}", fact.question, fact.clause);
      result.push_back({.text = fact.answer, .answer = true});
      result.push_back({.text = "."});
    }
    return result;
  }
  int64_t most_items() const override { return FactDrawer::most(); }
  DocumentSize natural_size(int64_t filling) const override {
    return {.items = std::min(most_items(), filling), .filling = filling - 1};
  }
  bool has_filling() const override { return true; }
};

}  // namespace

std::unique_ptr<Generator> make_stories() { return std::make_unique<StoriesGenerator>(); }

}  // namespace saccade
