// A block of keys is loaded once for all groups; two vectors of it at once keep the multipliers busy.
#include "saccade/kernels/far_weights.h"

#include "saccade/kernels/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "saccade/kernels/far_weights.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "saccade/kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace saccade::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Beyond this a key would outweigh all near ones by e^60: it is kept in any case.
constexpr float kHighest = 60.0F;

template <int Groups>
HWY_INLINE void weigh_groups(const FarTask& task) {
  const hn::CappedTag<float, kKeyBlock> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  using V = hn::Vec<decltype(d)>;
  const int64_t width = task.rank + 1;
  V sums[Groups];
  float shifts[Groups];
  for (int g = 0; g < Groups; ++g) {
    sums[g] = hn::Zero(d);
    shifts[g] = task.groups[g * width + task.rank] - task.near[g];
  }
  const auto highest = hn::Set(d, kHighest);
  for (int64_t block = task.begin / kKeyBlock; block * kKeyBlock < task.end; ++block) {
    const float* keys = task.keys.data + block * task.keys.block_stride;
    const int64_t stride = task.keys.feature_stride;
    const bool whole = block * kKeyBlock >= task.begin && (block + 1) * kKeyBlock <= task.end;
    for (int64_t at = 0; at < kKeyBlock; at += 2 * lanes) {
      const bool second = at + lanes < kKeyBlock;
      V a[Groups], b[Groups];
      const V key_term = hn::LoadU(d, keys + task.rank * stride + at);
      const V next_term = second ? hn::LoadU(d, keys + task.rank * stride + at + lanes) : key_term;
#pragma GCC unroll 4
      for (int g = 0; g < Groups; ++g) {
        a[g] = hn::Add(key_term, hn::Set(d, shifts[g]));
        b[g] = hn::Add(next_term, hn::Set(d, shifts[g]));
      }
      for (int64_t f = 0; f < task.rank; ++f) {
        const V x = hn::LoadU(d, keys + f * stride + at);
        const V y = second ? hn::LoadU(d, keys + f * stride + at + lanes) : x;
#pragma GCC unroll 4
        for (int g = 0; g < Groups; ++g) {
          const V factor = hn::Set(d, task.groups[g * width + f]);
          a[g] = hn::MulAdd(factor, x, a[g]);
          b[g] = hn::MulAdd(factor, y, b[g]);
        }
      }
      const auto finish = [&](int g, V value, int64_t first) HWY_ATTR {
        V e = exponential(d, hn::Min(value, highest));
        const int64_t key = block * kKeyBlock + first;
        float* out = task.exponentials + g * task.stride + key;
        if (whole) {
          hn::StoreU(e, d, out);
        } else {
          const hn::RebindToSigned<decltype(d)> di;
          const auto numbers = hn::Iota(di, static_cast<int32_t>(key));
          const auto inside = hn::And(hn::Gt(numbers, hn::Set(di, static_cast<int32_t>(task.begin - 1))),
                                      hn::Lt(numbers, hn::Set(di, static_cast<int32_t>(task.end))));
          // A second range may begin in this block: what is outside is left alone.
          hn::BlendedStore(e, hn::RebindMask(d, inside), d, out);
          e = hn::IfThenElseZero(hn::RebindMask(d, inside), e);
        }
        sums[g] = hn::Add(sums[g], e);
      };
#pragma GCC unroll 4
      for (int g = 0; g < Groups; ++g) {
        finish(g, a[g], at);
        if (second) finish(g, b[g], at + lanes);
      }
    }
  }
  for (int g = 0; g < Groups; ++g) task.sums[g] = hn::GetLane(hn::SumOfLanes(d, sums[g]));
}

void weigh_far_impl(const FarTask& task, int64_t groups) {
  switch (groups) {
    case 1:
      return weigh_groups<1>(task);
    case 2:
      return weigh_groups<2>(task);
    case 3:
      return weigh_groups<3>(task);
    default:
      return weigh_groups<4>(task);
  }
}

template <int Groups>
HWY_INLINE void add_group_squares(const float* HWY_RESTRICT e, int64_t stride, const float* factors,
                                  int64_t begin, int64_t end, float* HWY_RESTRICT total) {
  const hn::CappedTag<float, kKeyBlock> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t j = begin;
  for (; j + lanes <= end; j += lanes) {
    auto sum = hn::LoadU(d, total + j);
#pragma GCC unroll 4
    for (int g = 0; g < Groups; ++g) {
      const auto y = hn::Mul(hn::LoadU(d, e + g * stride + j), hn::Set(d, factors[g]));
      sum = hn::MulAdd(y, y, sum);
    }
    hn::StoreU(sum, d, total + j);
  }
  for (; j < end; ++j)
    for (int g = 0; g < Groups; ++g) {
      const float y = e[g * stride + j] * factors[g];
      total[j] += y * y;
    }
}

void add_squares_impl(const float* e, int64_t stride, const float* factors, int64_t groups, int64_t begin,
                      int64_t end, float* total) {
  switch (groups) {
    case 1:
      return add_group_squares<1>(e, stride, factors, begin, end, total);
    case 2:
      return add_group_squares<2>(e, stride, factors, begin, end, total);
    case 3:
      return add_group_squares<3>(e, stride, factors, begin, end, total);
    default:
      return add_group_squares<4>(e, stride, factors, begin, end, total);
  }
}

void pool_rows_impl(const float* rows, int64_t stride, int64_t count, int64_t width, float scale,
                    float* out) {
  const hn::CappedTag<float, kKeyBlock> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, scale), share = hn::Set(d, 1.0F / static_cast<float>(count));
  int64_t k = 0;
  for (; k + lanes <= width; k += lanes) {
    auto sum = hn::Mul(hn::LoadU(d, rows + k), factor);
    auto largest = sum, smallest = sum;
    for (int64_t row = 1; row < count; ++row) {
      const auto value = hn::Mul(hn::LoadU(d, rows + row * stride + k), factor);
      sum = hn::Add(sum, value);
      largest = hn::Max(largest, value);
      smallest = hn::Min(smallest, value);
    }
    hn::StoreU(hn::Mul(sum, share), d, out + k);
    hn::StoreU(largest, d, out + width + k);
    hn::StoreU(smallest, d, out + 2 * width + k);
  }
  for (; k < width; ++k) {
    float sum = 0, largest = rows[k] * scale, smallest = largest;
    for (int64_t row = 0; row < count; ++row) {
      const float value = rows[row * stride + k] * scale;
      sum += value;
      largest = value > largest ? value : largest;
      smallest = value < smallest ? value : smallest;
    }
    out[k] = sum / static_cast<float>(count);
    out[width + k] = largest;
    out[2 * width + k] = smallest;
  }
}

int64_t passing_impl(const float* total, float limit, int64_t begin, int64_t end, int32_t* out) {
  const hn::CappedTag<float, kKeyBlock> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t count = 0, j = begin;
  const auto bound = hn::Set(d, limit);
  for (; j + lanes <= end; j += lanes) {
    const auto mask = hn::Ge(hn::LoadU(d, total + j), bound);
    if (hn::AllFalse(d, mask)) continue;
    count += static_cast<int64_t>(
        hn::CompressStore(hn::Iota(di, static_cast<int32_t>(j)), hn::RebindMask(di, mask), di, out + count));
  }
  for (; j < end; ++j)
    if (total[j] >= limit) out[count++] = static_cast<int32_t>(j);
  return count;
}

}  // namespace saccade::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace saccade::kernels {

HWY_EXPORT(weigh_far_impl);
HWY_EXPORT(add_squares_impl);
HWY_EXPORT(pool_rows_impl);
HWY_EXPORT(passing_impl);

void weigh_far(const FarTask& task, int64_t groups) {
  choose_target();
  HWY_DYNAMIC_DISPATCH(weigh_far_impl)(task, groups);
}

void add_squares(const float* e, int64_t stride, const float* factors, int64_t groups, int64_t begin,
                 int64_t end, float* total) {
  choose_target();
  HWY_DYNAMIC_DISPATCH(add_squares_impl)(e, stride, factors, groups, begin, end, total);
}

void pool_rows(const float* rows, int64_t stride, int64_t count, int64_t width, float scale, float* out) {
  choose_target();
  HWY_DYNAMIC_DISPATCH(pool_rows_impl)(rows, stride, count, width, scale, out);
}

int64_t passing(const float* total, float limit, int64_t begin, int64_t end, int32_t* out) {
  choose_target();
  return HWY_DYNAMIC_DISPATCH(passing_impl)(total, limit, begin, end, out);
}

}  // namespace saccade::kernels
#endif
