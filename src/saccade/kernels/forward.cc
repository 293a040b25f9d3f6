// Divides a call into units of work. A unit is computed by one thread in one order, whoever that is: results
// do not depend on the number of threads. Three ways:
// - dense: keys are packed once, then every tile of queries walks over them;
// - stacked, for few queries such as in decoding: the query heads that share a key head form one tile; keys,
//   all or those that any of the heads lists, are split into chunks whose results are merged in order;
// - listed: every tile of queries walks over its own list of keys. Lists may also be given as a mask for the
//   other ways.
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <numeric>

#include "saccade/base/error.h"
#include "saccade/kernels/denormals.h"
#include "saccade/kernels/forward_tile.h"
#include "saccade/kernels/key_store.h"
#include "saccade/kernels/list_walk.h"
#include "saccade/kernels/score_bound.h"
#include "saccade/kernels/stacked_keys.h"
#include "saccade/kernels/unit_queue.h"

namespace saccade::kernels {
namespace {

constexpr int64_t kChunkKeys = 2 * kTileKeys;  // of a stacked unit

template <class Real>
class Forward {
 public:
  Forward(const KernelPlan& plan, const Inputs& inputs, const ForwardOptions& options,
          const ForwardOutputs& outputs)
      : plan_(plan), inputs_(inputs), options_(options), outputs_(outputs), context_(plan, inputs) {
    if (options.epsilon > 0) context_.headroom = 0;  // what is left out is decided by the maxima
  }

  ForwardReport run() {
    const Shape& shape = inputs_.shape;
    if (shape.batch * shape.heads * shape.queries == 0) return {};
    context_.prepare();
    if (stacks())
      run_stacked();
    else if (inputs_.lists && inputs_.lists.gather)
      run_listed();
    else
      run_dense();
    return {tiles_, empty_, negligible_};
  }

 private:
  // With lists, the heads of a group read the keys of each other's lists, too. That pays where the time is
  // that of reading keys, however few of a tile's rows look at them.
  bool stacks() const {
    const Shape& shape = inputs_.shape;
    const int64_t rows = shape.group() * shape.queries;
    if (rows > kTileRows || context_.scale_varies()) return false;
    return !inputs_.lists ||
           (shape.queries <= inputs_.lists.query_tile && KeyPacker<Real>(context_).few(rows));
  }

  // Runs `work(tile, unit)` for every unit on all threads; each has its own tile and `extra` numbers beside
  // it.
  template <class Work>
  void for_units(int64_t units, int64_t extra, const Work& work) {
    const int threads = static_cast<int>(std::min<int64_t>(omp_get_max_threads(), units));
    const ForwardTile<Real> sample(context_);
    const int64_t each = round_up(sample.size() + extra, 1024) + 64;  // threads begin in different cache sets
    const Workspace memory(static_cast<size_t>(each * threads) * sizeof(Real));
    auto* numbers = reinterpret_cast<Real*>(memory.data());
    UnitQueue queue(units, threads);
    const auto run = [&](int thread) {
      const FlushDenormals flush;
      ForwardTile<Real> tile(context_);
      Real* mine = numbers + thread * each;
      tile.bind(mine);
      for (int64_t unit = queue.take(thread); unit >= 0; unit = queue.take(thread))
        work(tile, unit, mine + tile.size());
    };
    if (threads == 1) return run(0);  // without a team, which takes longer to call than a decoding step
#pragma omp parallel num_threads(threads)
    run(omp_get_thread_num());
  }

  // What the mask does to a block, for all heads of the tile.
  TileState state_of(ForwardTile<Real>& tile, const KeyBlock<Real>& block, Range queries) {
    if (!plan_.masked) return TileState::full;
    if (!options_.skip || !tile.map().decides(block.picked)) return TileState::mixed;
    const Range keys = block.keys();
    const TileState state = tile.map().state(*tile.mask_slots()[0], queries, keys);
    for (size_t head = 1; head < tile.mask_slots().size(); ++head)
      if (state != TileState::mixed && tile.mask_slots()[head] != tile.mask_slots()[0] &&
          tile.map().state(*tile.mask_slots()[head], queries, keys) != state)
        return TileState::mixed;
    return state;
  }

  // Adds one block unless the mask empties it.
  void add(ForwardTile<Real>& tile, const KeyBlock<Real>& block, Range queries) {
    const TileState state = state_of(tile, block, queries);
    ++tiles_;
    if (state == TileState::empty)
      ++empty_;
    else
      tile.add(block, state, options_.skip);
  }

  void run_dense() {
    const Shape& shape = inputs_.shape;
    KeyStore<Real> store(context_);
    const ScoreBound<Real> bound(context_, options_.epsilon);
    const bool merges = ForwardTile<Real>::merges(plan_, outputs_) && !bound.enabled() && !inputs_.lists;
    const int64_t extra =
        merges ? ForwardTile<Real>(context_).merged_size((shape.keys + kTileKeys - 1) / kTileKeys) : 0;
    const int64_t tiles = (shape.queries + kTileRows - 1) / kTileRows, pairs = shape.batch * shape.key_heads;
    // The longest tiles first, so that no thread is left with a long one at the end.
    std::vector<int64_t> order(static_cast<size_t>(tiles));
    std::iota(order.begin(), order.end(), int64_t{0});
    const TileMap<Real> map(plan_, shape);
    const auto work = [&](int64_t tile) { return map.keys_of(queries_of(tile)).size(); };
    std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return work(a) > work(b); });
    for (int64_t first = 0; first < pairs; first += store.capacity()) {
      const int64_t count = std::min(store.capacity(), pairs - first);
      store.pack(first, count);
      for_units(count * shape.group() * tiles, extra,
                [&](ForwardTile<Real>& tile, int64_t unit, Real* memory) {
                  const int64_t pair = first + unit / (tiles * shape.group());
                  const int64_t head = pair % shape.key_heads * shape.group() + unit / tiles % shape.group();
                  const Range queries = queries_of(order[static_cast<size_t>(unit % tiles)]);
                  tile.begin(pair / shape.key_heads, head, 1, queries);
                  const Range keys = options_.skip ? map.keys_of(queries) : Range{0, shape.keys};
                  const std::vector<int64_t> walked = key_order(keys, queries);
                  const int64_t outside =
                      (shape.keys + kTileKeys - 1) / kTileKeys - static_cast<int64_t>(walked.size());
                  tiles_ += outside;
                  empty_ += outside;
                  if (merges) {
                    std::vector<KeyBlock<Real>> blocks;
                    std::vector<TileState> states;
                    for (const int64_t key : walked) {
                      KeyBlock<Real> block;
                      store.fill(block, pair, key, std::min(kTileKeys, shape.keys - key));
                      const TileState state = state_of(tile, block, queries);
                      ++tiles_;
                      if (state == TileState::empty) {
                        ++empty_;
                        continue;
                      }
                      blocks.push_back(block);
                      states.push_back(state);
                    }
                    tile.run_merged(blocks, states, options_.skip, memory, outputs_);
                    return;
                  }
                  KeyBlock<Real> block;
                  ListMask<Real> lists(inputs_.lists);
                  for (const int64_t key : walked) {
                    const int64_t size = std::min(kTileKeys, shape.keys - key);
                    if (inputs_.lists) {
                      const TileState state =
                          lists.find(pair / shape.key_heads, {head, head + 1}, queries, Columns{key, size});
                      block.lists = state == TileState::full ? nullptr : &lists;
                      if (state == TileState::empty) {
                        ++tiles_;
                        ++empty_;
                        continue;
                      }
                    }
                    if (bound.negligible(pair / shape.key_heads, head, queries, {key, key + size},
                                         bound.enabled() ? tile.lowest_maxima() : std::vector<Real>{})) {
                      ++tiles_;
                      ++negligible_;
                      continue;
                    }
                    store.fill(block, pair, key, size);
                    add(tile, block, queries);
                  }
                  tile.finish(outputs_);
                });
    }
  }

  // The beginnings of the key blocks of a range. With an epsilon the nearest come first: where weights decay
  // with the distance, the largest are known early and the rest can be left out.
  std::vector<int64_t> key_order(Range keys, Range queries) const {
    std::vector<int64_t> order;
    for (int64_t key = keys.begin / kTileKeys * kTileKeys; key < keys.end; key += kTileKeys)
      order.push_back(key);
    if (options_.epsilon > 0) {
      const int64_t diagonal = queries.begin + inputs_.shape.offset - inputs_.shape.first_key - kTileKeys / 2;
      std::ranges::stable_sort(
          order, [&](int64_t a, int64_t b) { return std::abs(a - diagonal) < std::abs(b - diagonal); });
    }
    return order;
  }

  Range queries_of(int64_t tile) const {
    return {tile * kTileRows, std::min((tile + 1) * kTileRows, inputs_.shape.queries)};
  }

  void run_stacked() {
    const Shape& shape = inputs_.shape;
    const int64_t pairs = shape.batch * shape.key_heads;
    const KeyPacker<Real> packer(context_);
    const bool few = packer.few(shape.group() * shape.queries);
    const StackedKeys keys(inputs_);
    // The units of a pair, one for each chunk of its keys, follow each other.
    std::vector<int64_t> first_unit{0};
    for (int64_t pair = 0; pair < pairs; ++pair)
      first_unit.push_back(first_unit.back() +
                           std::max<int64_t>(1, (keys.count(pair) + kChunkKeys - 1) / kChunkKeys));
    const int64_t units = first_unit.back(), each = ForwardTile<Real>(context_).state_size();
    const auto alone = [&](int64_t pair) { return first_unit[pair + 1] - first_unit[pair] == 1; };
    const Workspace states(units > pairs ? static_cast<size_t>(each * units) * sizeof(Real) : 1);
    auto* saved = reinterpret_cast<Real*>(states.data());
    for_units(units, packer.size(), [&](ForwardTile<Real>& tile, int64_t unit, Real* scratch) {
      const int64_t pair = std::ranges::upper_bound(first_unit, unit) - first_unit.begin() - 1;
      begin_stacked(tile, pair, few);
      const int64_t first = (unit - first_unit[pair]) * kChunkKeys;
      walk_stacked(tile, packer, pair, {first, std::min(first + kChunkKeys, keys.count(pair))},
                   keys.numbers(pair), few, scratch);
      if (alone(pair))
        tile.finish(outputs_);
      else
        tile.save(saved + unit * each);
    });
    if (units == pairs) return;
    for_units(pairs, 0, [&](ForwardTile<Real>& tile, int64_t pair, Real*) {
      if (alone(pair)) return;
      begin_stacked(tile, pair, few);
      for (int64_t unit = first_unit[pair]; unit < first_unit[pair + 1]; ++unit)
        tile.absorb(saved + unit * each);
      tile.finish(outputs_);
    });
  }

  // The keys with these numbers, a block at a time; without numbers, neighbours, of which the mask may leave
  // only some.
  void walk_stacked(ForwardTile<Real>& tile, const KeyPacker<Real>& packer, int64_t pair, Range chunk,
                    const int32_t* numbers, bool few, Real* scratch) {
    const Shape& shape = inputs_.shape;
    const Range queries{0, shape.queries};
    const int64_t batch = pair / shape.key_heads, first_head = pair % shape.key_heads * shape.group();
    const Range reach = options_.skip && !numbers ? tile.map().keys_of(queries) : Range{0, shape.keys};
    KeyBlock<Real> block;
    ListMask<Real> lists(inputs_.lists);
    for (int64_t key = chunk.begin; key < std::min(chunk.end, reach.end); key += kTileKeys) {
      if (key + kTileKeys <= reach.begin) continue;
      const int64_t count = std::min(kTileKeys, chunk.end - key);
      // Of one head the numbers are the list itself.
      if (inputs_.lists && !(numbers && shape.group() == 1)) {
        const Columns columns{key, count, numbers ? numbers + key : nullptr};
        const TileState state = lists.find(batch, {first_head, first_head + shape.group()}, queries, columns);
        block.lists = state == TileState::full ? nullptr : &lists;
        if (state == TileState::empty) {
          ++tiles_;
          ++empty_;
          continue;
        }
      }
      if (numbers)
        packer.pick(block, pair, numbers + key, count, few, scratch);
      else
        packer.pack(block, pair, {key, key + count}, few, scratch);
      add(tile, block, queries);
    }
  }

  void begin_stacked(ForwardTile<Real>& tile, int64_t pair, bool few) {
    const Shape& shape = inputs_.shape;
    tile.begin(pair / shape.key_heads, pair % shape.key_heads * shape.group(), shape.group(),
               {0, shape.queries}, few);
  }

  void run_listed() {
    const Shape& shape = inputs_.shape;
    const Lists& lists = inputs_.lists;
    // Key tiles of whole panels are read from keys that are packed once; others are picked key by key.
    const bool whole = lists.key_tile % context_.code.panel == 0;
    const KeyPacker<Real> packer(context_);
    KeyStore<Real> store(context_);
    const int64_t tiles = (shape.queries + lists.query_tile - 1) / lists.query_tile,
                  pairs = shape.batch * shape.key_heads, wave = whole ? store.capacity() : pairs;
    for (int64_t first_pair = 0; first_pair < pairs; first_pair += wave) {
      const int64_t members = std::min(wave, pairs - first_pair) * shape.group();
      if (whole) store.pack(first_pair, members / shape.group());
      for_units(members * tiles, packer.size() + kTileKeys,
                [&](ForwardTile<Real>& tile, int64_t unit, Real* scratch) {
                  const int64_t global = first_pair * shape.group() + unit / tiles,
                                batch = global / shape.heads, head = global % shape.heads,
                                number = tiles - 1 - unit % tiles;
                  const Range queries{number * lists.query_tile,
                                      std::min((number + 1) * lists.query_tile, shape.queries)};
                  for (int64_t first = queries.begin; first < queries.end; first += kTileRows) {
                    const Range part{first, std::min(first + kTileRows, queries.end)};
                    tile.begin(batch, head, 1, part, !whole && packer.few(part.size()));
                    if (whole)
                      walk_tiles(tile, store, batch, head, number, part);
                    else
                      walk_list(tile, packer, batch, head, number, part, scratch);
                    tile.finish(outputs_);
                  }
                });
    }
  }

  // Runs of neighbouring key tiles, as blocks of neighbouring keys.
  void walk_tiles(ForwardTile<Real>& tile, const KeyStore<Real>& store, int64_t batch, int64_t head,
                  int64_t number, Range queries) {
    const Shape& shape = inputs_.shape;
    const Lists& lists = inputs_.lists;
    const int32_t* starts = lists.starts + batch * lists.batch_stride + head * lists.head_stride;
    const int64_t pair = batch * shape.key_heads + head / shape.group();
    KeyBlock<Real> block;
    for (int64_t entry = starts[number]; entry < starts[number + 1];) {
      int64_t next = entry + 1;
      while (next < starts[number + 1] && lists.keys[next] == lists.keys[next - 1] + 1) ++next;
      const int64_t begin = lists.keys[entry] * lists.key_tile,
                    end = std::min((lists.keys[next - 1] + 1) * lists.key_tile, shape.keys);
      for (int64_t key = begin; key < end; key += kTileKeys) {
        store.fill(block, pair, key, std::min(kTileKeys, end - key));
        add(tile, block, queries);
      }
      entry = next;
    }
  }

  // Blocks of picked keys.
  void walk_list(ForwardTile<Real>& tile, const KeyPacker<Real>& packer, int64_t batch, int64_t head,
                 int64_t number, Range queries, Real* scratch) {
    const Shape& shape = inputs_.shape;
    const Lists& lists = inputs_.lists;
    auto* picked = reinterpret_cast<int32_t*>(scratch + packer.size());
    const int64_t pair = batch * shape.key_heads + head / shape.group();
    KeyBlock<Real> block;
    for_picked(lists, batch, head, number, shape.keys, kTileKeys, context_.code.panel, picked,
               [&](int64_t count) {
                 packer.pick(block, pair, picked, count, packer.few(queries.size()), scratch);
                 add(tile, block, queries);
               });
  }

  const KernelPlan& plan_;
  const Inputs& inputs_;
  const ForwardOptions& options_;
  const ForwardOutputs& outputs_;
  CallContext<Real> context_;
  std::atomic<int64_t> tiles_{0}, empty_{0}, negligible_{0};
};

}  // namespace

template <class Real>
ForwardReport forward(const KernelPlan& plan, const Inputs& inputs, const ForwardOptions& options,
                      const ForwardOutputs& outputs) {
  return Forward<Real>(plan, inputs, options, outputs).run();
}

template ForwardReport forward<float>(const KernelPlan&, const Inputs&, const ForwardOptions&,
                                      const ForwardOutputs&);
template ForwardReport forward<double>(const KernelPlan&, const Inputs&, const ForwardOptions&,
                                       const ForwardOutputs&);

}  // namespace saccade::kernels
