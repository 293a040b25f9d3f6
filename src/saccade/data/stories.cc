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
constexpr std::array<Person, 32> kPeople = {{
    {"Mara", "her"},   {"Tobin", "his"}, {"Ines", "her"},  {"Oskar", "his"}, {"Lena", "her"},
    {"Pavel", "his"},  {"Nadia", "her"}, {"Bruno", "his"}, {"Greta", "her"}, {"Felix", "his"},
    {"Irma", "her"},   {"Hugo", "his"},  {"Sofia", "her"}, {"Anton", "his"}, {"Clara", "her"},
    {"Viktor", "his"}, {"Thea", "her"},  {"Jonas", "his"}, {"Rosa", "her"},  {"Emil", "his"},
    {"Alma", "her"},   {"Karl", "his"},  {"Vera", "her"},  {"Milan", "his"}, {"Dora", "her"},
    {"Leon", "his"},   {"Freda", "her"}, {"Simon", "his"}, {"Helga", "her"}, {"Martin", "his"},
    {"Olga", "her"},   {"David", "his"},
}};

const Words kObjects = {"lantern", "basket", "ladder", "hammer", "kettle",  "blanket", "shovel", "saddle",
                        "bucket",  "mirror", "trunk",  "candle", "barrel",  "compass", "spade",  "kite",
                        "satchel", "broom",  "anchor", "pillow", "lute",    "sickle",  "rope",   "jar",
                        "cloak",   "helmet", "map",    "net",    "whistle", "crate",   "pot",    "quilt"};
const Words kGifts = {"drum",  "ring",  "book",   "coat",   "clock", "flute", "knife", "scarf",
                      "purse", "vase",  "violin", "puppet", "sword", "crown", "watch", "brush",
                      "comb",  "glove", "shell",  "stamp",  "bell",  "medal", "harp",  "dagger"};
const Words kThings = {"gate",  "fence", "door",  "bench", "wagon", "boat",   "shed",    "wall",
                       "table", "chair", "sign",  "sled",  "cart",  "bridge", "shutter", "cupboard",
                       "stool", "swing", "wheel", "porch", "tower", "trough", "ceiling", "stairs"};
const Words kColours = {"red",  "blue", "green",  "yellow", "white", "black", "brown", "grey",
                        "pink", "gold", "purple", "silver", "beige", "teal",  "navy",  "crimson"};
const Words kJobs = {"baker",    "tailor", "sailor", "miller",  "doctor", "farmer", "hunter",  "weaver",
                     "smith",    "potter", "mason",  "teacher", "singer", "cooper", "barber",  "clerk",
                     "gardener", "judge",  "nurse",  "painter", "porter", "ranger", "saddler", "tanner"};
const Words kPlaceKinds = {"old",  "empty", "long", "stone", "new",  "narrow", "cold", "hidden",
                           "high", "quiet", "dark", "round", "wide", "broken", "warm", "small"};
const Words kPlaces = {"mill",   "barn",    "cellar", "church", "garden", "stable", "school", "kitchen",
                       "tunnel", "harbour", "attic",  "forest", "market", "tavern", "chapel", "valley",
                       "cave",   "castle",  "cabin",  "ruin",   "hall",   "field",  "court",  "library"};

const Words kTimes = {"In the morning", "Before noon",     "In the evening", "After the rain",
                      "Later that day", "On the way home", "At sunrise",     "After dinner"};
const Words kWalks = {"along the river", "over the hill",   "through the woods", "across the square",
                      "past the well",   "down to the sea", "around the pond",   "up the street"};
const Words kDeeds = {"sang a song",         "counted the stars", "told a joke",   "hummed a tune",
                      "picked some flowers", "fed the birds",     "read a letter", "ate an apple"};
const Words kBelongings = {"hat", "boots", "coins", "keys", "bread", "letters", "tools", "dreams"};
const Words kCares = {"looked for",   "forgot about", "talked about",
                      "was proud of", "smiled at",    "thought of"};
const Words kAnimals = {"dog", "goose", "cat", "goat", "pony", "rooster"};
const Words kRests = {"slept", "waited", "ran about", "sat still", "played", "made a noise"};
const Words kNear = {"by the fire",  "under the cart", "behind the shop",
                     "in the grass", "at the corner",  "near the pump"};

const auto& pick(const auto& list, RandomStream& random) { return list[random.below(list.size())]; }

std::string_view name(RandomStream& random) { return pick(kPeople, random).name; }

std::string filling(RandomStream& random) {
  const Person& person = pick(kPeople, random);
  switch (random.below(4)) {
    case 0:
      return fmt::format("{} walked {} and {}.", person.name, pick(kWalks, random), pick(kDeeds, random));
    case 1:
      return fmt::format("{} {} {} {}.", person.name, pick(kCares, random), person.possessive,
                         pick(kBelongings, random));
    case 2:
      return fmt::format("{} the {} {} {}.", pick(kTimes, random), pick(kAnimals, random),
                         pick(kRests, random), pick(kNear, random));
    default:
      return fmt::format("{} {} and {} walked {}.", pick(kTimes, random), person.name, name(random),
                         pick(kWalks, random));
  }
}

struct Fact {
  std::string question;
  std::string clause;  // the statement up to the answer
  std::string answer;
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
        return {.question = fmt::format("What is the trade of {}?", kPeople[which].name),
                .clause = fmt::format("{} is a", kPeople[which].name),
                .answer = fmt::format(" {}", pick(kJobs, random_))};
      case 2:
        return {.question = fmt::format("Who got the {} from {}?", kGifts[which], who),
                .clause = fmt::format("{} gave the {} to", who, kGifts[which]),
                .answer = fmt::format(" {}", someone_but(who))};
      default:
        return {.question = fmt::format("What colour did {} choose for the {}?", who, kThings[which]),
                .clause = fmt::format("{} painted the {}", who, kThings[which]),
                .answer = fmt::format(" {}", pick(kColours, random_))};
    }
  }

 private:
  std::string_view someone_but(std::string_view who) {
    std::string_view other = who;
    while (other == who) other = name(random_);
    return other;
  }

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
        if (random.below(2) == 1) text += fmt::format(" {}", pick(kTimes, random));
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
    return {.items = std::min(most_items(), (filling + 1) / 2), .filling = filling - 1};
  }
  bool has_filling() const override { return true; }
};

}  // namespace

std::unique_ptr<Generator> make_stories() { return std::make_unique<StoriesGenerator>(); }

}  // namespace saccade
