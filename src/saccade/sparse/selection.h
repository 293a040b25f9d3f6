// What all selectors of sparse attention share: which keys are kept in any case, how large tiles are, and the
// count of what was kept.
#pragma once

#include <string>

#include "saccade/attention/selector.h"
#include "saccade/formula/formula.h"

namespace saccade {

struct SelectionOptions {
  int64_t query_tile = 64;  // queries that share a list
  int64_t key_tile = 1;     // keys that are kept or left out together
  int64_t sinks = 4;        // first tokens of a text, which every query keeps
  int64_t near = 64;        // tokens before a tile (and after it, where a formula sees them) that it keeps
  // With fewer keys than this all are looked at: choosing would cost more than it saves. One new query in
  // decoding has a limit of its own, since it shares the choosing with no other.
  int64_t min_keys = 0, min_cached = 0;

  template <class Visitor>
  void visit(Visitor&& visitor) {
    visitor("query_tile", query_tile, "queries that share a list");
    visitor("key_tile", key_tile, "keys that are kept or left out together");
    visitor("sinks", sinks, "first tokens that are always kept");
    visitor("near", near, "tokens before a tile that are always kept");
    visitor("min_keys", min_keys, "with fewer keys all are looked at");
    visitor("min_cached", min_cached, "with fewer keys one new query in decoding looks at all");
  }
};

// Throws Error for sizes that cannot be.
void check(const SelectionOptions& options);

// Pairs by head.
struct PairCount {
  at::Tensor kept;     // [heads], double
  double visible = 0;  // pairs of a head that the formula's mask allows, as far as it is causal or full

  double density() const;              // of all heads together
  at::Tensor density_by_head() const;  // [heads]
};

// Whether no query sees what comes after it.
bool looks_back_only(const Formula& formula);

// Pairs that the lists keep, by tile, [heads, tiles] of double. Keys that a causal query does not see are not
// counted.
at::Tensor kept_by_tile(const KeyLists& lists, const PairInputs& inputs, bool causal);
// Pairs of one head that these rows see.
double visible_pairs(const PairInputs& inputs, bool causal, int64_t begin, int64_t end);
// Of all rows, or all pairs for no lists.
PairCount count_pairs(const std::optional<KeyLists>& lists, const PairInputs& inputs, bool causal);

// A selector that can be stored and counted. One belongs to one layer.
class SparseSelector : public Selector {
 public:
  SparseSelector(SelectionOptions options, bool causal) : options_(options), causal_(causal) {
    check(options);
  }

  // "span", "low_rank", "token_gate": what it is called in files.
  virtual std::string kind() const = 0;
  // What it has learned, by name; a file stores these.
  virtual std::vector<std::pair<std::string, at::Tensor>> tensors() const = 0;
  // What each head and range of positions can be set to, from all keys to the fewest, and setting it. What
  // the numbers mean is the selector's own affair.
  virtual std::vector<double> settings() const = 0;
  virtual void set(int64_t head, int64_t range, double setting) = 0;
  // Where ranges of positions begin that are set apart.
  virtual const std::vector<int64_t>& ranges() const = 0;
  // Throws Error for a formula that it cannot choose for.
  virtual void check_formula(const Formula&) const {}
  // Whether decoding may begin to choose at another length than reading does.
  virtual bool decodes_apart() const { return true; }
  // Bytes that it keeps in a cache beside keys and values. One new token reads them to choose, at most all.
  virtual int64_t cached_bytes(const KvCache&) const { return 0; }
  // Multiplications and additions that choosing takes for a text of so many tokens, all heads together.
  virtual double operations(int64_t tokens) const = 0;

  const SelectionOptions& options() const { return options_; }
  SelectionOptions& options() { return options_; }
  bool causal() const { return causal_; }
  // Whether there are so few keys that choosing would not pay.
  bool too_few(const PairInputs& inputs, const KvCache* cache) const;

  // Counts what the following calls keep.
  void start_counting() { counting_ = true, count_ = {}; }
  PairCount stop_counting() { return counting_ = false, std::exchange(count_, {}); }
  void finished(const PairInputs& inputs, const AttentionResult&) override;

 private:
  SelectionOptions options_;
  bool causal_;
  bool counting_ = false;
  PairCount count_;
};

}  // namespace saccade
