// Packing goes panel by panel; the last panel of a head is filled up with zeros.
#include "saccade/kernels/key_store.h"

#include <omp.h>

namespace saccade::kernels {
namespace {

// Beyond this the packed keys of more heads would only push each other out of the caches.
constexpr int64_t kStoreBytes = int64_t{8} << 20;

// A padded row may hold NaN, which a copy replaces.
template <class Real>
bool padded(const CallContext<Real>& context) {
  return context.plan.key_mask_table >= 0;
}

}  // namespace

template <class Real>
KeyPacker<Real>::KeyPacker(const CallContext<Real>& context)
    : context_(context),
      values_in_place_(readable<Real>(context.inputs.value) && !padded(context)),  // they are read once
      keys_in_place_(!padded(context)) {
  const Array& value = context.inputs.value;
  narrow_values_ = value.storage == Storage::bfloat16 && value.feature_stride == 1 &&
                   value.width % context.code.lanes == 0 && !padded(context) &&
                   context.inputs.shape.group() * context.inputs.shape.queries <= context.code.few_rows;
  int64_t widest = context.inputs.value.width;
  for (const Array& array : context.score_keys) {
    if (!array) continue;
    keys_in_place_ &= array.storage == storage_of<Real>() && array.feature_stride == 1;
    size_ += round_up(kTileKeys * array.width, 16);
    widest = std::max(widest, array.width);
  }
  size_ += kTileKeys * context.value_columns + kMostPanel * round_up(widest, 16);
}

// Pointers to the keys of a block; those past the last one, up to the end of its panel, repeat it.
template <class Real>
template <class KeyOf>
void KeyPacker<Real>::point(KeyBlock<Real>& block, size_t vector, int64_t pair, const KeyOf& key_of) const {
  const Inputs& inputs = context_.inputs;
  const int64_t batch = pair / inputs.shape.key_heads, head = pair % inputs.shape.key_heads;
  block.rows.resize(context_.score_keys.size());
  std::vector<const Real*>& rows = block.rows[vector];
  rows.resize(static_cast<size_t>(round_up(block.count, context_.code.panel)));
  const Array& array = context_.score_keys[vector];
  const auto* base = reinterpret_cast<const Real*>(row_address(array, batch, head, 0));
  for (int64_t k = 0; k < static_cast<int64_t>(rows.size()); ++k)
    rows[static_cast<size_t>(k)] = base + key_of(std::min(k, block.count - 1)) * array.token_stride;
}

template <class Real>
void KeyPacker<Real>::pack(KeyBlock<Real>& block, int64_t pair, Range keys, bool few, Real* scratch) const {
  const Inputs& inputs = context_.inputs;
  const Primitives<Real>& code = context_.code;
  const int64_t batch = pair / inputs.shape.key_heads, head = pair % inputs.shape.key_heads;
  const Real* real = context_.real_keys(batch);
  block.first = keys.begin;
  block.count = keys.size();
  block.picked = nullptr;
  block.panels.assign(context_.score_keys.size(), nullptr);
  Real* rows =
      scratch + size_ - kMostPanel * round_up(std::max(context_.widest_key(), inputs.value.width), 16);
  for (size_t index = 0; index < context_.score_keys.size(); ++index) {
    const Array& array = context_.score_keys[index];
    if (!array) continue;
    if (few) {
      point(block, index, pair, [&](int64_t k) { return keys.begin + k; });
      continue;
    }
    block.panels[index] = scratch;
    for (int64_t first = keys.begin; first < keys.end; first += code.panel) {
      pack_panel(array, batch, head, first, keys.end, real, rows,
                 scratch + (first - keys.begin) * array.width);
    }
    scratch += round_up(kTileKeys * array.width, 16);
  }
  const std::byte* first_value = row_address(inputs.value, batch, head, keys.begin);
  block.value_stride = inputs.value.token_stride;
  if (values_in_place_) {
    block.values = reinterpret_cast<const Real*>(first_value);
  } else if (narrow_values_) {
    block.narrow_values = reinterpret_cast<const uint16_t*>(first_value);
  } else {
    load_rows(inputs.value, batch, head, keys, real, scratch, context_.value_columns);
    block.values = scratch;
    block.value_stride = context_.value_columns;
  }
}

template <class Real>
void KeyPacker<Real>::pick(KeyBlock<Real>& block, int64_t pair, const int32_t* picked, int64_t count,
                           bool few, Real* scratch) const {
  const Inputs& inputs = context_.inputs;
  const Primitives<Real>& code = context_.code;
  const int64_t batch = pair / inputs.shape.key_heads, head = pair % inputs.shape.key_heads;
  const Real* real = context_.real_keys(batch);
  block.first = 0;
  block.count = count;
  block.picked = picked;
  block.panels.assign(context_.score_keys.size(), nullptr);
  Real* rows =
      scratch + size_ - kMostPanel * round_up(std::max(context_.widest_key(), inputs.value.width), 16);
  for (size_t index = 0; index < context_.score_keys.size(); ++index) {
    const Array& array = context_.score_keys[index];
    if (!array) continue;
    if (few) {
      point(block, index, pair, [&](int64_t k) { return int64_t{picked[k]}; });
      continue;
    }
    block.panels[index] = scratch;
    const int64_t stride = round_up(array.width, code.lanes);
    for (int64_t first = 0; first < count; first += code.panel) {
      const int64_t used = std::min(code.panel, count - first);
      for (int64_t k = 0; k < used; ++k)
        load_rows(array, batch, head, {picked[first + k], picked[first + k] + 1}, real, rows + k * stride,
                  stride);
      code.transpose(rows, stride, used, array.width, scratch + first * array.width, code.panel, code.panel);
    }
    scratch += round_up(kTileKeys * array.width, 16);
  }
  // For few queries a copy takes longer than it saves.
  block.value_rows.clear();
  if (few && values_in_place_) {
    const auto* base = reinterpret_cast<const Real*>(row_address(inputs.value, batch, head, 0));
    block.value_rows.resize(static_cast<size_t>(count));
    for (int64_t k = 0; k < count; ++k)
      block.value_rows[static_cast<size_t>(k)] = base + picked[k] * inputs.value.token_stride;
    return;
  }
  for (int64_t k = 0; k < count; ++k)
    load_rows(inputs.value, batch, head, {picked[k], picked[k] + 1}, real,
              scratch + k * context_.value_columns, context_.value_columns);
  block.values = scratch;
  block.value_stride = context_.value_columns;
}

template <class Real>
KeyStore<Real>::KeyStore(const CallContext<Real>& context)
    : context_(context),
      values_in_place_(in_place<Real>(context.inputs.value) && !padded(context)),
      value_stride_(copy_stride<Real>(context.inputs.value.width)) {
  const Inputs& inputs = context.inputs;
  padded_keys_ = round_up(inputs.shape.keys, context.code.panel);
  for (const Array& array : context.score_keys) {
    offsets_.push_back(pair_size_);
    if (array) pair_size_ += round_up(padded_keys_ * array.width, 16);
  }
  value_offset_ = pair_size_;
  if (!values_in_place_) pair_size_ += padded_keys_ * value_stride_;
  pair_size_ += 64;  // heads begin in different cache sets
  const int64_t pairs = inputs.shape.batch * inputs.shape.key_heads;
  const int64_t bytes = pair_size_ * static_cast<int64_t>(sizeof(Real));
  capacity_ = std::clamp<int64_t>(kStoreBytes / std::max<int64_t>(bytes, 1), 1, pairs);
  // As many in the last wave as in the others, so that no thread is left without work.
  const int64_t waves = (pairs + capacity_ - 1) / capacity_;
  capacity_ = (pairs + waves - 1) / waves;
  memory_ = std::make_unique<Workspace>(static_cast<size_t>(capacity_ * bytes));
}

template <class Real>
void KeyStore<Real>::pack(int64_t first, int64_t count) {
  const Inputs& inputs = context_.inputs;
  const Primitives<Real>& code = context_.code;
  first_ = first;
  const int64_t blocks = (inputs.shape.keys + kTileKeys - 1) / kTileKeys;
  auto* memory = reinterpret_cast<Real*>(memory_->data());
#pragma omp parallel
  {
    std::vector<Real> rows(static_cast<size_t>(kMostPanel * round_up(context_.widest_key(), 16)));
#pragma omp for schedule(static)
    for (int64_t unit = 0; unit < count * blocks; ++unit) {
      const int64_t pair = first + unit / blocks, from = unit % blocks * kTileKeys;
      const int64_t to = std::min(from + kTileKeys, inputs.shape.keys);
      const int64_t batch = pair / inputs.shape.key_heads, head = pair % inputs.shape.key_heads;
      const Real* real = context_.real_keys(batch);
      Real* base = memory + (pair - first) * pair_size_;
      for (size_t index = 0; index < context_.score_keys.size(); ++index) {
        const Array& array = context_.score_keys[index];
        if (!array) continue;
        for (int64_t key = from; key < to; key += code.panel)
          pack_panel(array, batch, head, key, inputs.shape.keys, real, rows.data(),
                     base + offsets_[index] + key * array.width);
      }
      if (!values_in_place_)
        load_rows(inputs.value, batch, head, {from, to}, real, base + value_offset_ + from * value_stride_,
                  value_stride_);
    }
  }
}

template <class Real>
void KeyStore<Real>::fill(KeyBlock<Real>& block, int64_t pair, int64_t key, int64_t count) const {
  const Inputs& inputs = context_.inputs;
  const auto* base = reinterpret_cast<const Real*>(memory_->data()) + (pair - first_) * pair_size_;
  block.first = key;
  block.count = count;
  block.picked = nullptr;
  block.panels.assign(context_.score_keys.size(), nullptr);
  for (size_t index = 0; index < context_.score_keys.size(); ++index)
    if (const Array& array = context_.score_keys[index])
      block.panels[index] = base + offsets_[index] + key * array.width;
  if (values_in_place_) {
    block.values = reinterpret_cast<const Real*>(
        row_address(inputs.value, pair / inputs.shape.key_heads, pair % inputs.shape.key_heads, key));
    block.value_stride = inputs.value.token_stride;
  } else {
    block.values = base + value_offset_ + key * value_stride_;
    block.value_stride = value_stride_;
  }
}

template class KeyPacker<float>;
template class KeyPacker<double>;
template class KeyStore<float>;
template class KeyStore<double>;

}  // namespace saccade::kernels
