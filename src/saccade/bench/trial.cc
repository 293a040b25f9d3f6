// Grouping, judging, and the median over processes.
#include "saccade/bench/trial.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "saccade/base/error.h"
#include "saccade/bench/processes.h"
#include "saccade/bench/rivals.h"

namespace saccade::bench {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Measured {
  Entry entry;
  Measurement measurement;
  int64_t held_bytes = 0;
  double operations = 0;  // useful ones
};

// Distinct entries of one task and shape.
using Group = std::vector<Entry>;

std::vector<Group> group(const std::vector<Target>& targets) {
  std::vector<Group> groups;
  for (const Target& target : targets)
    for (const Entry& entry : target.entries) {
      const auto same = std::ranges::find_if(groups, [&](const Group& g) {
        return g[0].setup.task == entry.setup.task && g[0].setup.shape == entry.setup.shape;
      });
      if (same == groups.end())
        groups.push_back({entry});
      else if (std::ranges::find(*same, entry) == same->end())
        same->push_back(entry);
    }
  // Ours first, so that a rival finds what it must equal.
  for (Group& g : groups)
    std::ranges::stable_sort(g, {}, [](const Entry& entry) { return entry.contestant != "saccade"; });
  return groups;
}

void measure_group(const Group& entries, const RoundOptions& rounds, std::vector<Measured>& results) {
  std::vector<Contestant> contestants;
  std::vector<std::pair<Setup, std::shared_ptr<Scene>>> scenes;
  const auto scene_of = [&](const Setup& setup) {
    for (const auto& [other, scene] : scenes)
      if (other == setup) return scene;
    return scenes.emplace_back(setup, make_scene(setup)).second;
  };
  std::vector<size_t> places;  // of the contestants among the results
  for (const Entry& entry : entries) {
    Measured measured{.entry = entry};
    try {
      Contestant contestant = make_contestant(entry.contestant, scene_of(entry.setup));
      measured.held_bytes = contestant.held_bytes;
      measured.operations = useful_operations(*scene_of(entry.setup));
      for (size_t index = 0; index < places.size() && entry.contestant != "saccade"; ++index)
        if (results[places[index]].entry == Entry{"saccade", entry.setup})
          contestant.equal_to = static_cast<int>(index);
      contestants.push_back(std::move(contestant));
      places.push_back(results.size());
    } catch (const std::exception& error) {
      const std::string words = error.what();
      measured.measurement.failure = words.substr(0, words.find('\n'));
    }
    results.push_back(std::move(measured));
  }
  const std::vector<Measurement> measurements = measure(contestants, rounds);
  for (size_t index = 0; index < places.size(); ++index)
    results[places[index]].measurement = measurements[index];
}

double exponent(const std::vector<const Measured*>& series, bool of_time) {
  std::vector<double> lengths, values;
  for (const Measured* measured : series) {
    lengths.push_back(static_cast<double>(measured->entry.setup.shape.keys));
    values.push_back(of_time ? median(measured->measurement.seconds)
                             : static_cast<double>(measured->measurement.bytes));
  }
  return growth_exponent(lengths, values);
}

Outcome judge(const Target& target, const std::vector<Measured>& results) {
  Outcome outcome{.target = target, .value = {kNaN, kNaN, kNaN}};
  std::vector<const Measured*> found;
  for (const Entry& entry : target.entries) {
    const auto measured = std::ranges::find(results, entry, &Measured::entry);
    invariant(measured != results.end(), "a target's entry was not measured");
    if (!measured->measurement.failure.empty()) {
      outcome.failure = measured->measurement.failure;
      return outcome;
    }
    found.push_back(&*measured);
  }
  const Measurement &ours = found[0]->measurement, &other = found[1]->measurement;
  const auto fixed = [&](double value) { outcome.value = {value, value, value}; };
  // Our rate, and what it would be if we took `mark` times as long as the other.
  const auto rates = [&](double mark) {
    outcome.gigaflops = found[0]->operations / median(ours.seconds) * 1e-9;
    outcome.needed_gigaflops = found[0]->operations / (mark * median(other.seconds)) * 1e-9;
  };
  switch (target.comparison) {
    case Comparison::speedup:
      outcome.value = summarise(ratios(other, ours));
      outcome.error = other.error;
      rates(1 / target.mark);
      break;
    case Comparison::cost:
      outcome.value = summarise(ratios(ours, other));
      rates(target.mark);
      break;
    case Comparison::choice: {
      std::vector<double> worst = ratios(ours, other);
      for (size_t rival = 2; rival < found.size(); ++rival) {
        const std::vector<double> more = ratios(ours, found[rival]->measurement);
        std::ranges::transform(worst, more, worst.begin(), [](double a, double b) { return std::max(a, b); });
      }
      outcome.value = summarise(worst);
      break;
    }
    case Comparison::memory:
      fixed(static_cast<double>(other.bytes) / static_cast<double>(ours.bytes));
      break;
    case Comparison::held:
      fixed(static_cast<double>(found[0]->held_bytes) / static_cast<double>(found[1]->held_bytes));
      break;
    case Comparison::time_growth:
      fixed(exponent(found, true));
      break;
    case Comparison::memory_growth:
      fixed(exponent(found, false));
      break;
  }
  return outcome;
}

double number_or_nan(const Json& json) { return json.is_number() ? json.get<double>() : kNaN; }

}  // namespace

std::vector<Outcome> try_targets(const std::vector<Target>& targets, const RoundOptions& rounds,
                                 const std::function<void(int64_t, int64_t)>& progress) {
  const std::vector<Group> groups = group(targets);
  std::vector<Measured> results;
  int64_t done = 0;
  for (const Group& entries : groups) {
    measure_group(entries, rounds, results);
    if (progress) progress(++done, static_cast<int64_t>(groups.size()));
  }
  std::vector<Outcome> outcomes;
  for (const Target& target : targets) outcomes.push_back(judge(target, results));
  return outcomes;
}

std::vector<Outcome> try_in_processes(const std::vector<Target>& targets, int64_t processes,
                                      const std::vector<std::string>& arguments) {
  std::vector<std::vector<double>> values(targets.size()), rates(targets.size()), needed(targets.size());
  std::vector<Outcome> outcomes;
  for (const Target& target : targets) outcomes.push_back({.target = target});
  for (int64_t process = 0; process < processes; ++process) {
    const Json json = parse_json(output_of_this_program(arguments), "bench: another process of this program");
    const Json& list = json.at("targets");
    require(list.size() == targets.size(), "bench: another process measured {} targets; expected {}",
            list.size(), targets.size());
    for (size_t index = 0; index < targets.size(); ++index) {
      Outcome& outcome = outcomes[index];
      if (!list[index]["failure"].is_null()) outcome.failure = list[index]["failure"].get<std::string>();
      values[index].push_back(number_or_nan(list[index]["value"]));
      rates[index].push_back(number_or_nan(list[index]["gigaflops"]));
      needed[index].push_back(number_or_nan(list[index]["needed_gigaflops"]));
      // A difference that is no number is the worst of all.
      if (!list[index]["error"].is_null())
        outcome.error = std::max(outcome.error, list[index]["error"].get<double>());
    }
  }
  for (size_t index = 0; index < targets.size(); ++index) {
    if (!outcomes[index].failure.empty()) continue;
    outcomes[index].value = summarise(values[index]);
    outcomes[index].gigaflops = median(rates[index]);
    outcomes[index].needed_gigaflops = median(needed[index]);
  }
  return outcomes;
}

Json to_json(const std::vector<Outcome>& outcomes) {
  Json list = Json::array();
  for (const Outcome& outcome : outcomes)
    list.push_back(
        {{"row", outcome.target.row},
         {"name", outcome.target.name},
         {"value", outcome.value.median},
         {"low", outcome.value.low},
         {"high", outcome.value.high},
         {"mark", outcome.target.mark},
         {"demand", mark_text(outcome.target.comparison, outcome.target.mark)},
         {"met", outcome.met()},
         {"gigaflops", outcome.gigaflops},
         {"needed_gigaflops", outcome.needed_gigaflops},
         {"error", outcome.error < 0 ? Json() : Json(std::isfinite(outcome.error) ? outcome.error : 1e30)},
         {"failure", outcome.failure.empty() ? Json() : Json(outcome.failure)}});
  return {{"targets", list}};
}

}  // namespace saccade::bench
