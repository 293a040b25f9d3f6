// Divides a backward pass into units. A unit owns a fixed share of the key tiles of one key head: it sums the
// gradients of those keys and values alone, and has its own partial sums for queries and tables, which are
// added up afterwards in a fixed order. The shares depend on the shape only, never on the number of threads.
// With key lists the roles are exchanged: a unit owns query tiles and has partial sums for keys and values.
#include <omp.h>

#include <atomic>
#include <cmath>

#include "saccade/base/error.h"
#include "saccade/kernels/backward_tile.h"
#include "saccade/kernels/denormals.h"
#include "saccade/kernels/score_bound.h"
#include "saccade/kernels/table_gradients.h"

namespace saccade::kernels {
namespace {

constexpr int64_t kUnits = 8;                       // at least so many units, where there is that much work
constexpr int64_t kWaveBytes = int64_t{256} << 20;  // of packed vectors and partial sums at a time

template <class Real>
class Backward {
 public:
  Backward(const KernelPlan& plan, const Inputs& inputs, const ForwardOptions& options,
           const BackwardInputs& saved, const Gradients& gradients)
      : plan_(plan),
        inputs_(inputs),
        options_(options),
        saved_(saved),
        gradients_(gradients),
        shape_(inputs.shape),
        context_(plan, inputs),
        adjoint_slots_(plan.adjoint, plan.plan, shape_),
        chain_slots_(plan.chain, plan.plan, shape_),
        code_(primitives<Real>()) {}

  void run() {
    if (shape_.batch * shape_.heads == 0) return;
    context_.prepare();
    prepare_slots(adjoint_slots_);
    if (wants_chain()) prepare_slots(chain_slots_);
    lay_out();
    bound_ = std::make_unique<ScoreBound<Real>>(context_, options_.epsilon);
    const int64_t pairs = shape_.batch * shape_.key_heads;
    for (int64_t first = 0; first < pairs; first += wave_) run_wave(first, std::min(wave_, pairs - first));
  }

 private:
  void prepare_slots(SlotTable<Real>& table) {
#pragma omp parallel for schedule(dynamic)
    for (int64_t entry = 0; entry < table.entries(); ++entry) table.prepare(inputs_, entry);
  }

  bool wants_chain() const {
    bool any = false;
    for (const Target& target : plan_.targets) any |= wants(target.links, gradients_);
    for (const RowTarget& target : plan_.row_targets) any |= wants(target.links, gradients_);
    return any;
  }

  bool gathers() const { return inputs_.lists && inputs_.lists.gather; }
  int64_t columns(const Array& array) const { return round_up(array.width, code_.lanes); }
  int64_t sum_length(const Target& target) const {
    switch (target.rate) {
      case Rate::row:
        return shape_.queries;
      case Rate::column:
        return shape_.keys;
      case Rate::diagonal:
        return shape_.distances();
      case Rate::constant:
      case Rate::head:
        return 1;
      case Rate::tile:
        break;
    }
    return 0;
  }

  // Sizes of the pieces of a wave's memory, in numbers. A head has its packed queries; a unit's head its
  // partial sums; a listed unit's head also partial gradients of keys and values.
  void lay_out() {
    for (const Array& array : inputs_.queries) {
      strip_offsets_.push_back(head_size_);
      if (array) head_size_ += round_up(shape_.queries * array.width, 16);
      row_offsets_.push_back(head_size_);
      if (array && !in_place<Real>(array)) head_size_ += shape_.queries * columns(array);
    }
    gradient_strips_ = head_size_;
    head_size_ += round_up(shape_.queries * inputs_.value.width, 16);
    gradient_rows_ = head_size_;
    if (!in_place<Real>(saved_.output_gradient)) head_size_ += shape_.queries * context_.value_columns;
    log_sums_ = head_size_;
    head_size_ += round_up(static_cast<int64_t>(plan_.terms.size()) * shape_.queries, 16);
    deltas_ = head_size_;
    head_size_ += round_up(static_cast<int64_t>(plan_.terms.size()) * shape_.queries, 16) + 64;

    for (const Array& array : inputs_.queries) {
      query_sums_.push_back(part_size_);
      if (array) part_size_ += shape_.queries * columns(array);
    }
    for (const Target& target : plan_.targets) {
      target_sums_.push_back(part_size_ + kSlotPadding);
      if (sum_length(target) > 0 && wants(target.links, gradients_))
        part_size_ += round_up(sum_length(target) + 2 * kSlotPadding, 16);
    }
    if (gathers()) {
      for (const Array& array : inputs_.keys) {
        key_sums_.push_back(part_size_);
        if (array) part_size_ += shape_.keys * columns(array);
      }
      value_sums_ = part_size_;
      part_size_ += shape_.keys * context_.value_columns;
    }
    part_size_ += 64;

    const int64_t pairs = shape_.batch * shape_.key_heads;
    const int64_t tiles = gathers()
                              ? (shape_.queries + inputs_.lists.query_tile - 1) / inputs_.lists.query_tile
                              : (shape_.keys + kBackwardKeys - 1) / kBackwardKeys;
    const int64_t owners = gathers() ? shape_.batch * shape_.heads : pairs;
    chunks_ = std::clamp<int64_t>((kUnits + owners - 1) / owners, 1, std::max<int64_t>(tiles, 1));
    const int64_t pair_bytes =
        shape_.group() * (head_size_ + chunks_ * part_size_) * static_cast<int64_t>(sizeof(Real));
    wave_ = std::clamp<int64_t>(kWaveBytes / pair_bytes, 1, pairs);
  }

  // --- memory of a wave ---
  Real* head_memory(int64_t local_head) const { return heads_ + local_head * head_size_; }
  Real* part_memory(int64_t local_head, int64_t chunk) const {
    return parts_ + (local_head * chunks_ + chunk) * part_size_;
  }

  void run_wave(int64_t first_pair, int64_t pairs) {
    const int64_t heads = pairs * shape_.group();
    const Workspace memory(static_cast<size_t>(heads * (head_size_ + chunks_ * part_size_)) * sizeof(Real));
    heads_ = reinterpret_cast<Real*>(memory.data());
    parts_ = heads_ + heads * head_size_;
    first_head_ = first_pair * shape_.group();
    load_heads(heads);
    if (gathers())
      run_listed(heads);
    else
      run_dense(first_pair, pairs);
    gather(first_pair, pairs);
  }

  // Rows as plain numbers: where they are, if they can be read there, otherwise in the copy.
  struct Rows {
    const Real* data = nullptr;
    int64_t stride = 0;
  };
  Rows rows_of(const Array& array, int64_t batch, int64_t head, const Real* copy) const {
    if (in_place<Real>(array))
      return {reinterpret_cast<const Real*>(row_address(array, batch, head, 0)), array.token_stride};
    return {copy, columns(array)};
  }

  BackwardQueries<Real> queries_of(int64_t local_head, int64_t chunk) const {
    const int64_t head = first_head_ + local_head;
    const Real* memory = head_memory(local_head);
    Real* part = part_memory(local_head, chunk);
    BackwardQueries<Real> queries;
    queries.batch = head / shape_.heads;
    queries.head = head % shape_.heads;
    for (size_t index = 0; index < inputs_.queries.size(); ++index) {
      const bool used = static_cast<bool>(inputs_.queries[index]);
      queries.strips.push_back(used ? memory + strip_offsets_[index] : nullptr);
      const Rows rows =
          used ? rows_of(inputs_.queries[index], queries.batch, queries.head, memory + row_offsets_[index])
               : Rows{};
      queries.rows.push_back(rows.data);
      queries.row_strides.push_back(rows.stride);
      queries.query_gradients.push_back(used && gradients_.queries[index] ? part + query_sums_[index]
                                                                          : nullptr);
    }
    queries.gradient_strips = memory + gradient_strips_;
    const Rows gradient =
        rows_of(saved_.output_gradient, queries.batch, queries.head, memory + gradient_rows_);
    queries.gradient_rows = gradient.data;
    queries.gradient_row_stride = gradient.stride;
    queries.log_sums = memory + log_sums_;
    queries.deltas = memory + deltas_;
    for (size_t index = 0; index < plan_.targets.size(); ++index) {
      const Target& target = plan_.targets[index];
      const bool wanted = sum_length(target) > 0 && wants(target.links, gradients_);
      queries.sums.push_back(wanted ? part + target_sums_[index] : nullptr);
    }
    return queries;
  }

  // Packs queries and output gradients of every head, and finds the deltas.
  void load_heads(int64_t heads) {
    // Strips begin anew with every block: a block must be what tiles never cross.
    const int64_t height = gathers() ? inputs_.lists.query_tile : 2 * kBackwardQueries;
    const int64_t blocks = (shape_.queries + height - 1) / height;
#pragma omp parallel
    {
      std::vector<Real> scratch(static_cast<size_t>(context_.value_columns));
#pragma omp for schedule(static)
      for (int64_t unit = 0; unit < heads * blocks; ++unit) {
        const int64_t local = unit / blocks;
        load_rows_of(local, {unit % blocks * height, std::min((unit % blocks + 1) * height, shape_.queries)},
                     scratch.data());
      }
    }
  }

  void load_rows_of(int64_t local_head, Range rows, Real* scratch) const {
    const int64_t batch = (first_head_ + local_head) / shape_.heads,
                  head = (first_head_ + local_head) % shape_.heads;
    Real* memory = head_memory(local_head);
    const auto load = [&](const Array& array, int64_t row_offset, int64_t strip_offset) {
      Real* copy = memory + row_offset;
      const Rows source = rows_of(array, batch, head, copy);
      if (source.data == copy)
        load_rows<Real>(array, batch, head, rows, nullptr, copy + rows.begin * source.stride, source.stride);
      for (int64_t row = rows.begin; row < rows.end; row += code_.rows) {
        const int64_t count = std::min(code_.rows, rows.end - row);
        code_.transpose(source.data + row * source.stride, source.stride, count, array.width,
                        memory + strip_offset + row * array.width, count, count);
      }
    };
    for (size_t index = 0; index < inputs_.queries.size(); ++index)
      if (inputs_.queries[index]) load(inputs_.queries[index], row_offsets_[index], strip_offsets_[index]);
    load(saved_.output_gradient, gradient_rows_, gradient_strips_);
    find_deltas(local_head, rows, scratch);
  }

  // Per term and row: its log-sum, and the sum over keys of weight times weight gradient, which is the
  // output's gradient times the term's output.
  void find_deltas(int64_t local_head, Range rows, Real* scratch) const {
    const int64_t batch = (first_head_ + local_head) / shape_.heads,
                  head = (first_head_ + local_head) % shape_.heads;
    const int64_t places = shape_.batch * shape_.heads * shape_.queries, width = inputs_.value.width;
    const auto* log_sums = static_cast<const Real*>(saved_.log_sums);
    const auto* log_sum_gradients = static_cast<const Real*>(saved_.log_sum_gradients);
    const auto* partials = static_cast<const Real*>(saved_.partials);
    const Slots<Real>& slots = context_.forward_slots.at(batch, head);
    Real* memory = head_memory(local_head);
    const Rows gradient = rows_of(saved_.output_gradient, batch, head, memory + gradient_rows_);
    int64_t norm = 0;
    for (size_t index = 0; index < plan_.terms.size(); ++index) {
      const Term& term = plan_.terms[index];
      for (int64_t row = rows.begin; row < rows.end; ++row) {
        const int64_t place = (batch * shape_.heads + head) * shape_.queries + row;
        const int64_t at = static_cast<int64_t>(index) * shape_.queries + row;
        memory[log_sums_ + at] = term.norm ? log_sums[norm * places + place] : Real{0};
        if (partials)
          code_.widen(partials + (static_cast<int64_t>(index) * places + place) * width, storage_of<Real>(),
                      1, width, scratch);
        else
          code_.widen(row_address(saved_.output, batch, head, row), saved_.output.storage,
                      saved_.output.feature_stride, width, scratch);
        Real delta = code_.dot(gradient.data + row * gradient.stride, scratch, context_.value_columns);
        if (term.norm && !term.inside && !term.unit) delta *= slots.scalar(term.coefficient, row);
        // What the log-sum passes on reaches the arguments in the same way, with the opposite sign.
        if (term.norm && log_sum_gradients) delta -= log_sum_gradients[norm * places + place];
        memory[deltas_ + at] = delta;
      }
      norm += term.norm.has_value();
    }
  }

  // --- units ---

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
      const int64_t width = array ? columns(array) : 0;
      result.panels.push_back(take(keys * width));
      result.rows.push_back(take(keys * width));
      result.gradients.push_back(take(keys * width));
    }
    result.value_panels = take(keys * context_.value_columns);
    result.value_rows = take(keys * context_.value_columns);
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
    const auto load = [&](const Array& array, Real* rows, Real* panels) -> Rows {
      int64_t stride = columns(array);
      const Real* source = rows;
      if (picked) {
        for (int64_t k = 0; k < count; ++k)
          load_rows(array, batch, head, {picked[k], picked[k] + 1}, real, rows + k * stride, stride);
      } else if (!real && in_place<Real>(array)) {
        source = reinterpret_cast<const Real*>(row_address(array, batch, head, first));
        stride = array.token_stride;
      } else {
        load_rows(array, batch, head, {first, first + count}, real, rows, stride);
      }
      for (int64_t k = 0; k < count; k += code_.panel)
        code_.transpose(source + k * stride, stride, std::min(code_.panel, count - k), array.width,
                        panels + k * array.width, code_.panel, code_.panel);
      return {source, stride};
    };
    for (size_t index = 0; index < inputs_.keys.size(); ++index) {
      const Array& array = inputs_.keys[index];
      if (!array) continue;
      const Rows rows = load(array, memory.rows[index], memory.panels[index]);
      keys.panels[index] = memory.panels[index];
      keys.rows[index] = rows.data;
      keys.row_strides[index] = rows.stride;
      if (!gradients_.keys[index]) continue;
      keys.key_gradients[index] = memory.gradients[index];
      std::fill_n(memory.gradients[index], count * columns(array), Real{0});
    }
    load(inputs_.value, memory.value_rows, memory.value_panels);
    keys.value_panels = memory.value_panels;
    keys.value_gradient = gradients_.value ? memory.value_gradient : nullptr;
    std::fill_n(memory.value_gradient, count * context_.value_columns, Real{0});
  }

  template <class Work>
  void for_units(int64_t units, int64_t extra, const Work& work) {
    const int threads =
        single_thread() ? 1 : static_cast<int>(std::min<int64_t>(omp_get_max_threads(), units));
    const BackwardTile<Real> sample(context_, adjoint_slots_, gradients_);
    const int64_t each = round_up(sample.size() + key_memory(nullptr).size + extra, 1024) + 64;
    const Workspace memory(static_cast<size_t>(each * threads) * sizeof(Real));
    auto* numbers = reinterpret_cast<Real*>(memory.data());
    std::atomic<int64_t> next{0};
#pragma omp parallel num_threads(threads)
    {
      const FlushDenormals flush;
      BackwardTile<Real> tile(context_, adjoint_slots_, gradients_);
      Real* mine = numbers + omp_get_thread_num() * each;
      tile.bind(mine);
      const KeyMemory keys = key_memory(mine + tile.size());
      for (int64_t unit = next++; unit < units; unit = next++)
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
      if (!own || !by_column || gathers()) return true;
    }
    return false;
  }

  void run_dense(int64_t first_pair, int64_t pairs) {
    const int64_t tiles = (shape_.keys + kBackwardKeys - 1) / kBackwardKeys;
    for_units(pairs * chunks_, 0,
              [&](BackwardTile<Real>& tile, const KeyMemory& memory, int64_t unit, Real*) {
                const int64_t pair = unit / chunks_, chunk = unit % chunks_;
                std::vector<BackwardQueries<Real>> heads;
                for (int64_t member = 0; member < shape_.group(); ++member) {
                  const int64_t local = pair * shape_.group() + member;
                  std::fill_n(part_memory(local, chunk), part_size_, Real{0});
                  heads.push_back(queries_of(local, chunk));
                }
                BackwardKeys<Real> keys;
                ListMask<Real> lists(inputs_.lists);
                for (int64_t number = 0; number < tiles; ++number) {
                  // To and fro, so that long and short tiles are shared out evenly.
                  const int64_t turn = number % (2 * chunks_);
                  if ((turn < chunks_ ? turn : 2 * chunks_ - 1 - turn) != chunk) continue;
                  const int64_t first = number * kBackwardKeys,
                                count = std::min(kBackwardKeys, shape_.keys - first);
                  load_keys(keys, memory, first_pair + pair, first, count, nullptr);
                  for (const BackwardQueries<Real>& head : heads) walk_queries(tile, head, keys, lists);
                  store_keys(keys, first_pair + pair);
                }
              });
  }

  void walk_queries(BackwardTile<Real>& tile, const BackwardQueries<Real>& head, BackwardKeys<Real>& keys,
                    ListMask<Real>& lists) const {
    const Range key_range{keys.first, keys.first + keys.count};
    const Range looking = options_.skip ? tile.map().queries_of(key_range) : Range{0, shape_.queries};
    const Slots<Real>& mask = context_.mask_slots.at(head.batch, head.head);
    for (int64_t query = looking.begin / kBackwardQueries * kBackwardQueries; query < looking.end;
         query += kBackwardQueries) {
      const Range queries{query, std::min(query + kBackwardQueries, shape_.queries)};
      TileState state = plan_.masked ? TileState::mixed : TileState::full;
      if (options_.skip) state = tile.map().state(mask, queries, key_range);
      if (state == TileState::empty) continue;
      if (bound_->enabled() &&
          bound_->negligible(head.batch, head.head, queries, key_range, lowest_log_sums(head, queries)))
        continue;
      if (inputs_.lists) {
        const TileState listed = lists.find(head.batch, head.head, queries, key_range);
        if (listed == TileState::empty) continue;
        keys.lists = listed == TileState::full ? nullptr : &lists;
      }
      tile.run(head, queries, keys, state, options_.skip);
    }
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
    const auto store = [&](const Array& array, Real* sums, Real scale) {
      const int64_t stride = columns(array);
      for (int64_t k = 0; k < keys.count; ++k) {
        Real* row = sums + k * stride;
        // What padding holds is nobody's business, not even the gradient's.
        const Real factor = real && real[keys.first + k] == 0 ? Real{0} : scale;
        code_.scale_rows(row, stride, 1, stride, &factor);
        code_.narrow(row, array.storage, array.feature_stride, array.width,
                     const_cast<std::byte*>(row_address(array, batch, head, keys.first + k)));
      }
    };
    for (size_t index = 0; index < inputs_.keys.size(); ++index)
      if (keys.key_gradients[index])
        store(gradients_.keys[index], keys.key_gradients[index], scale_of_key(index));
    if (keys.value_gradient) store(gradients_.value, keys.value_gradient, Real{1});
  }

  // Products are scaled in the end, unless heads have scales of their own.
  Real scale_of_key(size_t vector) const {
    for (size_t product = 0; product < plan_.products.size(); ++product)
      if (plan_.products[product].key_vector == static_cast<int>(vector)) return uniform_scale(product);
    return 1;
  }
  Real scale_of_query(size_t vector) const {
    for (size_t product = 0; product < plan_.products.size(); ++product)
      if (plan_.products[product].query_vector == static_cast<int>(vector)) return uniform_scale(product);
    return 1;
  }
  Real uniform_scale(size_t product) const {
    return context_.scale_varies() ? Real{1} : context_.scale(product, context_.forward_slots.at(0, 0));
  }

  void run_listed(int64_t heads) {
    const Lists& lists = inputs_.lists;
    const int64_t tiles = (shape_.queries + lists.query_tile - 1) / lists.query_tile;
    for_units(heads * chunks_, kBackwardKeys,
              [&](BackwardTile<Real>& tile, const KeyMemory& memory, int64_t unit, Real* scratch) {
                const int64_t local = unit / chunks_, chunk = unit % chunks_;
                std::fill_n(part_memory(local, chunk), part_size_, Real{0});
                const BackwardQueries<Real> head = queries_of(local, chunk);
                for (int64_t number = 0; number < tiles; ++number) {
                  const int64_t turn = number % (2 * chunks_);
                  if ((turn < chunks_ ? turn : 2 * chunks_ - 1 - turn) != chunk) continue;
                  walk_list(tile, memory, head, part_memory(local, chunk), number,
                            reinterpret_cast<int32_t*>(scratch));
                }
              });
  }

  void walk_list(BackwardTile<Real>& tile, const KeyMemory& memory, const BackwardQueries<Real>& head,
                 Real* part, int64_t number, int32_t* picked) const {
    const Lists& lists = inputs_.lists;
    const int32_t* starts = lists.starts + head.batch * lists.batch_stride + head.head * lists.head_stride;
    const int64_t pair = head.batch * shape_.key_heads + head.head / shape_.group();
    const Range queries{number * lists.query_tile, std::min((number + 1) * lists.query_tile, shape_.queries)};
    BackwardKeys<Real> keys;
    int64_t count = 0;
    const auto flush = [&] {
      if (count == 0) return;
      // Programs run over whole panels, so the places past the last key name one that exists.
      std::fill(picked + count, picked + round_up(count, code_.panel), picked[count - 1]);
      load_keys(keys, memory, pair, 0, count, picked);
      const TileState state = plan_.masked ? TileState::mixed : TileState::full;
      for (int64_t query = queries.begin; query < queries.end; query += kBackwardQueries)
        tile.run(head, {query, std::min(query + kBackwardQueries, queries.end)}, keys, state, false);
      scatter_keys(keys, part);
      count = 0;
    };
    for (int64_t entry = starts[number]; entry < starts[number + 1]; ++entry) {
      const int64_t begin = lists.keys[entry] * lists.key_tile,
                    end = std::min(begin + lists.key_tile, shape_.keys);
      for (int64_t key = begin; key < end; ++key) {
        picked[count++] = static_cast<int32_t>(key);
        if (count == kBackwardKeys) flush();
      }
    }
    flush();
  }

  void scatter_keys(const BackwardKeys<Real>& keys, Real* part) const {
    for (int64_t k = 0; k < keys.count; ++k) {
      for (size_t index = 0; index < inputs_.keys.size(); ++index) {
        if (!keys.key_gradients[index]) continue;
        const int64_t stride = columns(inputs_.keys[index]);
        code_.add(keys.key_gradients[index] + k * stride, stride,
                  part + key_sums_[index] + keys.picked[k] * stride);
      }
      const int64_t stride = context_.value_columns;
      if (keys.value_gradient)
        code_.add(keys.value_gradient + k * stride, stride, part + value_sums_ + keys.picked[k] * stride);
    }
  }

  // --- the partial sums together, in a fixed order ---

  void gather(int64_t first_pair, int64_t pairs) {
    const int64_t heads = pairs * shape_.group();
    constexpr int64_t kRows = 256;
    const auto blocks_of = [](int64_t rows) { return (rows + kRows - 1) / kRows; };
    // Gradients of vectors: the sum over the parts of one or several heads.
    const auto sum_rows = [&](const Array& array, int64_t batch, int64_t head, Range rows, int64_t offset,
                              int64_t first_local, int64_t members, Real scale, const Real* real) {
      const int64_t stride = columns(array);
      std::vector<Real> sum(static_cast<size_t>(stride));
      for (int64_t row = rows.begin; row < rows.end; ++row) {
        std::ranges::fill(sum, Real{0});
        for (int64_t member = 0; member < members; ++member)
          for (int64_t chunk = 0; chunk < chunks_; ++chunk)
            code_.add(part_memory(first_local + member, chunk) + offset + row * stride, stride, sum.data());
        const Real factor = real && real[row] == 0 ? Real{0} : scale;
        code_.scale_rows(sum.data(), stride, 1, stride, &factor);
        code_.narrow(sum.data(), array.storage, array.feature_stride, array.width,
                     const_cast<std::byte*>(row_address(array, batch, head, row)));
      }
    };
    const int64_t query_blocks = blocks_of(shape_.queries);
#pragma omp parallel for schedule(static)
    for (int64_t unit = 0; unit < heads * query_blocks; ++unit) {
      const int64_t local = unit / query_blocks, from = unit % query_blocks * kRows;
      const int64_t head = first_head_ + local;
      for (size_t index = 0; index < inputs_.queries.size(); ++index)
        if (inputs_.queries[index] && gradients_.queries[index])
          sum_rows(gradients_.queries[index], head / shape_.heads, head % shape_.heads,
                   {from, std::min(from + kRows, shape_.queries)}, query_sums_[index], local, 1,
                   scale_of_query(index), nullptr);
    }
    if (gathers()) {
      const int64_t key_blocks = blocks_of(shape_.keys);
#pragma omp parallel for schedule(static)
      for (int64_t unit = 0; unit < pairs * key_blocks; ++unit) {
        const int64_t local = unit / key_blocks, from = unit % key_blocks * kRows, pair = first_pair + local;
        const Range rows{from, std::min(from + kRows, shape_.keys)};
        const int64_t batch = pair / shape_.key_heads, head = pair % shape_.key_heads;
        const Real* real = context_.real_keys(batch);
        for (size_t index = 0; index < inputs_.keys.size(); ++index)
          if (inputs_.keys[index] && gradients_.keys[index])
            sum_rows(gradients_.keys[index], batch, head, rows, key_sums_[index], local * shape_.group(),
                     shape_.group(), scale_of_key(index), real);
        if (gradients_.value)
          sum_rows(gradients_.value, batch, head, rows, value_sums_, local * shape_.group(), shape_.group(),
                   Real{1}, real);
      }
    }
    for (int64_t local = 0; local < heads; ++local) gather_tables(local);
  }

  void gather_tables(int64_t local_head) {
    const int64_t batch = (first_head_ + local_head) / shape_.heads,
                  head = (first_head_ + local_head) % shape_.heads;
    const Slots<Real>& chain = chain_slots_.at(batch, head);
    for (size_t index = 0; index < plan_.targets.size(); ++index) {
      const Target& target = plan_.targets[index];
      if (sum_length(target) == 0 || !wants(target.links, gradients_)) continue;
      std::vector<double> adjoints(static_cast<size_t>(sum_length(target)));
      for (int64_t chunk = 0; chunk < chunks_; ++chunk) {
        const Real* part = part_memory(local_head, chunk) + target_sums_[index];
        for (size_t k = 0; k < adjoints.size(); ++k) adjoints[k] += static_cast<double>(part[k]);
      }
      add_links(target.links, chain, adjoints, inputs_, gradients_, batch, head);
    }
    for (const RowTarget& target : plan_.row_targets) {
      if (!wants(target.links, gradients_)) continue;
      add_links(target.links, chain, row_adjoints(target, local_head, batch, head), inputs_, gradients_,
                batch, head);
    }
  }

  // Of a row's coefficient: the output gradient times the term's output without it. Of a sink: minus its own
  // weight times delta.
  std::vector<double> row_adjoints(const RowTarget& target, int64_t local_head, int64_t batch,
                                   int64_t head) const {
    const Real* memory = head_memory(local_head);
    const Term& term = plan_.terms[static_cast<size_t>(target.term)];
    const Slots<Real>& slots = context_.forward_slots.at(batch, head);
    const int64_t width = inputs_.value.width, places = shape_.batch * shape_.heads * shape_.queries;
    const auto* partials = static_cast<const Real*>(saved_.partials);
    std::vector<double> adjoints(static_cast<size_t>(shape_.queries));
    for (int64_t row = 0; row < shape_.queries; ++row) {
      const int64_t at = target.term * shape_.queries + row;
      double& adjoint = adjoints[static_cast<size_t>(row)];
      if (target.sink) {
        const Real log_sum = memory[log_sums_ + at];
        if (std::isinf(log_sum)) continue;
        adjoint =
            -static_cast<double>(std::exp(slots.scalar(term.sink, row) - log_sum) * memory[deltas_ + at]);
        continue;
      }
      const Rows rows = rows_of(saved_.output_gradient, batch, head, memory + gradient_rows_);
      const Real* gradient = rows.data + row * rows.stride;
      const Real* partial =
          partials + (target.term * places + (batch * shape_.heads + head) * shape_.queries + row) * width;
      for (int64_t c = 0; c < width; ++c)
        adjoint += static_cast<double>(gradient[c]) * static_cast<double>(partial[c]);
    }
    return adjoints;
  }

  const KernelPlan& plan_;
  const Inputs& inputs_;
  const ForwardOptions& options_;
  const BackwardInputs& saved_;
  const Gradients& gradients_;
  const Shape& shape_;
  CallContext<Real> context_;
  SlotTable<Real> adjoint_slots_, chain_slots_;
  const Primitives<Real>& code_;

  std::unique_ptr<ScoreBound<Real>> bound_;
  int64_t head_size_ = 0, part_size_ = 0, chunks_ = 1, wave_ = 1;
  std::vector<int64_t> strip_offsets_, row_offsets_, query_sums_, target_sums_, key_sums_;
  int64_t gradient_strips_ = 0, gradient_rows_ = 0, log_sums_ = 0, deltas_ = 0, value_sums_ = 0;
  Real* heads_ = nullptr;
  Real* parts_ = nullptr;
  int64_t first_head_ = 0;
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
