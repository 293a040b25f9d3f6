// The order of work within a tile: for a few rows at a time all steps of a block, so that scores never leave
// the cache.
#include "saccade/kernels/forward_tile.h"

#include <cmath>

#include "saccade/base/error.h"

namespace saccade::kernels {
namespace {

constexpr int64_t kFewNumbers = 1 << 14;

}  // namespace

template <class Real>
void CallContext<Real>::prepare() {
  const int64_t masks = mask_slots.entries(), forwards = forward_slots.entries();
  const auto run = [&](int64_t entry) {
    if (entry < masks)
      mask_slots.prepare(inputs, entry);
    else
      forward_slots.prepare(inputs, entry - masks);
  };
  // A team of threads is worth calling only for tables of some size.
  if ((inputs.shape.queries + inputs.shape.keys) * (masks + forwards) < kFewNumbers) {
    for (int64_t entry = 0; entry < masks + forwards; ++entry) run(entry);
    return;
  }
#pragma omp parallel for schedule(dynamic)
  for (int64_t entry = 0; entry < masks + forwards; ++entry) run(entry);
}

template <class Real>
void CallContext<Real>::find_score_vectors() {
  score_queries = inputs.queries;
  score_keys = inputs.keys;
  scores = code.scores;
  row_scores = code.row_scores;
  bool pairs = code.pair_scores != nullptr;
  for (const std::vector<Array>* arrays : {&inputs.queries, &inputs.keys})
    for (const Array& array : *arrays) pairs &= !array || pairs_up(array);
  if (!pairs) return;
  for (std::vector<Array>* arrays : {&score_queries, &score_keys})
    for (Array& array : *arrays) array = paired(array);
  scores = code.pair_scores;
  row_scores = code.pair_row_scores;
}

template <class Real>
Real CallContext<Real>::scale(size_t product, const Slots<Real>& slots) const {
  const Product& info = plan.products[product];
  if (info.scale.kind != Operand::Kind::none) return slots.scalar(info.scale, 0);
  const int64_t width = inputs.queries[static_cast<size_t>(info.query_vector)].width;
  return static_cast<Real>(1 / std::sqrt(static_cast<double>(width)));
}

std::vector<bool> in_place_terms(const KernelPlan& plan) {
  std::vector<bool> result;
  for (const Term& term : plan.terms) {
    bool alone = term.norm && term.argument.kind == Operand::Kind::stream;
    for (const Term& other : plan.terms) {
      const auto reads = [&](const Operand& operand) {
        return operand.kind == Operand::Kind::stream && operand.index == term.argument.index;
      };
      alone &= !reads(other.coefficient) && (&other == &term || !reads(other.argument));
    }
    result.push_back(alone);
  }
  return result;
}

bool single_reader(const Program& program, const Operand& output) {
  if (output.kind != Operand::Kind::reg) return false;
  return std::ranges::count_if(program.outputs, [&](const Operand& other) {
           return other.kind == Operand::Kind::reg && other.index == output.index;
         }) == 1;
}

std::vector<bool> direct_terms(const KernelPlan& plan) {
  std::vector<bool> result;
  for (const Term& term : plan.terms)
    result.push_back(term.norm && single_reader(plan.forward, term.argument));
  return result;
}

bool reads_outputs(const KernelPlan& plan, const std::vector<bool>& in_place, bool coefficients) {
  for (size_t index = 0; index < plan.terms.size(); ++index)
    if (!in_place[index] || plan.terms[index].inside || (coefficients && !plan.terms[index].unit))
      return true;
  return false;
}

template <class Real>
ForwardTile<Real>::ForwardTile(const CallContext<Real>& context)
    : context_(context),
      plan_(context.plan),
      code_(context.code),
      map_(context.plan, context.inputs.shape),
      mask_program_(context.plan.mask),
      forward_program_(context.plan.forward),
      in_place_(in_place_terms(context.plan)),
      direct_(direct_terms(context.plan)),
      queries_(context.inputs.queries.size()),
      scores_(context.plan.products.size()),
      weights_(context.plan.terms.size()),
      streams_(context.plan.products.size()) {
  runs_program_ = reads_outputs(plan_, in_place_, false);
  const auto terms = static_cast<int64_t>(plan_.terms.size()),
             products = static_cast<int64_t>(plan_.products.size());
  // Without a program every term has a product of its own, and no other is read.
  const bool apart = terms > 1 && !runs_program_ && (!plan_.masked || plan_.band.exact);
  for (int64_t term = 0; apart && term < terms; ++term) {
    const int64_t product = plan_.terms[static_cast<size_t>(term)].argument.index;
    turns_.push_back({{term, term + 1}, {product, product + 1}});
  }
  if (!apart) turns_.push_back({{0, terms}, {0, products}});
  bind(nullptr);
}

template <class Real>
void ForwardTile<Real>::bind(Real* memory) {
  size_ = 0;
  const auto take = [&](int64_t count) {
    Real* result = memory ? memory + size_ : nullptr;
    size_ += round_up(count, 16);
    return result;
  };
  const auto take_tile = [&] {
    Real* tile = take(kSubRows * kTileStride);
    return tile ? tile + kTileMargin : nullptr;
  };
  int64_t widest = context_.value_columns;
  for (size_t index = 0; index < queries_.size(); ++index) {
    const Array& array = context_.score_queries[index];
    if (!array) continue;
    queries_[index] = take(round_up(array.width, 16) * kTileRows);
    widest = std::max(widest, array.width);
  }
  const auto terms = static_cast<int64_t>(plan_.terms.size());
  load_ = take(round_up(widest, 16) * kTileRows);
  accumulators_ = take(terms * kTileRows * context_.value_columns);
  maxima_ = take(terms * kTileRows);
  sums_ = take(terms * kTileRows);
  factors_ = take(kTileRows);
  if (turns_.size() > 1)
    std::ranges::fill(scores_, take_tile());
  else
    for (Real*& tile : scores_) tile = take_tile();
  for (Real*& tile : weights_) tile = take_tile();
  gathered_ = take(kSubRows * kTileStride);
  mask_program_.bind(take(mask_program_.size()));
  forward_program_.bind(take(forward_program_.size()));
}

template <class Real>
void ForwardTile<Real>::begin(int64_t batch, int64_t first_head, int64_t heads, Range queries, bool few) {
  batch_ = batch;
  few_ = few;
  first_head_ = first_head;
  rows_.clear();
  mask_slots_.clear();
  forward_slots_.clear();
  for (int64_t head = 0; head < heads; ++head) {
    mask_slots_.push_back(&context_.mask_slots.at(batch, first_head + head));
    forward_slots_.push_back(&context_.forward_slots.at(batch, first_head + head));
    for (int64_t query = queries.begin; query < queries.end; ++query) rows_.push_back({head, query});
  }
  invariant(static_cast<int64_t>(rows_.size()) <= kTileRows, "forward: too many rows in a tile");
  load_queries();
  const auto terms = static_cast<int64_t>(plan_.terms.size());
  std::fill_n(accumulators_, terms * kTileRows * context_.value_columns, Real{0});
  std::fill_n(maxima_, terms * kTileRows, kMinusInfinity<Real>);
  std::fill_n(sums_, terms * kTileRows, Real{0});
}

template <class Real>
void ForwardTile<Real>::load_queries() {
  const auto rows = static_cast<int64_t>(rows_.size());
  for (size_t index = 0; index < queries_.size(); ++index) {
    const Array& array = context_.score_queries[index];
    if (!array) continue;
    int64_t stride = round_up(array.width, code_.lanes);
    const Real* source = load_;
    if (forward_slots_.size() == 1 && array.storage == storage_of<Real>() && array.feature_stride == 1) {
      source = reinterpret_cast<const Real*>(row_address(array, batch_, first_head_, rows_[0].query));
      stride = array.token_stride;
    } else {
      for (int64_t row = 0; row < rows; ++row) {
        const TileRow& at = rows_[static_cast<size_t>(row)];
        load_rows<Real>(array, batch_, first_head_ + at.head, {at.query, at.query + 1}, nullptr,
                        load_ + row * stride, stride);
      }
    }
    if (few_) {
      fold_queries(source, stride, array.width, queries_[index]);
      continue;
    }
    for (int64_t first = 0; first < rows; first += code_.rows) {
      const int64_t count = std::min(code_.rows, rows - first);
      code_.transpose(source + first * stride, stride, count, array.width,
                      queries_[index] + first * array.width, count, count);
    }
  }
}

// How many neighbouring numbers of a row stand beside each other, so that few rows still fill a vector.
template <class Real>
int64_t ForwardTile<Real>::fold_of(int64_t depth) const {
  if (sizeof(Real) == 8) return 1;
  for (const int64_t fold : {4, 2})
    if (static_cast<int64_t>(rows_.size()) * fold <= code_.lanes && depth % fold == 0) return fold;
  return 1;
}

template <class Real>
void ForwardTile<Real>::fold_queries(const Real* source, int64_t stride, int64_t depth, Real* out) const {
  const auto rows = static_cast<int64_t>(rows_.size());
  const int64_t fold = fold_of(depth), columns = round_up(rows * fold, code_.lanes);
  std::fill_n(out, depth / fold * columns, Real{0});
  for (int64_t k = 0; k < depth; ++k)
    for (int64_t row = 0; row < rows; ++row)
      out[k / fold * columns + row * fold + k % fold] = source[row * stride + k];
}

// The addends of a product for rows [first_row, first_row + rows), at the block's first key.
template <class Real>
void ForwardTile<Real>::find_addends(const KeyBlock<Real>& block, int64_t first_row, int64_t rows,
                                     const Operand& addend) {
  for (int64_t row = 0; row < rows; ++row) {
    const TileRow& at = rows_[static_cast<size_t>(first_row + row)];
    const Real* data = forward_slots_[static_cast<size_t>(at.head)]->row_of(addend.index, at.query);
    if (!block.picked) {
      addends_[static_cast<size_t>(row)] = data + block.first;
    } else {
      Real* copy = gathered_ + row * kTileStride;
      for (int64_t c = 0; c < block.count; ++c) copy[c] = data[block.picked[c]];
      std::fill_n(copy + block.count, round_up(block.count, code_.panel) - block.count, Real{0});
      addends_[static_cast<size_t>(row)] = copy;
    }
  }
}

template <class Real>
Range ForwardTile<Real>::query_range(int64_t first_row, int64_t rows) const {
  int64_t low = INT64_MAX, high = 0;
  for (int64_t row = first_row; row < first_row + rows; ++row) {
    low = std::min(low, rows_[static_cast<size_t>(row)].query);
    high = std::max(high, rows_[static_cast<size_t>(row)].query);
  }
  return {low, high + 1};
}

// The panels of the block that rows may look at.
template <class Real>
Range ForwardTile<Real>::clip(const KeyBlock<Real>& block, int64_t first_row, int64_t rows) const {
  return block.panels_of(map_.keys_of(query_range(first_row, rows)), code_.panel);
}

// The same for the whole tile and a mask that is no band: panels at both ends that hold nothing for any row,
// such as those behind a few first keys, are left out.
template <class Real>
Range ForwardTile<Real>::trim(const KeyBlock<Real>& block, TileState state, bool clip_band) {
  Range panels{0, (block.count + code_.panel - 1) / code_.panel};
  if (state != TileState::mixed || !clip_band || plan_.band.exact || !map_.decides(block.picked) ||
      mask_slots_.size() != 1)
    return panels;
  const Range queries = query_range(0, static_cast<int64_t>(rows_.size()));
  const auto empty = [&](int64_t panel) {
    const int64_t column = panel * code_.panel;
    return map_.state(*mask_slots_[0], queries,
                      block.keys(column, std::min(column + code_.panel, block.count))) == TileState::empty;
  };
  while (!panels.empty() && empty(panels.end - 1)) --panels.end;
  while (!panels.empty() && empty(panels.begin)) ++panels.begin;
  return panels;
}

template <class Real>
typename ForwardTile<Real>::SubTile ForwardTile<Real>::sub_tile(const KeyBlock<Real>& block, TileState state,
                                                                bool clip_band, Range allowed,
                                                                int64_t first) {
  SubTile sub;
  sub.first = first;
  sub.rows = std::min(kSubRows, static_cast<int64_t>(rows_.size()) - first);
  sub.strips = (sub.rows + code_.rows - 1) / code_.rows;
  const int64_t panels = (block.count + code_.panel - 1) / code_.panel;
  for (int64_t strip = 0; strip < sub.strips; ++strip) {
    Range& range = sub.ranges[static_cast<size_t>(strip)];
    const int64_t row = first + strip * code_.rows,
                  count = std::min(code_.rows, sub.rows - strip * code_.rows);
    range = clip_band ? clip(block, row, count) : Range{0, panels};
    range = {std::max(range.begin, allowed.begin), std::max(std::min(range.end, allowed.end), allowed.begin)};
    // A tile that is mixed may have strips that are not.
    TileState& strip_state = sub.states[static_cast<size_t>(strip)];
    strip_state = state;
    if (state == TileState::mixed && clip_band && !plan_.band.exact && map_.decides(block.picked) &&
        mask_slots_.size() == 1)
      strip_state = map_.state(*mask_slots_[0], query_range(row, count), block.keys());
    if (strip_state == TileState::empty) range = {0, 0};
    sub.any |= !range.empty();
  }
  return sub;
}

template <class Real>
void ForwardTile<Real>::score(const KeyBlock<Real>& block, const SubTile& sub, Range products) {
  for (int64_t number = products.begin; number < products.end; ++number) {
    const auto product = static_cast<size_t>(number);
    const Product& info = plan_.products[product];
    const auto query = static_cast<size_t>(info.query_vector), key = static_cast<size_t>(info.key_vector);
    const int64_t depth = context_.score_queries[query].width;
    const bool added = info.addend.kind == Operand::Kind::slot;
    if (added) find_addends(block, sub.first, sub.rows, info.addend);
    const auto head = static_cast<size_t>(rows_[static_cast<size_t>(sub.first)].head);
    if (few_) {
      const Range columns = sub.columns(code_.panel);
      context_.row_scores({queries_[query], sub.rows, depth, fold_of(depth), block.rows[key].data(),
                           columns.begin, columns.end, context_.scale(product, *forward_slots_[head]),
                           added ? addends_.data() : nullptr, scores_[product]});
      continue;
    }
    context_.scores({queries_[query] + sub.first * depth, sub.rows, depth, block.panels[key],
                     context_.scale(product, *forward_slots_[head]), added ? addends_.data() : nullptr,
                     sub.ranges.data(), scores_[product]});
  }
}

// The weighted sum of values. Neighbouring strips with the same columns go together and share the values.
template <class Real>
void ForwardTile<Real>::sum_values(const KeyBlock<Real>& block, const SubTile& sub, bool clip_band,
                                   const Real* weights, Real* sums) const {
  for (int64_t strip = 0; strip < sub.strips;) {
    const Range range = sub.ranges[static_cast<size_t>(strip)];
    int64_t next = strip + 1;
    while (next < sub.strips && sub.ranges[static_cast<size_t>(next)].begin == range.begin &&
           sub.ranges[static_cast<size_t>(next)].end == range.end)
      ++next;
    const int64_t row = strip * code_.rows, begin = range.begin * code_.panel,
                  count = std::min(next * code_.rows, sub.rows) - row;
    int64_t end = std::min(range.end * code_.panel, block.count);
    // The last panel may reach past what the last row of these may look at.
    if (clip_band) end = std::min(end, block.of(map_.keys_of(query_range(sub.first + row, count))).end);
    if (begin < end)
      code_.accumulate({weights + row * kTileStride + begin, false, count, end - begin,
                        block.values ? block.values + begin * block.value_stride : nullptr,
                        block.value_stride, context_.value_columns,
                        sums + (sub.first + row) * context_.value_columns, context_.value_columns,
                        block.value_rows.empty() ? nullptr : block.value_rows.data() + begin, nullptr,
                        block.narrow_values ? block.narrow_values + begin * block.value_stride : nullptr});
    strip = next;
  }
}

template <class Real>
void ForwardTile<Real>::add(const KeyBlock<Real>& block, TileState state, bool clip_band) {
  const Range allowed = trim(block, state, clip_band);
  for (int64_t first = 0; first < static_cast<int64_t>(rows_.size()); first += kSubRows) {
    const SubTile sub = sub_tile(block, state, clip_band, allowed, first);
    if (!sub.any) continue;
    for (const Turn& turn : turns_) {
      score(block, sub, turn.products);
      for (int64_t strip = 0; strip < sub.strips; ++strip) {
        const Range columns = sub.columns(strip, code_.panel);
        if (columns.empty()) continue;
        const int64_t row = strip * code_.rows;
        weigh_strip(block, sub.states[static_cast<size_t>(strip)], turn.terms, first + row, row,
                    std::min(code_.rows, sub.rows - row), columns);
      }
      for (int64_t term = turn.terms.begin; term < turn.terms.end; ++term)
        sum_values(block, sub, clip_band, tile_of(static_cast<size_t>(term)),
                   accumulator(static_cast<size_t>(term)));
    }
  }
}

// Puts `fill` where the mask forbids a pair, and past the last key.
template <class Real>
void ForwardTile<Real>::hide(const KeyBlock<Real>& block, TileState state, const StripPlace& place,
                             Range columns, Real fill, Real* tile) {
  if (state == TileState::mixed && plan_.band.exact) {
    for (int64_t r = 0; r < place.rows; ++r)
      block.fill_outside(map_.allowed_keys(place.row[r].query), columns, fill, tile + r * kTileStride);
  } else if (state == TileState::mixed) {
    code_.mask(mask_program_.output(plan_.mask.outputs[0]), fill, place.rows, columns.begin, columns.end,
               tile);
  }
  if (block.lists) {
    std::array<const Real*, kMostRows> allowed;
    for (int64_t r = 0; r < place.rows; ++r)
      allowed[static_cast<size_t>(r)] = block.lists->row(place.row[r].head, place.row[r].query);
    code_.mask({allowed.data(), 1}, fill, place.rows, columns.begin, columns.end, tile);
  }
  if (columns.end > block.count)
    for (int64_t r = 0; r < place.rows; ++r)
      std::fill(tile + r * kTileStride + std::max(block.count, columns.begin),
                tile + r * kTileStride + columns.end, fill);
}

// The arguments of the terms of a turn, hidden where the mask says so, in their tiles.
template <class Real>
void ForwardTile<Real>::argue_strip(const KeyBlock<Real>& block, TileState state, Range terms,
                                    int64_t first_row, int64_t strip_row, int64_t rows, Range columns) {
  const StripPlace place{&rows_[static_cast<size_t>(first_row)], rows, block.first, block.picked};
  for (size_t product = 0; product < scores_.size(); ++product)
    streams_[product] = scores_[product] + strip_row * kTileStride;
  for (size_t term = 0; term < plan_.terms.size(); ++term)
    if (direct_[term])
      forward_program_.direct(plan_.terms[term].argument, weights_[term] + strip_row * kTileStride);
  if (runs_program_) forward_program_.run(place, columns, forward_slots_, context_.inputs, streams_.data());
  if (state == TileState::mixed && !plan_.band.exact)
    mask_program_.run(place, columns, mask_slots_, context_.inputs, streams_.data());
  for (auto index = static_cast<size_t>(terms.begin); index < static_cast<size_t>(terms.end); ++index) {
    const Term& term = plan_.terms[index];
    Real* tile = tile_of(index) + strip_row * kTileStride;
    if (!in_place_[index] && !direct_[index])
      code_.copy(forward_program_.output(term.norm ? term.argument : term.coefficient), rows, columns.begin,
                 columns.end, tile);
    hide(block, state, place, columns, term.norm == Op::softmax ? kMinusInfinity<Real> : Real{0}, tile);
  }
}

template <class Real>
void ForwardTile<Real>::weigh_strip(const KeyBlock<Real>& block, TileState state, Range terms,
                                    int64_t first_row, int64_t strip_row, int64_t rows, Range columns) {
  argue_strip(block, state, terms, first_row, strip_row, rows, columns);
  for (auto index = static_cast<size_t>(terms.begin); index < static_cast<size_t>(terms.end); ++index) {
    const Term& term = plan_.terms[index];
    if (!term.norm) continue;
    Real* tile = tile_of(index) + strip_row * kTileStride;
    const int64_t at = static_cast<int64_t>(index) * kTileRows + first_row;
    const NormTask<Real> task{tile,         rows,       columns.begin,        columns.end,
                              maxima_ + at, sums_ + at, factors_ + first_row, context_.headroom};
    if (*term.norm == Op::softmax)
      code_.softmax(task);
    else if (*term.norm == Op::l1)
      code_.l1(task);
    else
      code_.softpick(task);
    code_.scale_rows(accumulator(index) + first_row * context_.value_columns, context_.value_columns, rows,
                     context_.value_columns, factors_ + first_row);
    if (term.inside)
      code_.weigh(forward_program_.output(term.coefficient), rows, columns.begin, columns.end, tile);
  }
}

template struct CallContext<float>;
template struct CallContext<double>;
template class ForwardTile<float>;
template class ForwardTile<double>;

}  // namespace saccade::kernels
