// One tile of queries at a time: near keys by the kernels' own score routine, far keys by a product of a few
// numbers with an exponential.
#include "saccade/kernels/key_selection.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "saccade/base/error.h"
#include "saccade/kernels/far_weights.h"
#include "saccade/kernels/packing.h"
#include "saccade/kernels/workspace.h"

namespace saccade::kernels {
namespace {

// Added to the score of a key that must not count.
constexpr float kHidden = -1e30F;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// The keys of a tile that are always kept, as indices: first ones, and those around it.
struct Always {
  Range sinks, near;
};

Always always_kept(const SelectionTask& task, Range rows) {
  const Shape& shape = task.shape;
  const auto index = [&](int64_t position) {
    return std::clamp<int64_t>(position - shape.first_key, 0, shape.keys);
  };
  const auto outwards = [&](int64_t begin, int64_t end) {
    return Range{begin / task.key_tile * task.key_tile,
                 end <= begin ? begin : std::min(round_up(end, task.key_tile), shape.keys)};
  };
  const int64_t first = shape.offset + rows.begin, last = shape.offset + rows.end - 1;
  Always result{.sinks = outwards(0, index(task.sinks)),
                .near = outwards(index(first - task.near), index(last + 1 + (task.causal ? 0 : task.near)))};
  result.near.begin = std::max(result.near.begin, result.sinks.end);
  result.near.end = std::max(result.near.end, result.near.begin);
  return result;
}

// Memory that a thread uses for one tile after the other. What is as long as the text is a part of the call's
// workspace: in decoding, fresh memory would take longer than what is done in it.
struct Scratch {
  std::vector<float> rows, strips, panels, tile;
  float *exponentials = nullptr, *total = nullptr;  // [groups at once][stride], [stride]
  int32_t* chosen = nullptr;                        // [stride + kKeyBlock]
  float* blocks = nullptr;                          // of one head; only where it packs them for itself

  void take(Arena& arena, const SelectionTask& task, bool packs) {
    const int64_t stride = round_up(task.shape.keys, kKeyBlock);
    exponentials = arena.take<float>(std::min(kGroupsAtOnce, task.query_tile / task.pool) * stride);
    total = arena.take<float>(stride);
    chosen = arena.take<int32_t>(stride + kKeyBlock);
    if (packs) blocks = arena.take<float>(stride * (task.rank + 1));
  }
};

// The tiles of one head.
class HeadSelection {
 public:
  HeadSelection(const SelectionTask& task, FarKeys keys, int64_t batch, int64_t head, Scratch& scratch)
      : task_(task),
        code_(primitives<float>()),
        keys_(keys),
        batch_(batch),
        head_(head),
        real_(task.real ? task.real + batch * task.shape.keys : nullptr),
        scratch_(scratch) {}

  std::vector<int32_t> list(int64_t tile) {
    const Shape& shape = task_.shape;
    const Range rows{tile * task_.query_tile, std::min((tile + 1) * task_.query_tile, shape.queries)};
    const Always always = always_kept(task_, rows);
    // What comes after a tile that does not see it is not listed.
    const int64_t last = task_.causal ? always.near.end : shape.keys;
    const Range before{always.sinks.end, always.near.begin}, after{always.near.end, last};
    const float threshold = task_.counts ? kKeepNone : threshold_of(rows);
    std::vector<int32_t> result;
    result.reserve(static_cast<size_t>((always.sinks.size() + always.near.size()) / task_.key_tile + 2));
    append(result, always.sinks);
    if (threshold <= kKeepAll) {
      append(result, {always.sinks.end, last});
      return result;
    }
    const bool far = !(before.empty() && after.empty()) && (task_.counts || threshold < kKeepNone);
    if (far) {
      estimate(rows, always, before, after);
      for (const Range keys : {before, after}) sum_key_tiles(keys);
    }
    const float limit = far && task_.counts ? limit_of_count(before, after) : threshold * threshold;
    if (far) append_passing(result, before, limit);
    append(result, always.near);
    if (far) append_passing(result, after, limit);
    return result;
  }

 private:
  float threshold_of(Range rows) const {
    const double middle =
        static_cast<double>(task_.shape.offset) + 0.5 * static_cast<double>(rows.begin + rows.end);
    const auto range =
        std::ranges::upper_bound(task_.ranges, static_cast<int64_t>(middle)) - task_.ranges.begin() - 1;
    return static_cast<float>(task_.thresholds[head_ * std::ssize(task_.ranges) + range] *
                              std::pow(1024.0 / std::max(middle, 1.0), task_.length_power));
  }

  void append(std::vector<int32_t>& list, Range keys) const {
    for (int64_t key = keys.begin; key < keys.end; key += task_.key_tile)
      list.push_back(static_cast<int32_t>(key / task_.key_tile));
  }

  void append_passing(std::vector<int32_t>& list, Range keys, float limit) {
    if (keys.empty()) return;
    int32_t* const first = scratch_.chosen;
    const int64_t count = passing(scratch_.total, limit, keys.begin, keys.end, first);
    if (task_.key_tile > 1)
      std::transform(first, first + count, first,
                     [&](int32_t key) { return static_cast<int32_t>(key / task_.key_tile); });
    list.insert(list.end(), first, first + count);
  }

  // Sums over whole key tiles, at the place of each one's first key; the others can no longer pass.
  void sum_key_tiles(Range keys) {
    if (task_.key_tile == 1) return;
    float* total = scratch_.total;
    for (int64_t first = keys.begin; first < keys.end; first += task_.key_tile) {
      const int64_t end = std::min(first + task_.key_tile, keys.end);
      total[first] = std::accumulate(total + first, total + end, 0.0F);
      std::fill(total + first + 1, total + end, -1.0F);
    }
  }

  // What the last of the wanted number of keys has.
  float limit_of_count(Range before, Range after) {
    std::vector<float> all;
    for (const Range keys : {before, after})
      for (int64_t key = keys.begin; key < keys.end; key += task_.key_tile)
        all.push_back(scratch_.total[key]);
    const int64_t wanted = (task_.counts[head_] + task_.key_tile - 1) / task_.key_tile;
    if (wanted <= 0) return kKeepNone;
    if (wanted >= std::ssize(all)) return 0;
    std::ranges::nth_element(all, all.begin() + (wanted - 1), std::greater{});
    return all[static_cast<size_t>(wanted - 1)];
  }

  // total[j] = the sum of y^2 over the groups of these rows.
  void estimate(Range rows, const Always& always, Range before, Range after) {
    const int64_t stride = round_up(task_.shape.keys, kKeyBlock), width = task_.rank + 1;
    std::fill_n(scratch_.total, stride, 0.0F);
    const std::vector<float> near = near_weights(rows, always);
    const float* groups =
        task_.groups +
        ((batch_ * task_.shape.heads + head_) * task_.group_count() + rows.begin / task_.pool) * width;
    for (int64_t first = 0; first < std::ssize(near); first += kGroupsAtOnce) {
      const int64_t count = std::min<int64_t>(kGroupsAtOnce, std::ssize(near) - first);
      float sums[kGroupsAtOnce] = {}, part[kGroupsAtOnce] = {};
      for (const Range far : {before, after}) {
        if (far.empty()) continue;
        weigh_far({groups + first * width, task_.rank, keys_, near.data() + first, far.begin, far.end,
                   scratch_.exponentials, stride, part},
                  count);
        for (int64_t group = 0; group < count; ++group) sums[group] += part[group];
      }
      float factors[kGroupsAtOnce];
      for (int64_t group = 0; group < count; ++group)
        factors[group] = task_.factors[head_] / (1.0F + sums[group]);
      for (const Range far : {before, after})
        add_squares(scratch_.exponentials, stride, factors, count, far.begin, far.end, scratch_.total);
    }
  }

  // For each group of the tile the mean, over its sampled queries, of the logarithm of what the always-kept
  // keys weigh.
  std::vector<float> near_weights(Range rows, const Always& always) {
    const int64_t step = task_.pool / task_.samples;
    std::vector<int64_t> sampled;
    for (int64_t row = rows.begin + step / 2; row < rows.end; row += step) sampled.push_back(row);
    if (sampled.empty()) sampled.push_back(rows.begin);
    const auto count = std::ssize(sampled);
    if (rows.size() == 1 && readable<float>(task_.query) && readable<float>(task_.key))
      return {near_weight(rows.begin, always)};
    const int64_t depth = task_.query.width, stride = round_up(depth, code_.lanes);
    load_strips(sampled, stride);
    std::vector<float> maximum(sampled.size(), kMinusInfinity), sum(sampled.size(), 0),
        factor(sampled.size());
    scratch_.tile.resize(static_cast<size_t>(count * kTileStride));
    for (const Range part : {always.sinks, always.near})
      for (int64_t first = part.begin; first < part.end; first += kTileKeys)
        weigh_near(sampled, {first, std::min(first + kTileKeys, part.end)}, maximum, sum, factor);
    std::vector<float> result(static_cast<size_t>((rows.size() + task_.pool - 1) / task_.pool), 0);
    std::vector<int> counted(result.size(), 0);
    for (size_t index = 0; index < sampled.size(); ++index) {
      if (sum[index] == 0) continue;
      const auto group = static_cast<size_t>((sampled[index] - rows.begin) / task_.pool);
      result[group] += maximum[index] + std::log(sum[index]);
      ++counted[group];
    }
    // A group that is too short to have a sample takes the one before it.
    for (size_t group = 0; group < result.size(); ++group)
      if (counted[group] > 0)
        result[group] /= static_cast<float>(counted[group]);
      else if (group > 0)
        result[group] = result[group - 1];
    return result;
  }

  // The same for a single query, as in decoding: laying keys out in panels would take longer.
  float near_weight(int64_t query, const Always& always) {
    const Shape& shape = task_.shape;
    const auto* row = reinterpret_cast<const float*>(row_address(task_.query, batch_, head_, query));
    const int64_t seen = task_.causal
                             ? std::clamp<int64_t>(shape.offset + query + 1 - shape.first_key, 0, shape.keys)
                             : shape.keys;
    scratch_.tile.resize(kTileKeys);
    float maximum = kMinusInfinity, sum = 0, factor = 1;
    int64_t count = 0;
    const auto weigh = [&] {
      const int64_t filled = round_up(count, code_.lanes);
      std::fill(scratch_.tile.data() + count, scratch_.tile.data() + filled, kMinusInfinity);
      code_.softmax({scratch_.tile.data(), 1, 0, filled, &maximum, &sum, &factor});
      count = 0;
    };
    for (const Range part : {always.sinks, always.near})
      for (int64_t key = part.begin; key < std::min(part.end, seen); ++key) {
        if (real_ && !real_[key]) continue;
        const auto* other =
            reinterpret_cast<const float*>(row_address(task_.key, batch_, head_ / shape.group(), key));
        scratch_.tile[static_cast<size_t>(count++)] =
            static_cast<float>(task_.scale) * code_.dot(row, other, task_.query.width);
        if (count == kTileKeys) weigh();
      }
    if (count > 0) weigh();
    return sum == 0 ? 0 : maximum + std::log(sum);
  }

  void load_strips(const std::vector<int64_t>& sampled, int64_t stride) {
    const int64_t depth = task_.query.width;
    scratch_.rows.resize(static_cast<size_t>(std::max<int64_t>(std::ssize(sampled), code_.panel) * stride));
    scratch_.strips.resize(static_cast<size_t>(std::ssize(sampled) * depth));
    for (size_t index = 0; index < sampled.size(); ++index)
      load_rows<float>(task_.query, batch_, head_, {sampled[index], sampled[index] + 1}, nullptr,
                       scratch_.rows.data() + static_cast<int64_t>(index) * stride, stride);
    for (int64_t first = 0; first < std::ssize(sampled); first += code_.rows) {
      const int64_t rows = std::min<int64_t>(code_.rows, std::ssize(sampled) - first);
      code_.transpose(scratch_.rows.data() + first * stride, stride, rows, depth,
                      scratch_.strips.data() + first * depth, rows, rows);
    }
  }

  void weigh_near(const std::vector<int64_t>& sampled, Range keys, std::vector<float>& maximum,
                  std::vector<float>& sum, std::vector<float>& factor) {
    const Shape& shape = task_.shape;
    const int64_t depth = task_.query.width, panels = (keys.size() + code_.panel - 1) / code_.panel;
    scratch_.panels.resize(static_cast<size_t>(panels * depth * code_.panel));
    for (int64_t panel = 0; panel < panels; ++panel)
      pack_panel<float>(task_.key, batch_, head_ / shape.group(), keys.begin + panel * code_.panel, keys.end,
                        nullptr, scratch_.rows.data(), scratch_.panels.data() + panel * depth * code_.panel);
    const auto count = std::ssize(sampled);
    const std::vector<Range> ranges(static_cast<size_t>((count + code_.rows - 1) / code_.rows), {0, panels});
    code_.scores({scratch_.strips.data(), count, depth, scratch_.panels.data(),
                  static_cast<float>(task_.scale), nullptr, ranges.data(), scratch_.tile.data()});
    for (int64_t row = 0; row < count; ++row) {
      float* scores = scratch_.tile.data() + row * kTileStride;
      const int64_t seen = task_.causal
                               ? std::clamp<int64_t>(shape.offset + sampled[static_cast<size_t>(row)] + 1 -
                                                         shape.first_key - keys.begin,
                                                     0, keys.size())
                               : keys.size();
      std::fill(scores + seen, scores + panels * code_.panel, kMinusInfinity);
      if (real_)
        for (int64_t key = 0; key < seen; ++key)
          if (!real_[keys.begin + key]) scores[key] = kMinusInfinity;
    }
    code_.softmax(
        {scratch_.tile.data(), count, 0, panels * code_.panel, maximum.data(), sum.data(), factor.data()});
  }

  const SelectionTask& task_;
  const Primitives<float>& code_;
  FarKeys keys_;
  int64_t batch_, head_;
  const uint8_t* real_;
  Scratch& scratch_;
};

// The keys of one head in blocks, feature by feature; those that must not count have a last number that says
// so.
void pack_blocks(const SelectionTask& task, int64_t batch, int64_t head, float* out) {
  const int64_t width = task.rank + 1, keys = task.shape.keys;
  const auto* source = reinterpret_cast<const float*>(row_address(task.keys, batch, head, 0));
  const uint8_t* real = task.real ? task.real + batch * keys : nullptr;
  for (int64_t first = 0; first < keys; first += kKeyBlock, out += width * kKeyBlock) {
    const int64_t used = std::min(kKeyBlock, keys - first);
    if (task.keys.feature_stride == 1)
      primitives<float>().transpose(source + first * task.keys.token_stride, task.keys.token_stride, used,
                                    width, out, kKeyBlock, kKeyBlock);
    else
      for (int64_t feature = 0; feature < width; ++feature)
        std::copy_n(source + feature * task.keys.feature_stride + first, used, out + feature * kKeyBlock);
    for (int64_t key = 0; key < kKeyBlock; ++key)
      if (key >= used || (real && !real[first + key])) out[task.rank * kKeyBlock + key] = kHidden;
  }
}

FarKeys packed(const SelectionTask& task, const float* blocks) {
  return {blocks, (task.rank + 1) * kKeyBlock, kKeyBlock};
}

// Whether the numbers of keys can be read where they are.
bool reads_in_place(const SelectionTask& task) {
  return task.keys.token_stride == 1 && task.keys.feature_stride != 1 && !task.real;
}

void check(const SelectionTask& task) {
  invariant(task.query_tile % task.pool == 0 && task.pool % task.samples == 0,
            "select_keys: tiles are no whole number of groups, or groups of samples");
  invariant(task.keys.width == task.rank + 1 && task.keys.storage == Storage::float32 &&
                (task.keys.feature_stride == 1 || task.keys.token_stride == 1),
            "select_keys: neither the numbers of a key nor those of one kind are floats side by side");
  invariant(task.counts || task.thresholds, "select_keys: neither thresholds nor counts");
  invariant(!task.ranges.empty() && task.ranges[0] == 0 && std::ranges::is_sorted(task.ranges),
            "select_keys: the ranges of positions do not rise from 0");
  invariant(task.shape.keys < std::numeric_limits<int32_t>::max(), "select_keys: too many keys");
}

}  // namespace

SelectedKeys select_keys(const SelectionTask& task) {
  check(task);
  const Shape& shape = task.shape;
  const int64_t tiles = task.tiles(), heads = shape.batch * shape.heads;
  std::vector<std::vector<int32_t>> lists(static_cast<size_t>(heads * tiles));
  // Keys are packed for all tiles of a head to share; the only tile of a head packs them for itself.
  const bool in_place = reads_in_place(task), shared = !in_place && tiles > 1, alone = !in_place && !shared;
  const int64_t block_floats = round_up(shape.keys, kKeyBlock) * (task.rank + 1);
  std::vector<Scratch> scratch(static_cast<size_t>(omp_get_max_threads()));
  const auto take = [&](Arena arena) {
    for (Scratch& each : scratch) each.take(arena, task, alone);
    float* blocks = arena.take<float>(shared ? shape.heads * block_floats : 0);
    return std::pair(blocks, arena.used());
  };
  const Workspace memory(take(Arena()).second);
  float* const blocks = take(Arena(memory.data())).first;
  for (int64_t batch = 0; batch < shape.batch; ++batch) {
#pragma omp parallel
    {
      Scratch& mine = scratch[static_cast<size_t>(omp_get_thread_num())];
      if (shared) {
#pragma omp for
        for (int64_t head = 0; head < shape.heads; ++head)
          pack_blocks(task, batch, head, blocks + head * block_floats);
      }
#pragma omp for schedule(dynamic)
      for (int64_t index = 0; index < shape.heads * tiles; ++index) {
        // Later tiles have more keys before them; the long ones come first, so that no thread waits at the
        // end.
        const int64_t head = index % shape.heads, tile = tiles - 1 - index / shape.heads;
        if (alone) pack_blocks(task, batch, head, mine.blocks);
        const FarKeys keys =
            in_place ? FarKeys{reinterpret_cast<const float*>(row_address(task.keys, batch, head, 0)),
                               kKeyBlock, task.keys.feature_stride}
                     : packed(task, shared ? blocks + head * block_floats : mine.blocks);
        HeadSelection selection(task, keys, batch, head, mine);
        lists[static_cast<size_t>((batch * shape.heads + head) * tiles + tile)] = selection.list(tile);
      }
    }
  }
  SelectedKeys result;
  int64_t total = 0;
  for (int64_t head = 0; head < heads; ++head) {
    result.starts.push_back(static_cast<int32_t>(total));
    for (int64_t tile = 0; tile < tiles; ++tile) {
      total += std::ssize(lists[static_cast<size_t>(head * tiles + tile)]);
      result.starts.push_back(static_cast<int32_t>(total));
    }
  }
  require(total < std::numeric_limits<int32_t>::max(), "select_keys: {} entries; expected fewer than 2^31",
          total);
  result.keys.reserve(static_cast<size_t>(total));
  for (const std::vector<int32_t>& list : lists)
    result.keys.insert(result.keys.end(), list.begin(), list.end());
  return result;
}

void pool_queries(const Shape& shape, const Array& query, int64_t pool, double scale, float* out) {
  const int64_t groups = (shape.queries + pool - 1) / pool, width = query.width;
  const int64_t stride = round_up(width, primitives<float>().lanes), features = pool == 1 ? width : 3 * width;
#pragma omp parallel
  {
    std::vector<float> rows(static_cast<size_t>(pool * stride));
#pragma omp for
    for (int64_t index = 0; index < shape.batch * shape.heads * groups; ++index) {
      const int64_t group = index % groups, head = index / groups % shape.heads,
                    batch = index / groups / shape.heads;
      const Range tokens{group * pool, std::min((group + 1) * pool, shape.queries)};
      const float* source = rows.data();
      int64_t source_stride = stride;
      if (in_place<float>(query)) {
        source = reinterpret_cast<const float*>(row_address(query, batch, head, tokens.begin));
        source_stride = query.token_stride;
      } else {
        load_rows<float>(query, batch, head, tokens, nullptr, rows.data(), stride);
      }
      if (pool > 1) {
        pool_rows(source, source_stride, tokens.size(), width, static_cast<float>(scale),
                  out + index * features);
        continue;
      }
      for (int64_t k = 0; k < width; ++k) out[index * features + k] = source[k] * static_cast<float>(scale);
    }
  }
}

}  // namespace saccade::kernels
