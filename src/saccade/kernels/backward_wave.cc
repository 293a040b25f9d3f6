// The order of a wave's memory, and what is filled in before the units run.
#include "saccade/kernels/backward_wave.h"

#include "saccade/kernels/table_gradients.h"

namespace saccade::kernels {
namespace {

constexpr int64_t kUnits = 8;  // at least so many units, where there is that much work
// With lists: a unit's sums are as long as all keys then, and clearing and adding up them takes time.
constexpr int64_t kListedUnits = 4;
constexpr int64_t kWaveBytes = int64_t{256} << 20;  // of packed vectors and partial sums at a time

}  // namespace

template <class Real>
BackwardWave<Real>::BackwardWave(const CallContext<Real>& context, const BackwardInputs& saved,
                                 const Gradients& gradients)
    : context_(context),
      plan_(context.plan),
      inputs_(context.inputs),
      saved_(saved),
      gradients_(gradients),
      shape_(context.inputs.shape),
      code_(context.code),
      chain_slots_(context.plan.chain, context.plan.plan, context.inputs.shape),
      score_value_(context.inputs.value),
      score_gradient_(saved.output_gradient) {
  if (!code_.pair_scores || !pairs_up(score_value_) || !pairs_up(score_gradient_)) return;
  score_value_ = paired(score_value_);
  score_gradient_ = paired(score_gradient_);
}

template <class Real>
void BackwardWave<Real>::prepare() {
  lay_out();
  if (!wants_chain()) return;
#pragma omp parallel for schedule(dynamic)
  for (int64_t entry = 0; entry < chain_slots_.entries(); ++entry) chain_slots_.prepare(inputs_, entry);
}

template <class Real>
bool BackwardWave<Real>::wants_chain() const {
  bool any = false;
  for (const Target& target : plan_.targets) any |= wants(target.links, gradients_);
  for (const RowTarget& target : plan_.row_targets) any |= wants(target.links, gradients_);
  return any;
}

template <class Real>
int64_t BackwardWave<Real>::sum_length(const Target& target) const {
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

template <class Real>
bool BackwardWave<Real>::reads_singly() const {
  if (!gathers() || plan_.key_mask_table >= 0) return false;
  const int64_t height = inputs_.lists.query_tile;
  bool result = height % code_.lanes == 0 && height <= code_.few_rows && readable<Real>(inputs_.value);
  for (const Array& array : inputs_.keys) result &= !array || readable<Real>(array);
  return result;
}

// A head has its packed queries; a unit's head its partial sums; a listed unit's head also partial gradients
// of keys and values.
template <class Real>
void BackwardWave<Real>::lay_out() {
  few_ = reads_singly();
  for (const Array& array : inputs_.queries) {
    strip_offsets_.push_back(head_size_);
    if (array) head_size_ += round_up(round_up(shape_.queries, code_.lanes) * array.width, 16);
    row_offsets_.push_back(head_size_);
    if (array && !in_place<Real>(array)) head_size_ += shape_.queries * copy_stride<Real>(array.width);
  }
  gradient_strips_ = head_size_;
  head_size_ += round_up(round_up(shape_.queries, code_.lanes) * inputs_.value.width, 16);
  gradient_rows_ = head_size_;
  if (!in_place<Real>(saved_.output_gradient))
    head_size_ += shape_.queries * copy_stride<Real>(inputs_.value.width);
  log_sums_ = head_size_;
  head_size_ += round_up(static_cast<int64_t>(plan_.terms.size()) * shape_.queries, 16);
  deltas_ = head_size_;
  head_size_ += round_up(static_cast<int64_t>(plan_.terms.size()) * shape_.queries, 16) + 64;
  dots_ = head_size_;
  if (!plan_.row_targets.empty())
    head_size_ += round_up(static_cast<int64_t>(plan_.terms.size()) * shape_.queries, 16);

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
  const int64_t tiles = gathers() ? (shape_.queries + inputs_.lists.query_tile - 1) / inputs_.lists.query_tile
                                  : (shape_.keys + kBackwardKeys - 1) / kBackwardKeys;
  const int64_t owners = gathers() ? shape_.batch * shape_.heads : pairs;
  const int64_t units = gathers() ? kListedUnits : kUnits;
  chunks_ = std::clamp<int64_t>((units + owners - 1) / owners, 1, std::max<int64_t>(tiles, 1));
  const int64_t pair_bytes =
      shape_.group() * (head_size_ + chunks_ * part_size_) * static_cast<int64_t>(sizeof(Real));
  wave_ = std::clamp<int64_t>(kWaveBytes / pair_bytes, 1, pairs);
}

template <class Real>
size_t BackwardWave<Real>::bytes(int64_t pairs) const {
  return static_cast<size_t>(pairs * shape_.group() * (head_size_ + chunks_ * part_size_)) * sizeof(Real);
}

template <class Real>
void BackwardWave<Real>::begin(int64_t first_pair, int64_t pairs, std::byte* memory) {
  first_pair_ = first_pair;
  pairs_ = pairs;
  first_head_ = first_pair * shape_.group();
  heads_ = reinterpret_cast<Real*>(memory);
  parts_ = heads_ + pairs * shape_.group() * head_size_;
  load_heads(pairs * shape_.group());
}

template <class Real>
PlainRows<Real> BackwardWave<Real>::rows_of(const Array& array, int64_t batch, int64_t head,
                                            const Real* copy) const {
  if (in_place<Real>(array))
    return {reinterpret_cast<const Real*>(row_address(array, batch, head, 0)), array.token_stride};
  return {copy, copy_stride<Real>(array.width)};
}

template <class Real>
BackwardQueries<Real> BackwardWave<Real>::begin_unit(int64_t local_head, int64_t chunk) {
  const int64_t head = first_head_ + local_head;
  const Real* memory = head_memory(local_head);
  Real* part = part_memory(local_head, chunk);
  std::fill_n(part, part_size_, Real{0});
  BackwardQueries<Real> queries;
  queries.batch = head / shape_.heads;
  queries.head = head % shape_.heads;
  for (size_t index = 0; index < inputs_.queries.size(); ++index) {
    const bool used = static_cast<bool>(inputs_.queries[index]);
    queries.strips.push_back(used ? memory + strip_offsets_[index] : nullptr);
    const PlainRows<Real> rows =
        used ? rows_of(inputs_.queries[index], queries.batch, queries.head, memory + row_offsets_[index])
             : PlainRows<Real>{};
    queries.rows.push_back(rows.data);
    queries.row_strides.push_back(rows.stride);
    queries.query_gradients.push_back(used && gradients_.queries[index] ? part + query_sums_[index]
                                                                        : nullptr);
  }
  queries.gradient_strips = memory + gradient_strips_;
  queries.gradient_depth = score_gradient_.width;
  queries.gradient_scores = score_gradient_.width == inputs_.value.width ? code_.scores : code_.pair_scores;
  const PlainRows<Real> gradient =
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

template <class Real>
void BackwardWave<Real>::load_heads(int64_t heads) {
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

template <class Real>
void BackwardWave<Real>::load_rows_of(int64_t local_head, Range rows, Real* scratch) const {
  const int64_t batch = (first_head_ + local_head) / shape_.heads,
                head = (first_head_ + local_head) % shape_.heads;
  Real* memory = head_memory(local_head);
  // `scored`: the array as products with panels read it.
  const auto load = [&](const Array& array, const Array& scored, int64_t row_offset, int64_t strip_offset) {
    Real* copy = memory + row_offset;
    PlainRows<Real> source = rows_of(array, batch, head, copy);
    if (source.data == copy)
      load_rows<Real>(array, batch, head, rows, nullptr, copy + rows.begin * source.stride, source.stride);
    if (scored.width != array.width)
      source = {reinterpret_cast<const Real*>(row_address(scored, batch, head, 0)), scored.token_stride};
    // As one strip, filled up to whole vectors, or in strips of the register tile's height.
    const int64_t height = few_ ? rows.size() : code_.rows;
    for (int64_t row = rows.begin; row < rows.end; row += height) {
      const int64_t count = std::min(height, rows.end - row),
                    filled = few_ ? round_up(count, code_.lanes) : count;
      code_.transpose(source.data + row * source.stride, source.stride, count, scored.width,
                      memory + strip_offset + row * scored.width, filled, filled);
    }
  };
  for (size_t index = 0; index < inputs_.queries.size(); ++index)
    if (inputs_.queries[index])
      load(inputs_.queries[index], context_.score_queries[index], row_offsets_[index], strip_offsets_[index]);
  load(saved_.output_gradient, score_gradient_, gradient_rows_, gradient_strips_);
  find_deltas(local_head, rows, scratch);
}

// What a term gave for a row: where it stands if it can be read there, otherwise in the scratch.
template <class Real>
const Real* BackwardWave<Real>::output_row(size_t term, int64_t batch, int64_t head, int64_t row,
                                           Real* scratch) const {
  const int64_t width = inputs_.value.width;
  const void* source = nullptr;
  Storage storage = storage_of<Real>();
  int64_t stride = 1;
  if (saved_.partials) {
    const int64_t place = (batch * shape_.heads + head) * shape_.queries + row,
                  places = shape_.batch * shape_.heads * shape_.queries;
    source =
        static_cast<const Real*>(saved_.partials) + (static_cast<int64_t>(term) * places + place) * width;
  } else {
    source = row_address(saved_.output, batch, head, row);
    storage = saved_.output.storage;
    stride = saved_.output.feature_stride;
  }
  if (storage == storage_of<Real>() && stride == 1 && width % code_.lanes == 0)
    return static_cast<const Real*>(source);
  code_.widen(source, storage, stride, width, scratch);
  return scratch;
}

// Per term and row: its log-sum, and the sum over keys of weight times weight gradient, which is the
// output's gradient times the term's output.
template <class Real>
void BackwardWave<Real>::find_deltas(int64_t local_head, Range rows, Real* scratch) const {
  const int64_t batch = (first_head_ + local_head) / shape_.heads,
                head = (first_head_ + local_head) % shape_.heads;
  const int64_t places = shape_.batch * shape_.heads * shape_.queries;
  const auto* log_sums = static_cast<const Real*>(saved_.log_sums);
  const auto* log_sum_gradients = static_cast<const Real*>(saved_.log_sum_gradients);
  const Slots<Real>& slots = context_.forward_slots.at(batch, head);
  Real* memory = head_memory(local_head);
  const PlainRows<Real> gradient = rows_of(saved_.output_gradient, batch, head, memory + gradient_rows_);
  int64_t norm = 0;
  for (size_t index = 0; index < plan_.terms.size(); ++index) {
    const Term& term = plan_.terms[index];
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const int64_t place = (batch * shape_.heads + head) * shape_.queries + row;
      const int64_t at = static_cast<int64_t>(index) * shape_.queries + row;
      memory[log_sums_ + at] = term.norm ? log_sums[norm * places + place] : Real{0};
      Real delta = code_.dot(gradient.data + row * gradient.stride,
                             output_row(index, batch, head, row, scratch), context_.value_columns);
      if (!plan_.row_targets.empty()) memory[dots_ + at] = delta;
      if (term.norm && !term.inside && !term.unit) delta *= slots.scalar(term.coefficient, row);
      // What the log-sum passes on reaches the arguments in the same way, with the opposite sign.
      if (term.norm && log_sum_gradients) delta -= log_sum_gradients[norm * places + place];
      memory[deltas_ + at] = delta;
    }
    norm += term.norm.has_value();
  }
}

template <class Real>
Real BackwardWave<Real>::scale_of_key(size_t vector) const {
  for (size_t product = 0; product < plan_.products.size(); ++product)
    if (plan_.products[product].key_vector == static_cast<int>(vector)) return uniform_scale(product);
  return 1;
}

template <class Real>
Real BackwardWave<Real>::scale_of_query(size_t vector) const {
  for (size_t product = 0; product < plan_.products.size(); ++product)
    if (plan_.products[product].query_vector == static_cast<int>(vector)) return uniform_scale(product);
  return 1;
}

template <class Real>
Real BackwardWave<Real>::uniform_scale(size_t product) const {
  return context_.scale_varies() ? Real{1} : context_.scale(product, context_.forward_slots.at(0, 0));
}

template class BackwardWave<float>;
template class BackwardWave<double>;

}  // namespace saccade::kernels
