// The order of work: per strip the products for scores and weight gradients (for few queries all at once),
// the formula, the norms' adjoints and the formula's adjoint, then the three products that sum gradients.
#include "saccade/kernels/backward_tile.h"

#include "saccade/base/error.h"

namespace saccade::kernels {
template <class Real>
BackwardTile<Real>::BackwardTile(const CallContext<Real>& context, const SlotTable<Real>& adjoint_slots,
                                 const Gradients& gradients)
    : context_(context),
      adjoint_slots_(adjoint_slots),
      gradients_(gradients),
      plan_(context.plan),
      code_(context.code),
      map_(context.plan, context.inputs.shape),
      mask_program_(context.plan.mask),
      forward_program_(context.plan.forward),
      adjoint_program_(context.plan.adjoint),
      in_place_(in_place_terms(context.plan)),
      direct_(direct_terms(context.plan)),
      scores_(context.plan.products.size()),
      arguments_(context.plan.terms.size()),
      argument_gradients_(context.plan.terms.size()),
      coefficient_gradients_(context.plan.terms.size()),
      multiplied_(context.plan.terms.size()),
      score_gradients_(context.plan.products.size()),
      score_gradient_of_(context.plan.products.size()),
      streams_(context.plan.products.size() + 2 * context.plan.terms.size()) {
  for (const Term& term : plan_.terms) all_softmax_ &= term.norm == Op::softmax;
  runs_program_ = reads_outputs(plan_, in_place_, true);
  runs_adjoint_ = adjoint_program_.has_steps();
  for (const Target& target : plan_.targets)
    for (size_t term = 0; term < plan_.terms.size(); ++term)
      if (target.product >= 0 && !has_own_tile(target) &&
          target.adjoint.index == plan_.argument_stream(static_cast<int>(term)))
        multiplied_[term] = true;
  for (const Target& target : plan_.targets) runs_adjoint_ |= target.table >= 0;
  bind(nullptr);
}

template <class Real>
void BackwardTile<Real>::bind(Real* memory) {
  size_ = 0;
  const auto take = [&](int64_t count) {
    Real* result = memory ? memory + size_ : nullptr;
    size_ += round_up(count, 16);
    return result;
  };
  const auto take_tile = [&](int64_t rows) {
    Real* tile = take(rows * kTileStride);
    return tile ? tile + kTileMargin : nullptr;
  };
  const int64_t strip = std::max(code_.rows, code_.few_rows), all = kBackwardQueries;
  for (Real*& tile : scores_) tile = take_tile(strip);
  for (size_t term = 0; term < plan_.terms.size(); ++term) {
    if (!in_place_[term]) arguments_[term] = take_tile(strip);
    argument_gradients_[term] = take_tile(multiplied_[term] ? all : strip);
    if (plan_.terms[term].inside) coefficient_gradients_[term] = take_tile(all);
  }
  for (const Target& target : plan_.targets)
    if (target.product >= 0 && has_own_tile(target))
      score_gradients_[static_cast<size_t>(target.product)] = take_tile(all);
  weights_ = take_tile(all);
  weight_gradients_ = take_tile(strip);
  gathered_ = take(strip * kTileStride);
  for (TileProgram<Real>* program : {&mask_program_, &forward_program_, &adjoint_program_})
    program->bind(take(program->size()));
}

template <class Real>
void BackwardTile<Real>::run(const BackwardQueries<Real>& queries, Range range,
                             const BackwardKeys<Real>& keys, TileState state, bool clip) {
  const int64_t rows = range.size(), strips = (rows + code_.rows - 1) / code_.rows;
  const int64_t panels = (keys.count + code_.panel - 1) / code_.panel;
  mask_slots_.assign(1, &context_.mask_slots.at(queries.batch, queries.head));
  forward_slots_.assign(1, &context_.forward_slots.at(queries.batch, queries.head));
  adjoint_slots_of_head_.assign(1, &adjoint_slots_.at(queries.batch, queries.head));
  rows_.clear();
  for (int64_t row = 0; row < rows; ++row) rows_.push_back({0, range.begin + row});
  std::array<Range, kBackwardQueries> ranges, columns;
  bool partial = keys.count < kBackwardKeys, any = false;
  for (int64_t strip = 0; strip < strips; ++strip) {
    Range& panel_range = ranges[static_cast<size_t>(strip)];
    panel_range = {0, panels};
    if (clip) {
      const int64_t first = range.begin + strip * code_.rows;
      panel_range =
          keys.panels_of(map_.keys_of({first, std::min(first + code_.rows, range.end)}), code_.panel);
      partial |= panel_range.size() != panels;
    }
    any |= !panel_range.empty();
    columns[static_cast<size_t>(strip)] = {panel_range.begin * code_.panel, panel_range.end * code_.panel};
  }
  if (!any) return;
  if (keys.few) score(queries, range, keys, ranges.data());
  for (int64_t strip = 0; strip < strips; ++strip) {
    const int64_t row = strip * code_.rows, first = range.begin + row;
    const Range strip_range{first, std::min(first + code_.rows, range.end)};
    if (!keys.few) score(queries, strip_range, keys, &ranges[static_cast<size_t>(strip)]);
    weigh_strip(queries, keys, state, first, row, strip_range.size(), columns[static_cast<size_t>(strip)]);
  }
  multiply(queries, range, keys, columns.data(), partial || state != TileState::full || keys.lists);
}

// Scores and weight gradients of some rows, at the beginning of their tiles.
template <class Real>
void BackwardTile<Real>::score(const BackwardQueries<Real>& queries, Range range,
                               const BackwardKeys<Real>& keys, const Range* ranges) {
  const int64_t rows = range.size(), filled = round_up(keys.count, code_.panel);
  for (size_t product = 0; product < plan_.products.size(); ++product) {
    const Product& info = plan_.products[product];
    const auto query = static_cast<size_t>(info.query_vector), key = static_cast<size_t>(info.key_vector);
    const int64_t depth = context_.score_queries[query].width;
    const bool added = info.addend.kind == Operand::Kind::slot;
    for (int64_t row = 0; added && row < rows; ++row) {
      const Real* data = forward_slots_[0]->row_of(info.addend.index, range.begin + row);
      addends_[static_cast<size_t>(row)] = data + keys.first;
      if (!keys.picked) continue;
      Real* copy = gathered_ + row * kTileStride;
      for (int64_t c = 0; c < filled; ++c) copy[c] = c < keys.count ? data[keys.picked[c]] : Real{0};
      addends_[static_cast<size_t>(row)] = copy;
    }
    const Real* packed = queries.strips[query] + range.begin * depth;
    const Real scale = context_.scale(product, *forward_slots_[0]);
    const Real* const* addends = added ? addends_.data() : nullptr;
    if (keys.few)
      context_.row_scores({packed, rows, depth, 1, keys.single_rows[key].data(), 0, filled, scale, addends,
                           scores_[product]});
    else
      context_.scores({packed, rows, depth, keys.panels[key], scale, addends, ranges, scores_[product]});
  }
  const int64_t width = queries.gradient_depth;
  const Real* gradients = queries.gradient_strips + range.begin * width;
  if (keys.few)
    code_.row_scores({gradients, rows, width, 1, keys.single_values.data(), 0, filled, Real{1}, nullptr,
                      weight_gradients_});
  else
    queries.gradient_scores(
        {gradients, rows, width, keys.value_panels, Real{1}, nullptr, ranges, weight_gradients_});
}

template <class Real>
void BackwardTile<Real>::hide(const BackwardKeys<Real>& keys, TileState state, const StripPlace& place,
                              Range columns, Real fill, Real* tile) {
  if (state == TileState::mixed && plan_.band.exact) {
    for (int64_t r = 0; r < place.rows; ++r)
      keys.fill_outside(map_.allowed_keys(place.row[r].query), columns, fill, tile + r * kTileStride);
  } else if (state == TileState::mixed) {
    code_.mask(mask_program_.output(plan_.mask.outputs[0]), fill, place.rows, columns.begin, columns.end,
               tile);
  }
  if (keys.lists) {
    std::array<const Real*, kMostRows> allowed;
    for (int64_t r = 0; r < place.rows; ++r)
      allowed[static_cast<size_t>(r)] = keys.lists->row(0, place.row[r].query);
    code_.mask({allowed.data(), 1}, fill, place.rows, columns.begin, columns.end, tile);
  }
  if (columns.end > keys.count)
    for (int64_t r = 0; r < place.rows; ++r)
      std::fill(tile + r * kTileStride + std::max(keys.count, columns.begin),
                tile + r * kTileStride + columns.end, fill);
}

template <class Real>
void BackwardTile<Real>::weigh_strip(const BackwardQueries<Real>& queries, const BackwardKeys<Real>& keys,
                                     TileState state, int64_t first_query, int64_t row, int64_t rows,
                                     Range columns) {
  const int64_t shift = row * kTileStride,
                near = keys.few ? shift : 0;  // in tiles that each strip uses anew
  const StripPlace place{&rows_[static_cast<size_t>(row)], rows, keys.first, keys.picked};
  const int64_t length = context_.inputs.shape.queries;
  if (!columns.empty()) {
    const size_t products = scores_.size();
    for (size_t product = 0; product < products; ++product) streams_[product] = scores_[product] + near;
    for (size_t term = 0; term < plan_.terms.size(); ++term)
      if (direct_[term]) forward_program_.direct(plan_.terms[term].argument, arguments_[term] + near);
    if (runs_program_) forward_program_.run(place, columns, forward_slots_, context_.inputs, streams_.data());
    if (state == TileState::mixed && !plan_.band.exact)
      mask_program_.run(place, columns, mask_slots_, context_.inputs, streams_.data());
    for (size_t index = 0; index < plan_.terms.size(); ++index) {
      const Term& term = plan_.terms[index];
      Real* argument = nullptr;
      if (term.norm) {
        argument =
            (in_place_[index] ? scores_[static_cast<size_t>(term.argument.index)] : arguments_[index]) + near;
        if (!in_place_[index] && !direct_[index])
          code_.copy(forward_program_.output(term.argument), rows, columns.begin, columns.end, argument);
        hide(keys, state, place, columns, term.norm == Op::softmax ? kMinusInfinity<Real> : Real{0},
             argument);
      }
      Real* argument_gradient = argument_gradients_[index] + (multiplied_[index] ? shift : near);
      Real* coefficient_gradient =
          coefficient_gradients_[index] ? coefficient_gradients_[index] + shift : nullptr;
      const int64_t at = static_cast<int64_t>(index) * length + first_query;
      const TermBackwardTask<Real> task{argument,
                                        weight_gradients_ + near,
                                        term.unit ? View<Real>{} : forward_program_.output(term.coefficient),
                                        queries.log_sums + at,
                                        queries.deltas + at,
                                        rows,
                                        columns.begin,
                                        columns.end,
                                        weights_ + shift,
                                        index > 0,
                                        term.norm ? argument_gradient : nullptr,
                                        coefficient_gradient};
      if (!term.norm)
        code_.plain_backward(task);
      else if (*term.norm == Op::softmax)
        code_.softmax_backward(task);
      else if (*term.norm == Op::l1)
        code_.l1_backward(task);
      else
        code_.softpick_backward(task);
      if (term.norm != Op::softmax) {
        if (term.norm) hide(keys, state, place, columns, Real{0}, argument_gradient);
        if (coefficient_gradient) hide(keys, state, place, columns, Real{0}, coefficient_gradient);
      }
      streams_[products + 2 * index] = argument_gradient;
      streams_[products + 2 * index + 1] = coefficient_gradient;
    }
    if (!all_softmax_) hide(keys, state, place, columns, Real{0}, weights_ + shift);
    for (const Target& target : plan_.targets)
      if (target.product >= 0 && single_reader(plan_.adjoint, target.adjoint))
        adjoint_program_.direct(target.adjoint,
                                score_gradients_[static_cast<size_t>(target.product)] + shift);
    if (runs_adjoint_)
      adjoint_program_.run(place, columns, adjoint_slots_of_head_, context_.inputs, streams_.data());
  }
  take_targets(queries, keys, place, row, columns);
  // Columns that were not computed take part in products over the rows, as zeros.
  const auto clear = [&](Real* tile) {
    for (int64_t r = 0; r < rows; ++r) {
      std::fill(tile + shift + r * kTileStride, tile + shift + r * kTileStride + columns.begin, Real{0});
      std::fill(tile + shift + r * kTileStride + columns.end, tile + shift + r * kTileStride + kBackwardKeys,
                Real{0});
    }
  };
  if (columns.begin == 0 && columns.end >= kBackwardKeys) return;
  clear(weights_);
  for (const Real* tile : score_gradient_of_)
    if (tile) clear(const_cast<Real*>(tile));
}

template <class Real>
void BackwardTile<Real>::take_targets(const BackwardQueries<Real>& queries, const BackwardKeys<Real>& keys,
                                      const StripPlace& place, int64_t row, Range columns) {
  const int64_t shift = row * kTileStride, query = place.row[0].query;
  for (size_t index = 0; index < plan_.targets.size(); ++index) {
    const Target& target = plan_.targets[index];
    Real* adjoint = nullptr;  // of this strip
    if (!columns.empty())
      adjoint = target.adjoint.kind == Operand::Kind::stream
                    ? streams_[static_cast<size_t>(target.adjoint.index)]
                    : const_cast<Real*>(adjoint_program_.output(target.adjoint).rows[0]);
    if (target.product >= 0) {
      const auto product = static_cast<size_t>(target.product);
      Real* own = score_gradients_[product];
      // An adjoint that is the argument's stays in its tile.
      if (!own) {
        const auto term = (static_cast<size_t>(target.adjoint.index) - scores_.size()) / 2;
        const bool of_coefficient = (static_cast<size_t>(target.adjoint.index) - scores_.size()) % 2 == 1;
        score_gradient_of_[product] =
            of_coefficient ? coefficient_gradients_[term] : argument_gradients_[term];
      } else {
        score_gradient_of_[product] = own;
      }
    }
    if (columns.empty()) continue;
    if (target.rate == Rate::tile && target.product < 0) {
      scatter(target, queries, place, columns, adjoint);
    } else if (Real* sums = queries.sums[index]) {
      switch (target.rate) {
        case Rate::row:
          code_.row_sums(adjoint, place.rows, columns.begin, columns.end, sums + query);
          break;
        case Rate::column:
          if (keys.picked)
            for (int64_t r = 0; r < place.rows; ++r)
              for (int64_t c = columns.begin; c < std::min(columns.end, keys.count); ++c)
                sums[keys.picked[c]] += adjoint[r * kTileStride + c];
          else
            code_.column_sums(adjoint, place.rows, columns.begin, columns.end, sums + keys.first);
          break;
        case Rate::diagonal: {
          Real* first = sums + (context_.inputs.shape.queries - 1 - query);
          if (keys.picked)
            for (int64_t r = 0; r < place.rows; ++r)
              for (int64_t c = columns.begin; c < std::min(columns.end, keys.count); ++c)
                first[keys.picked[c] - r] += adjoint[r * kTileStride + c];
          else
            code_.diagonal_sums(adjoint, place.rows, columns.begin, columns.end, first + keys.first);
          break;
        }
        case Rate::constant:
        case Rate::head: {
          std::array<Real, kMostRows> rows{};
          code_.row_sums(adjoint, place.rows, columns.begin, columns.end, rows.data());
          for (int64_t r = 0; r < place.rows; ++r) sums[0] += rows[static_cast<size_t>(r)];
          break;
        }
        case Rate::tile:
          break;
      }
    }
    // Only now: sums of diagonals clear margins, which a copy must not take for values.
    if (target.product >= 0 && score_gradients_[static_cast<size_t>(target.product)]) {
      Real* own = score_gradients_[static_cast<size_t>(target.product)] + shift;
      if (adjoint != own) {
        std::array<const Real*, kMostRows> rows;
        for (int64_t r = 0; r < place.rows; ++r) rows[static_cast<size_t>(r)] = adjoint + r * kTileStride;
        code_.copy({rows.data(), 1}, place.rows, columns.begin, columns.end, own);
      }
      if (context_.scale_varies()) {
        const Real scale = context_.scale(static_cast<size_t>(target.product), *forward_slots_[0]);
        for (int64_t r = 0; r < place.rows; ++r)
          for (int64_t c = columns.begin; c < columns.end; ++c) own[r * kTileStride + c] *= scale;
      }
    }
  }
}

// The gradient of a table that is read for every pair.
template <class Real>
void BackwardTile<Real>::scatter(const Target& target, const BackwardQueries<Real>& queries,
                                 const StripPlace& place, Range columns, const Real* adjoint) {
  const Gradients::TableGradient& gradient = gradients_.tables[static_cast<size_t>(target.table)];
  if (!gradient.data) return;
  const Table& table = context_.inputs.tables[static_cast<size_t>(target.table)];
  double* elements =
      gradient.data + queries.batch * gradient.batch_stride + queries.head * gradient.head_stride;
  std::array<View<Real>, 3> subscripts;
  for (size_t index = 0; index < 3; ++index)
    if (target.subscripts[index].kind != Operand::Kind::none)
      subscripts[index] = adjoint_program_.output(target.subscripts[index]);
  for (int64_t r = 0; r < place.rows; ++r)
    for (int64_t c = columns.begin; c < columns.end; ++c) {
      const Real value = adjoint[r * kTileStride + c];
      if (value == 0) continue;
      int64_t at = 0;
      for (size_t index = 0; index < 3; ++index)
        if (subscripts[index].rows)
          at += table_place(subscripts[index].rows[r][c * subscripts[index].step], table.size[index],
                            table.origin[index]) *
                gradient.stride[index];
      elements[at] += static_cast<double>(value);
    }
}

template <class Real>
void BackwardTile<Real>::multiply(const BackwardQueries<Real>& queries, Range range,
                                  const BackwardKeys<Real>& keys, const Range* columns, bool partial) {
  const int64_t rows = range.size();
  // c[key] += tile[., key] . b, over the rows that look at the key at all; for few queries c is where
  // `singles` say.
  const auto over_rows = [&](const Real* tile, const Real* b, int64_t b_stride, int64_t width, Real* c,
                             const std::vector<Real*>* singles) {
    if (!partial || keys.few) {
      code_.accumulate({tile, true, keys.count, rows, b + range.begin * b_stride, b_stride, width, c, width,
                        nullptr, singles ? singles->data() : nullptr});
      return;
    }
    for (int64_t key = 0; key < keys.count; key += code_.rows) {
      const int64_t count = std::min(code_.rows, keys.count - key);
      const Range looking = map_.queries_of(keys.keys(key, key + count));
      const int64_t begin = std::max(looking.begin, range.begin), end = std::min(looking.end, range.end);
      if (begin >= end) continue;
      code_.accumulate({tile + (begin - range.begin) * kTileStride + key, true, count, end - begin,
                        b + begin * b_stride, b_stride, width, c + key * width, width});
    }
  };
  if (keys.few ? !keys.single_value_gradients.empty() : keys.value_gradient != nullptr)
    over_rows(weights_, queries.gradient_rows, queries.gradient_row_stride, context_.value_columns,
              keys.value_gradient, keys.few ? &keys.single_value_gradients : nullptr);
  for (size_t product = 0; product < plan_.products.size(); ++product) {
    const Real* tile = score_gradient_of_[product];
    if (!tile) continue;
    const Product& info = plan_.products[product];
    const auto query = static_cast<size_t>(info.query_vector), key = static_cast<size_t>(info.key_vector);
    const int64_t width = columns_of(context_.inputs.queries[query]);
    if (keys.few ? !keys.single_gradients[key].empty() : keys.key_gradients[key] != nullptr)
      over_rows(tile, queries.rows[query], queries.row_strides[query], width,
                keys.few ? nullptr : keys.key_gradients[key],
                keys.few ? &keys.single_gradients[key] : nullptr);
    if (!queries.query_gradients[query]) continue;
    Real* sum = queries.query_gradients[query] + range.begin * width;
    if (keys.few) {
      code_.accumulate(
          {tile, false, rows, keys.count, nullptr, 0, width, sum, width, keys.single_rows[key].data()});
      continue;
    }
    for (int64_t row = 0; row < rows;) {
      const Range strip_columns = columns[row / code_.rows];
      int64_t next = row + code_.rows;
      while (next < rows && columns[next / code_.rows].begin == strip_columns.begin &&
             columns[next / code_.rows].end == strip_columns.end)
        next += code_.rows;
      next = std::min(next, rows);
      const int64_t begin = strip_columns.begin, end = std::min(strip_columns.end, keys.count);
      if (begin < end)
        code_.accumulate({tile + row * kTileStride + begin, false, next - row, end - begin,
                          keys.rows[key] + begin * keys.row_strides[key], keys.row_strides[key], width,
                          sum + row * width, width});
      row = next;
    }
  }
}

template class BackwardTile<float>;
template class BackwardTile<double>;

}  // namespace saccade::kernels
