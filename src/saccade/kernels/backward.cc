// Divides a backward pass into units. A unit owns a fixed share of the key tiles of one key head: it sums the
// gradients of those keys and values alone, and has its own partial sums for queries and tables, which are
// added up afterwards in a fixed order. The shares depend on the shape only, never on the number of threads.
// With key lists the roles are exchanged: a unit owns query tiles and has partial sums for keys and values.
#include <omp.h>

#include "saccade/base/error.h"
#include "saccade/kernels/backward_wave.h"
#include "saccade/kernels/denormals.h"
#include "saccade/kernels/list_walk.h"
#include "saccade/kernels/score_bound.h"
#include "saccade/kernels/unit_queue.h"

namespace saccade::kernels {
namespace {

constexpr int64_t kNearBytes = int64_t{768} << 10;  // of key tiles that are worked on together
constexpr int64_t kMostTogether = 4;

template <class Real>
class Backward {
 public:
  Backward(const KernelPlan& plan, const Inputs& inputs, const ForwardOptions& options,
           const BackwardInputs& saved, const Gradients& gradients)
      : plan_(plan),
        inputs_(inputs),
        options_(options),
        gradients_(gradients),
        shape_(inputs.shape),
        context_(plan, inputs),
        adjoint_slots_(plan.adjoint, plan.plan, shape_),
        code_(context_.code),
        wave_(context_, saved, gradients) {}

  void run() {
    if (shape_.batch * shape_.heads == 0) return;
    context_.prepare();
#pragma omp parallel for schedule(dynamic)
    for (int64_t entry = 0; entry < adjoint_slots_.entries(); ++entry) adjoint_slots_.prepare(inputs_, entry);
    wave_.prepare();
    bound_ = std::make_unique<ScoreBound<Real>>(context_, options_.epsilon);
    const int64_t all = shape_.batch * shape_.key_heads;
    for (int64_t first = 0; first < all; first += wave_.most_pairs()) {
      const int64_t pairs = std::min(wave_.most_pairs(), all - first);
      const Workspace memory(wave_.bytes(pairs));
      wave_.begin(first, pairs, memory.data());
      if (wave_.gathers())
        run_listed(pairs * shape_.group());
      else
        run_dense(first, pairs);
      wave_.add_up();
    }
  }

 private:
  // Keys and values of a tile in all layouts, and sums of their gradients.
  struct KeyMemory {
    std::vector<Real*> panels, rows, gradients;
    Real* value_panels = nullptr;
    Real* value_rows = nullptr;
    Real* value_gradient = nullptr;
    int64_t size = 0;
  };
  KeyMemory key_memory(Real* memory) const {
    KeyMemory result;
    const auto take = [&](int64_t count) {
      Real* piece = memory ? memory + result.size : nullptr;
      result.size += round_up(count, 16);
      return piece;
    };
    const int64_t keys = round_up(kBackwardKeys, code_.panel);
    for (const Array& array : inputs_.keys) {
      const int64_t width = array ? wave_.columns(array) : 0;
      result.panels.push_back(take(keys * width));
      result.rows.push_back(take(array ? keys * copy_stride<Real>(array.width) : 0));
      result.gradients.push_back(take(keys * width));
    }
    result.value_panels = take(keys * context_.value_columns);
    result.value_rows = take(keys * copy_stride<Real>(inputs_.value.width));
    result.value_gradient = take(keys * context_.value_columns);
    return result;
  }

  // Fills the keys of a tile: neighbours from `first` on, or those picked.
  void load_keys(BackwardKeys<Real>& keys, const KeyMemory& memory, int64_t pair, int64_t first,
                 int64_t count, const int32_t* picked) const {
    const int64_t batch = pair / shape_.key_heads, head = pair % shape_.key_heads;
    const Real* real = context_.real_keys(batch);
    keys.first = first;
    keys.count = count;
    keys.picked = picked;
    keys.panels.assign(inputs_.keys.size(), nullptr);
    keys.rows.assign(inputs_.keys.size(), nullptr);
    keys.row_strides.assign(inputs_.keys.size(), 0);
    keys.key_gradients.assign(inputs_.keys.size(), nullptr);
    // `again`: the rows are read later, too; otherwise only the panels are.
    const auto bring = [&](const Array& array, Real* copy, bool again) -> PlainRows<Real> {
      const int64_t stride = copy_stride<Real>(array.width);
      if (!picked && !real && (again ? in_place<Real>(array) : readable<Real>(array)))
        return {reinterpret_cast<const Real*>(row_address(array, batch, head, first)), array.token_stride};
      if (!picked) load_rows(array, batch, head, {first, first + count}, real, copy, stride);
      for (int64_t k = 0; picked && k < count; ++k)
        load_rows(array, batch, head, {picked[k], picked[k] + 1}, real, copy + k * stride, stride);
      return {copy, stride};
    };
    // `scored`: the array as the products with panels read it.
    const auto load = [&](const Array& array, const Array& scored, Real* copy, Real* panels, bool again) {
      const bool same = scored.width == array.width;
      const PlainRows<Real> rows = bring(scored, copy, again && same);
      for (int64_t k = 0; k < count; k += code_.panel)
        code_.transpose(rows.data + k * rows.stride, rows.stride, std::min(code_.panel, count - k),
                        scored.width, panels + k * scored.width, code_.panel, code_.panel);
      return again && !same ? bring(array, copy, again) : rows;
    };
    for (size_t index = 0; index < inputs_.keys.size(); ++index) {
      const Array& array = inputs_.keys[index];
      if (!array) continue;
      const PlainRows<Real> rows =
          load(array, context_.score_keys[index], memory.rows[index], memory.panels[index], true);
      keys.panels[index] = memory.panels[index];
      keys.rows[index] = rows.data;
      keys.row_strides[index] = rows.stride;
      if (!gradients_.keys[index]) continue;
      keys.key_gradients[index] = memory.gradients[index];
      std::fill_n(memory.gradients[index], count * wave_.columns(array), Real{0});
    }
    load(inputs_.value, wave_.score_value(), memory.value_rows, memory.value_panels, false);
    keys.value_panels = memory.value_panels;
    keys.value_gradient = gradients_.value ? memory.value_gradient : nullptr;
    std::fill_n(memory.value_gradient, count * context_.value_columns, Real{0});
  }

  // The same without copies. Places past the last key, up to the end of its panel, name one that exists.
  void point_at_keys(BackwardKeys<Real>& keys, int64_t pair, int64_t count, const int32_t* picked) const {
    const int64_t batch = pair / shape_.key_heads, head = pair % shape_.key_heads;
    keys.count = count;
    keys.picked = picked;
    keys.few = true;
    const auto point = [&](const Array& array, std::vector<const Real*>& rows) {
      const auto* base = reinterpret_cast<const Real*>(row_address(array, batch, head, 0));
      rows.clear();
      for (int64_t k = 0; k < round_up(count, code_.panel); ++k)
        rows.push_back(base + picked[k] * array.token_stride);
    };
    keys.single_rows.resize(inputs_.keys.size());
    for (size_t index = 0; index < inputs_.keys.size(); ++index)
      if (inputs_.keys[index]) point(inputs_.keys[index], keys.single_rows[index]);
    point(inputs_.value, keys.single_values);
  }

  template <class Work>
  void for_units(int64_t units, int64_t extra, const Work& work) {
    const int threads =
        single_thread() ? 1 : static_cast<int>(std::min<int64_t>(omp_get_max_threads(), units));
    const BackwardTile<Real> sample(context_, adjoint_slots_, gradients_);
    const int64_t each = round_up(sample.size() + key_memory(nullptr).size + extra, 1024) + 64;
    const Workspace memory(static_cast<size_t>(each * threads) * sizeof(Real));
    auto* numbers = reinterpret_cast<Real*>(memory.data());
    UnitQueue queue(units, threads);
#pragma omp parallel num_threads(threads)
    {
      const FlushDenormals flush;
      BackwardTile<Real> tile(context_, adjoint_slots_, gradients_);
      const int thread = omp_get_thread_num();
      Real* mine = numbers + thread * each;
      tile.bind(mine);
      const KeyMemory keys = key_memory(mine + tile.size());
      for (int64_t unit = queue.take(thread); unit >= 0; unit = queue.take(thread))
        work(tile, keys, unit, mine + tile.size() + keys.size);
    }
  }

  // A table read per pair is added to directly. Unless every unit has its own part of it, one thread does
  // all.
  bool single_thread() const {
    for (const Target& target : plan_.targets) {
      if (target.rate != Rate::tile || target.product >= 0) continue;
      const Gradients::TableGradient& table = gradients_.tables[static_cast<size_t>(target.table)];
      if (!table.data) continue;
      const Graph& graph = plan_.plan.graph;
      bool by_column = false;
      for (NodeId subscript : graph[target.node].args)
        by_column |= graph[subscript].op == Op::variable &&
                     graph[subscript].symbol == static_cast<int32_t>(Variable::j);
      const bool own =
          (table.batch_stride != 0 || shape_.batch == 1) && (table.head_stride != 0 || shape_.heads == 1);
      if (!own || !by_column || wave_.gathers()) return true;
    }
    return false;
  }

  // Key tiles are taken a few at a time, as many as fit into the second cache: a tile of queries, its
  // gradients and sums come from far once for all of them.
  void run_dense(int64_t first_pair, int64_t pairs) {
    const int64_t tiles = (shape_.keys + kBackwardKeys - 1) / kBackwardKeys;
    const int64_t each = key_memory(nullptr).size;
    const int64_t together = std::clamp<int64_t>(
        kNearBytes / (each * static_cast<int64_t>(sizeof(Real))), 1,
        std::clamp<int64_t>((tiles + wave_.chunks() - 1) / wave_.chunks(), 1, kMostTogether));
    for_units(pairs * wave_.chunks(), (together - 1) * each,
              [&](BackwardTile<Real>& tile, const KeyMemory& memory, int64_t unit, Real* more) {
                const int64_t pair = unit / wave_.chunks(), chunk = unit % wave_.chunks();
                std::vector<BackwardQueries<Real>> heads;
                for (int64_t member = 0; member < shape_.group(); ++member) {
                  const int64_t local = pair * shape_.group() + member;
                  heads.push_back(wave_.begin_unit(local, chunk));
                }
                std::vector<KeyMemory> memories{memory};
                for (int64_t number = 1; number < together; ++number)
                  memories.push_back(key_memory(more + (number - 1) * each));
                std::vector<BackwardKeys<Real>> group;
                ListMask<Real> lists(inputs_.lists);
                const auto flush = [&] {
                  for (const BackwardQueries<Real>& head : heads) walk_queries(tile, head, group, lists);
                  for (const BackwardKeys<Real>& keys : group) store_keys(keys, first_pair + pair);
                  group.clear();
                };
                for (int64_t number = 0; number < tiles; ++number) {
                  // To and fro, so that long and short tiles are shared out evenly.
                  const int64_t turn = number % (2 * wave_.chunks());
                  if ((turn < wave_.chunks() ? turn : 2 * wave_.chunks() - 1 - turn) != chunk) continue;
                  const int64_t first = number * kBackwardKeys,
                                count = std::min(kBackwardKeys, shape_.keys - first);
                  const KeyMemory& free = memories[group.size()];
                  load_keys(group.emplace_back(), free, first_pair + pair, first, count, nullptr);
                  if (static_cast<int64_t>(group.size()) == together) flush();
                }
                flush();
              });
  }

  void walk_queries(BackwardTile<Real>& tile, const BackwardQueries<Real>& head,
                    std::vector<BackwardKeys<Real>>& group, ListMask<Real>& lists) const {
    Range looking{shape_.queries, 0};
    for (const BackwardKeys<Real>& keys : group) {
      const Range own = looking_at(tile, keys);
      looking = {std::min(looking.begin, own.begin), std::max(looking.end, own.end)};
    }
    for (int64_t query = looking.begin / kBackwardQueries * kBackwardQueries; query < looking.end;
         query += kBackwardQueries)
      for (BackwardKeys<Real>& keys : group) {
        const Range queries{query, std::min(query + kBackwardQueries, shape_.queries)};
        const Range own = looking_at(tile, keys);
        if (queries.end > own.begin && queries.begin < own.end) run_tile(tile, head, queries, keys, lists);
      }
  }

  Range looking_at(BackwardTile<Real>& tile, const BackwardKeys<Real>& keys) const {
    return options_.skip ? tile.map().queries_of({keys.first, keys.first + keys.count})
                         : Range{0, shape_.queries};
  }

  TileState state_of(BackwardTile<Real>& tile, const BackwardQueries<Real>& head, Range queries,
                     const Columns& keys) const {
    if (!options_.skip || !tile.map().decides(keys.picked))
      return plan_.masked ? TileState::mixed : TileState::full;
    return tile.map().state(context_.mask_slots.at(head.batch, head.head), queries, keys.keys());
  }

  void run_tile(BackwardTile<Real>& tile, const BackwardQueries<Real>& head, Range queries,
                BackwardKeys<Real>& keys, ListMask<Real>& lists) const {
    const Range key_range = keys.keys();
    const TileState state = state_of(tile, head, queries, keys);
    if (state == TileState::empty) return;
    if (bound_->enabled() &&
        bound_->negligible(head.batch, head.head, queries, key_range, lowest_log_sums(head, queries)))
      return;
    if (inputs_.lists) {
      const TileState listed = lists.find(head.batch, {head.head, head.head + 1}, queries, keys);
      if (listed == TileState::empty) return;
      keys.lists = listed == TileState::full ? nullptr : &lists;
    }
    tile.run(head, queries, keys, state, options_.skip);
  }

  // A log-sum is at least the largest argument of its row.
  std::vector<Real> lowest_log_sums(const BackwardQueries<Real>& head, Range queries) const {
    std::vector<Real> lowest;
    for (size_t term = 0; term < plan_.terms.size(); ++term) {
      const Real* sums = head.log_sums + static_cast<int64_t>(term) * shape_.queries;
      lowest.push_back(*std::min_element(sums + queries.begin, sums + queries.end));
    }
    return lowest;
  }

  void store_keys(const BackwardKeys<Real>& keys, int64_t pair) const {
    const int64_t batch = pair / shape_.key_heads, head = pair % shape_.key_heads;
    const Real* real = context_.real_keys(batch);
    // What padding holds is nobody's business, not even the gradient's.
    const auto store = [&](const Array& array, Real* sums, Real scale) {
      store_rows(sums, wave_.columns(array), scale, real, array, batch, head,
                 {keys.first, keys.first + keys.count});
    };
    for (size_t index = 0; index < inputs_.keys.size(); ++index)
      if (keys.key_gradients[index])
        store(gradients_.keys[index], keys.key_gradients[index], wave_.scale_of_key(index));
    if (keys.value_gradient) store(gradients_.value, keys.value_gradient, Real{1});
  }

  void run_listed(int64_t heads) {
    const Lists& lists = inputs_.lists;
    const int64_t tiles = (shape_.queries + lists.query_tile - 1) / lists.query_tile;
    for_units(heads * wave_.chunks(), kBackwardKeys,
              [&](BackwardTile<Real>& tile, const KeyMemory& memory, int64_t unit, Real* scratch) {
                const int64_t local = unit / wave_.chunks(), chunk = unit % wave_.chunks();
                const BackwardQueries<Real> head = wave_.begin_unit(local, chunk);
                for (int64_t number = 0; number < tiles; ++number) {
                  const int64_t turn = number % (2 * wave_.chunks());
                  if ((turn < wave_.chunks() ? turn : 2 * wave_.chunks() - 1 - turn) != chunk) continue;
                  walk_list(tile, memory, head, local, chunk, number, reinterpret_cast<int32_t*>(scratch));
                }
              });
  }

  void walk_list(BackwardTile<Real>& tile, const KeyMemory& memory, const BackwardQueries<Real>& head,
                 int64_t local, int64_t chunk, int64_t number, int32_t* picked) const {
    const Lists& lists = inputs_.lists;
    const int64_t pair = head.batch * shape_.key_heads + head.head / shape_.group();
    const Range queries{number * lists.query_tile, std::min((number + 1) * lists.query_tile, shape_.queries)};
    BackwardKeys<Real> keys;
    for_picked(lists, head.batch, head.head, number, shape_.keys, kBackwardKeys, code_.panel, picked,
               [&](int64_t count) {
                 if (wave_.few()) {
                   point_at_keys(keys, pair, count, picked);
                   wave_.point_at_sums(keys, local, chunk);
                 } else {
                   load_keys(keys, memory, pair, 0, count, picked);
                 }
                 for (int64_t query = queries.begin; query < queries.end; query += kBackwardQueries) {
                   const Range part{query, std::min(query + kBackwardQueries, queries.end)};
                   const TileState state = state_of(tile, head, part, keys);
                   if (state != TileState::empty) tile.run(head, part, keys, state, options_.skip);
                 }
                 if (!wave_.few()) wave_.scatter_keys(keys, local, chunk);
               });
  }

  const KernelPlan& plan_;
  const Inputs& inputs_;
  const ForwardOptions& options_;
  const Gradients& gradients_;
  const Shape& shape_;
  CallContext<Real> context_;
  SlotTable<Real> adjoint_slots_;
  const Primitives<Real>& code_;
  BackwardWave<Real> wave_;
  std::unique_ptr<ScoreBound<Real>> bound_;
};

}  // namespace

template <class Real>
void backward(const KernelPlan& plan, const Inputs& inputs, const ForwardOptions& options,
              const BackwardInputs& saved, const Gradients& gradients) {
  Backward<Real>(plan, inputs, options, saved, gradients).run();
}

template void backward<float>(const KernelPlan&, const Inputs&, const ForwardOptions&, const BackwardInputs&,
                              const Gradients&);
template void backward<double>(const KernelPlan&, const Inputs&, const ForwardOptions&, const BackwardInputs&,
                               const Gradients&);

}  // namespace saccade::kernels
