// The most frequent pair of neighbours becomes a token, again and again. Each merge touches only the words
// that hold the pair, and a queue with lazy updates finds the next one.
#include "saccade/text/bpe_trainer.h"

#include <algorithm>
#include <queue>
#include <unordered_set>
#include <utility>

#include "saccade/base/error.h"
#include "saccade/text/byte_level.h"
#include "saccade/text/pre_tokenizers.h"
#include "saccade/text/utf8.h"

namespace saccade {
namespace {

using Pair = std::pair<int32_t, int32_t>;

struct PairHash {
  size_t operator()(const Pair& pair) const {
    const uint64_t both =
        static_cast<uint64_t>(static_cast<uint32_t>(pair.first)) << 32 | static_cast<uint32_t>(pair.second);
    return both * 0x9E3779B97F4A7C15 >> 20;
  }
};

struct Word {
  std::vector<int32_t> symbols;
  int64_t count;
};

// Of pairs that are equally frequent, the one with the smaller ids is merged first.
struct Candidate {
  int64_t count;
  Pair pair;
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class Learner {
 public:
  Learner(std::vector<Word> words, int64_t min_frequency) : words_(std::move(words)), min_(min_frequency) {
    for (size_t index = 0; index < words_.size(); ++index) {
      const Word& word = words_[index];
      for (size_t at = 0; at + 1 < word.symbols.size(); ++at) {
        const Pair pair{word.symbols[at], word.symbols[at + 1]};
        counts_[pair] += word.count;
        places_[pair].insert(index);
      }
    }
    for (const auto& [pair, count] : counts_) push(pair, count);
  }

  // The next pair to merge, or nothing when none is frequent enough.
  std::optional<Pair> next() {
    while (!queue_.empty()) {
      const Candidate top = queue_.top();
      queue_.pop();
      const int64_t count = counts_[top.pair];
      if (count != top.count) {
        push(top.pair, count);
        continue;
      }
      if (count < 1 || count < min_) return std::nullopt;
      return top.pair;
    }
    return std::nullopt;
  }

  void merge(const Pair& pair, int32_t id) {
    const auto holders = std::move(places_[pair]);
    std::unordered_map<Pair, std::unordered_set<size_t>, PairHash> appeared;
    for (size_t index : holders) merge_word(index, pair, id, appeared);
    counts_[pair] = 0;
    for (auto& [new_pair, indices] : appeared) {
      places_[new_pair].merge(indices);
      push(new_pair, counts_[new_pair]);
    }
  }

 private:
  void push(const Pair& pair, int64_t count) {
    if (count > 0) queue_.push({count, pair});
  }

  void merge_word(size_t index, const Pair& pair, int32_t id,
                  std::unordered_map<Pair, std::unordered_set<size_t>, PairHash>& appeared) {
    Word& word = words_[index];
    std::vector<int32_t>& symbols = word.symbols;
    const auto change = [&](Pair changed, int64_t by) {
      counts_[changed] += by * word.count;
      if (by > 0) appeared[changed].insert(index);
    };
    size_t kept = 0;
    for (size_t at = 0; at < symbols.size(); ++kept) {
      const bool here =
          at + 1 < symbols.size() && symbols[at] == pair.first && symbols[at + 1] == pair.second;
      if (!here) {
        symbols[kept] = symbols[at++];
        continue;
      }
      if (kept > 0) {
        change({symbols[kept - 1], pair.first}, -1);
        change({symbols[kept - 1], id}, 1);
      }
      if (at + 2 < symbols.size()) {
        change({pair.second, symbols[at + 2]}, -1);
        change({id, symbols[at + 2]}, 1);
      }
      symbols[kept] = id;
      at += 2;
    }
    symbols.resize(kept);
  }

  std::vector<Word> words_;
  int64_t min_;
  std::unordered_map<Pair, int64_t, PairHash> counts_;
  std::unordered_map<Pair, std::unordered_set<size_t>, PairHash> places_;
  std::priority_queue<Candidate> queue_;
};

Json byte_level_part(bool add_prefix_space) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", add_prefix_space},
          {"trim_offsets", true},
          {"use_regex", true}};
}

}  // namespace

BpeTrainer::BpeTrainer(BpeTrainerOptions options) : options_(std::move(options)) {
  const auto least = static_cast<int64_t>(options_.special_tokens.size()) + 256;
  require(options_.vocabulary_size >= least && options_.vocabulary_size <= Vocabulary::kLargestId,
          "BPE trainer: a vocabulary of {} tokens; expected at least {} (256 bytes and the special tokens) "
          "and at "
          "most {}",
          options_.vocabulary_size, least, Vocabulary::kLargestId);
}

void BpeTrainer::add(std::string_view text) {
  const Json description = byte_level_part(options_.add_prefix_space);
  const auto words = make_pre_tokenizer(JsonPart(description, "BPE trainer"), true);
  words->split({text, true}, [&](const Piece& piece) { ++words_[std::string(piece.text)]; });
}

Tokenizer BpeTrainer::train() const {
  TokenizerSpec spec;
  std::unordered_map<std::string, int32_t> ids;
  const auto id_of = [&](const std::string& token) {
    const auto [place, is_new] = ids.emplace(token, static_cast<int32_t>(ids.size()));
    if (is_new) spec.vocabulary.emplace_back(token, place->second);
    return place->second;
  };
  Json added = Json::array();
  for (const std::string& token : options_.special_tokens) {
    require(is_utf8(token) && !token.empty() && !ids.contains(token),
            "BPE trainer: the special token '{}' is empty, not UTF-8 or there twice", token);
    added.push_back({{"id", id_of(token)},
                     {"content", token},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  // The bytes' ids are in the order of the characters that stand for them.
  std::vector<std::pair<char32_t, unsigned char>> alphabet;
  for (int byte = 0; byte < 256; ++byte)
    alphabet.emplace_back(character_of_byte(static_cast<unsigned char>(byte)),
                          static_cast<unsigned char>(byte));
  std::sort(alphabet.begin(), alphabet.end());
  std::array<int32_t, 256> byte_ids{};
  for (const auto& [character, byte] : alphabet) byte_ids[byte] = id_of(to_utf8(character));

  std::vector<Word> words;
  words.reserve(words_.size());
  for (const auto& [text, count] : words_) {
    words.push_back({{}, count});
    for (char letter : text) words.back().symbols.push_back(byte_ids[static_cast<unsigned char>(letter)]);
  }
  Learner learner(std::move(words), options_.min_frequency);
  while (static_cast<int64_t>(ids.size()) < options_.vocabulary_size) {
    const auto pair = learner.next();
    if (!pair) break;
    const std::string left = spec.vocabulary[static_cast<size_t>(pair->first)].first;
    const std::string right = spec.vocabulary[static_cast<size_t>(pair->second)].first;
    learner.merge(*pair, id_of(left + right));
    spec.merges.emplace_back(left, right);
  }

  spec.config = {{"version", "1.0"},
                 {"truncation", nullptr},
                 {"padding", nullptr},
                 {"added_tokens", added},
                 {"normalizer", nullptr},
                 {"pre_tokenizer", byte_level_part(options_.add_prefix_space)},
                 {"post_processor", nullptr},
                 {"decoder", byte_level_part(true)},
                 {"model",
                  {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", nullptr},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", false},
                   {"byte_fallback", false},
                   {"ignore_merges", false},
                   {"vocab", nullptr},
                   {"merges", nullptr}}}};
  return Tokenizer::from_spec(std::move(spec), "BPE trainer");
}

}  // namespace saccade
