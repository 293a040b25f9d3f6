// How fast Saccade means to be: one table of measurable targets, each with its mark.
#pragma once

#include <string>
#include <vector>

#include "saccade/bench/scene.h"

namespace saccade::bench {

// What a target compares, and on which side of the mark it must lie.
enum class Comparison {
  speedup,        // time of the other / time of ours, at least
  cost,           // time of ours / time of the other, at most
  choice,         // time of ours / the lesser time of several others, at most
  memory,         // peak memory of the other / of ours, at least
  held,           // bytes of keys and values, ours / the other's, at most
  time_growth,    // exponent of n in our time, at most
  memory_growth,  // exponent of n in our peak memory, at most
};
bool is_met(Comparison comparison, double value, double mark);
// ">= 1.5x", "<= n^1.1"
std::string mark_text(Comparison comparison, double mark);
std::string value_text(Comparison comparison, double value);

// A contestant on a scene.
struct Entry {
  std::string contestant;  // "saccade" or a rival
  Setup setup;
  bool operator==(const Entry&) const = default;
};

struct Target {
  std::string row;   // the aim that it is a part of, one of target_rows()
  std::string name;  // unique
  Comparison comparison;
  double mark;
  std::vector<Entry> entries;  // ours, then the other or others; for growth, ours at rising lengths
};

// The aims in order. Each has targets, except those that another program measures.
struct TargetRow {
  std::string_view name;
  std::string_view measured_by;  // empty: by the targets below
};
std::vector<TargetRow> target_rows();

// The whole table; with `only`, those whose row or name contains it.
std::vector<Target> targets(std::string_view only = {});

// Formulas whose program runs five and eight instructions for every pair.
FormulaSource five_instructions();
FormulaSource eight_instructions();

}  // namespace saccade::bench
