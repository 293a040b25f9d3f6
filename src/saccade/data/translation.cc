// The made-up language puts the verb at the end of its clause, the place before the object and the adjective
// behind its noun. Each noun is of one of two classes, which articles and adjectives show; plural nouns,
// articles and adjectives end in -n, and so do verbs whose subject is plural.
#include "saccade/data/translation.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "saccade/base/error.h"
#include "saccade/data/generator.h"

namespace saccade {
namespace {

constexpr int64_t kMostClauses = 64;

struct Noun {
  std::string_view one, many, foreign;
  bool second_class;
};
constexpr std::array<Noun, 24> kNouns = {{
    {"baker", "bakers", "torimu", false},   {"dog", "dogs", "vaki", true},
    {"boat", "boats", "selo", false},       {"girl", "girls", "nuria", true},
    {"horse", "horses", "drano", true},     {"tree", "trees", "ilma", false},
    {"house", "houses", "kopu", true},      {"king", "kings", "zarto", false},
    {"bird", "birds", "pifa", false},       {"lamp", "lamps", "lumeo", true},
    {"teacher", "teachers", "grado", true}, {"apple", "apples", "yemi", true},
    {"river", "rivers", "osha", false},     {"cat", "cats", "meru", false},
    {"book", "books", "tavli", true},       {"sailor", "sailors", "hunku", false},
    {"farmer", "farmers", "brelo", true},   {"cup", "cups", "sifi", false},
    {"child", "children", "pelu", true},    {"road", "roads", "waro", false},
    {"letter", "letters", "skari", true},   {"goat", "goats", "bema", true},
    {"queen", "queens", "zaria", false},    {"bridge", "bridges", "pontu", false},
}};

struct Adjective {
  std::string_view word, foreign;
};
constexpr std::array<Adjective, 12> kAdjectives = {{{"small", "mik"},
                                                    {"red", "ruv"},
                                                    {"old", "gam"},
                                                    {"quiet", "sil"},
                                                    {"happy", "lir"},
                                                    {"strong", "kort"},
                                                    {"green", "fild"},
                                                    {"young", "nov"},
                                                    {"tall", "hest"},
                                                    {"cold", "fris"},
                                                    {"black", "nok"},
                                                    {"kind", "bon"}}};

struct Verb {
  std::string_view one, many, foreign;
};
constexpr std::array<Verb, 10> kVerbs = {{{"sees", "see", "vid"},
                                          {"finds", "find", "trop"},
                                          {"likes", "like", "amur"},
                                          {"follows", "follow", "sek"},
                                          {"paints", "paint", "kolt"},
                                          {"knows", "know", "savr"},
                                          {"carries", "carry", "port"},
                                          {"hears", "hear", "lus"},
                                          {"hides", "hide", "kash"},
                                          {"forgets", "forget", "obli"}}};

struct Preposition {
  std::string_view word, foreign;
};
constexpr std::array<Preposition, 4> kPrepositions = {
    {{"near", "apu"}, {"behind", "dor"}, {"under", "sot"}, {"with", "kum"}}};

template <class List>
const auto& draw(const List& list, RandomStream& random) {
  return list[random.below(list.size())];
}

struct NounPhrase {
  std::string source, target;
  bool plural;
};

NounPhrase draw_noun_phrase(RandomStream& random) {
  const Noun& noun = draw(kNouns, random);
  const bool plural = random.below(2) == 1, definite = random.below(2) == 1, described = random.below(2) == 1;
  const std::string_view ending = plural ? "n" : "";
  NounPhrase result{.plural = plural};
  result.source = definite ? "the" : plural ? "some" : "one";
  result.target = fmt::format(
      "{}{} {}{}", definite ? (noun.second_class ? "mi" : "ka") : (noun.second_class ? "et" : "ut"),
      plural ? (definite ? "n" : "an") : "", noun.foreign, ending);
  if (described) {
    const Adjective& adjective = draw(kAdjectives, random);
    result.source += fmt::format(" {}", adjective.word);
    result.target += fmt::format(" {}{}{}", adjective.foreign, noun.second_class ? "e" : "o", ending);
  }
  result.source += fmt::format(" {}", plural ? noun.many : noun.one);
  return result;
}

TranslationPair draw_clause(RandomStream& random) {
  const NounPhrase subject = draw_noun_phrase(random), object = draw_noun_phrase(random);
  const Verb& verb = draw(kVerbs, random);
  TranslationPair result;
  result.source =
      fmt::format("{} {} {}", subject.source, subject.plural ? verb.many : verb.one, object.source);
  result.target = subject.target;
  if (random.below(2) == 1) {
    const Preposition& preposition = draw(kPrepositions, random);
    const NounPhrase place = draw_noun_phrase(random);
    result.source += fmt::format(" {} {}", preposition.word, place.source);
    result.target += fmt::format(" {} {}", preposition.foreign, place.target);
  }
  result.target += fmt::format(" {} {}a{}", object.target, verb.foreign, subject.plural ? "n" : "");
  return result;
}

class TranslationGenerator : public Generator {
 public:
  std::vector<Segment> write(const DocumentSize& size, RandomStream random) const override {
    const TranslationPair pair = write_translation(size.items, random);
    return {{.text = pair.source + " =>"}, {.text = " " + pair.target + " .", .answer = true}};
  }
  int64_t most_items() const override { return kMostClauses; }
  DocumentSize natural_size(int64_t filling) const override { return {.items = filling < 2 ? filling : 2}; }
  bool has_filling() const override { return false; }
};

}  // namespace

TranslationPair write_translation(int64_t most_clauses, RandomStream random) {
  require(most_clauses >= 1 && most_clauses <= kMostClauses, "translation: {} clauses; expected 1 to {}",
          most_clauses, kMostClauses);
  TranslationPair result;
  const auto clauses = 1 + random.below(static_cast<uint64_t>(most_clauses));
  for (uint64_t count = 0; count < clauses; ++count) {
    const TranslationPair clause = draw_clause(random);
    const bool first = count == 0;
    result.source += (first ? "" : " and ") + clause.source;
    result.target += (first ? "" : " eda ") + clause.target;
  }
  return result;
}

std::unique_ptr<Generator> make_translation() { return std::make_unique<TranslationGenerator>(); }

}  // namespace saccade
