// Checks of what holds between calls: earlier outputs do not depend on later tokens, and a cache is only a
// memory.
#include "saccade/base/random.h"
#include "saccade/certify/compare.h"
#include "saccade/certify/problem.h"
#include "saccade/certify/properties.h"

namespace saccade::properties {
namespace {

using torch::Tensor;

struct Setting {
  std::shared_ptr<AttentionImpl> module;
  Problem problem;
  Tensor full;  // the output of one forward over all tokens
};

Setting set_up(const Subject& subject, const Case& c) {
  torch::NoGradGuard no_gradient;
  Setting setting{subject.module(c), make_problem(subject.formula, c), {}};
  setting.full = setting.module->forward(setting.problem.query, setting.problem.key, setting.problem.value,
                                         setting.problem.call);
  return setting;
}

// Feeds the tokens [begin, end) to the cache and returns their outputs.
Tensor step(const Subject& subject, const Setting& setting, KvCache& cache, int64_t begin, int64_t end) {
  torch::NoGradGuard no_gradient;
  const Problem part = slice(subject.formula, setting.problem, begin, end);
  return setting.module->forward(part.query, part.key, part.value, cache, part.call);
}

std::string compare_step(const Setting& setting, const Tensor& found, int64_t begin, std::string_view how) {
  const Tensor expected = setting.full.narrow(2, begin, found.size(2));
  return difference(
      fmt::format("{} at position {}, the output at [sequence, head, query, column]", how, begin), found,
      expected, kDoubleTolerance);
}

std::string decode(const Subject& subject, const Setting& setting, KvCache& cache, int64_t begin, int64_t end,
                   int64_t chunk, std::string_view how) {
  for (int64_t at = begin; at < end; at += chunk) {
    const Tensor found = step(subject, setting, cache, at, std::min(at + chunk, end));
    if (auto wrong = compare_step(setting, found, at, how); !wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace

std::string causality(const Subject& subject, const Case& c) {
  const Setting setting = set_up(subject, c);
  torch::NoGradGuard no_gradient;
  for (int64_t begin = 1; begin < c.queries; begin = begin < 8 ? begin + 1 : begin * 2) {
    const Problem other = with_other_future(subject.formula, setting.problem, begin, c.seed);
    const Tensor changed = setting.module->forward(other.query, other.key, other.value, other.call);
    const auto wrong = difference(
        fmt::format(
            "when the tokens from position {} on change, the output at [sequence, head, query, column]",
            begin),
        changed.narrow(2, 0, begin), setting.full.narrow(2, 0, begin), 1e-12);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

std::string cache_tokens(const Subject& subject, const Case& c) {
  const Setting setting = set_up(subject, c);
  KvCache cache = setting.module->make_cache();
  return decode(subject, setting, cache, 0, c.queries, 1, "decoding token by token");
}

std::string cache_chunks(const Subject& subject, const Case& c) {
  const Setting setting = set_up(subject, c);
  for (int64_t chunk : {int64_t{2}, int64_t{3}, std::max<int64_t>(1, c.queries - 1)}) {
    KvCache cache = setting.module->make_cache();
    const std::string how = fmt::format("decoding in chunks of {}", chunk);
    if (auto wrong = decode(subject, setting, cache, 0, c.queries, chunk, how); !wrong.empty()) return wrong;
  }
  return "";
}

std::string cache_reset(const Subject& subject, const Case& c) {
  const Setting setting = set_up(subject, c);
  KvCache cache = setting.module->make_cache();
  step(subject, setting, cache, 0, c.queries);
  cache.reset();
  return decode(subject, setting, cache, 0, c.queries, 2, "after a reset");
}

std::string cache_crop(const Subject& subject, const Case& c) {
  const Setting setting = set_up(subject, c);
  const Problem other = with_other_future(subject.formula, setting.problem, c.queries / 2, c.seed);
  KvCache cache = setting.module->make_cache();
  torch::NoGradGuard no_gradient;
  setting.module->forward(other.query, other.key, other.value, cache,
                          other.call);  // its second half will be taken back
  cache.crop(c.queries / 2);
  return decode(subject, setting, cache, c.queries / 2, c.queries, 1, "after a crop");
}

std::string cache_reorder(const Subject& subject, const Case& c) {
  const Setting setting = set_up(subject, c);
  KvCache cache = setting.module->make_cache();
  const int64_t middle = c.queries / 2;
  step(subject, setting, cache, 0, middle);
  // Sequence b goes on from the past of sequence b + 1.
  const Tensor order = (torch::arange(c.batch, torch::kLong) + 1).remainder(c.batch);
  cache.reorder(order);
  torch::NoGradGuard no_gradient;
  const Problem past = slice(subject.formula, setting.problem, 0, middle),
                future = slice(subject.formula, setting.problem, middle, c.queries);
  // The same by hand: a full forward over the exchanged past and the future.
  Problem mixed = setting.problem;
  const auto mix = [&](Tensor& whole, const Tensor& old_part, const Tensor& new_part, int64_t place) {
    if (!whole.defined()) return;
    const bool per_sequence = old_part.size(0) == c.batch && whole.dim() > place && place > 0;
    whole = torch::cat({per_sequence ? old_part.index_select(0, order) : old_part, new_part}, place);
  };
  mix(mixed.query, past.query, future.query, 2);
  mix(mixed.key, past.key, future.key, 2);
  mix(mixed.value, past.value, future.value, 2);
  mix(mixed.call.x, past.call.x, future.call.x, 1);
  for (const TableInfo& table : subject.formula.plan().tables) {
    if (table.source != TableInfo::Source::input || !table.rides_in_cache()) continue;
    Tensor& input = mixed.call.inputs.at(table.name);
    const Tensor& old_part = past.call.inputs.at(table.name);
    for (int64_t place = 0; place < input.dim(); ++place)
      if (old_part.size(place) != input.size(place)) {
        mix(input, old_part, future.call.inputs.at(table.name), place);
        break;
      }
  }
  const Tensor expected = setting.module->forward(mixed.query, mixed.key, mixed.value, mixed.call)
                              .narrow(2, middle, c.queries - middle);
  const Tensor found = setting.module->forward(future.query, future.key, future.value, cache, future.call);
  return difference("after a reorder, the output at [sequence, head, query, column]", found, expected,
                    kDoubleTolerance);
}

}  // namespace saccade::properties
