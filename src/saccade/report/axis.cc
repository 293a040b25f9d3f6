// Ticks stand at 1, 2 or 5 times a power of ten, or at powers of ten on a logarithmic axis. Differences are
// taken in long double, which holds them even between the ends of double.
#include "saccade/report/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace saccade {
namespace {

using Wide = long double;

// A name for a power: bytes go by 1024, the others by 1000.
struct Step {
  double factor;
  const char* name;
};
constexpr Step kNumbers[] = {{1, ""}, {1e3, "k"}, {1e6, "M"}, {1e9, "G"}, {1e12, "T"}};
constexpr Step kBytes[] = {
    {1, " B"}, {1024, " KiB"}, {1048576, " MiB"}, {1073741824, " GiB"}, {1099511627776, " TiB"}};
constexpr Step kSeconds[] = {{1e-9, " ns"}, {1e-6, " µs"}, {1e-3, " ms"}, {1, " s"}};
constexpr Step kShares[] = {{0.01, " %"}};

std::span<const Step> steps_of(Unit unit) {
  switch (unit) {
    case Unit::bytes:
      return kBytes;
    case Unit::seconds:
      return kSeconds;
    case Unit::share:
      return kShares;
    case Unit::number:
      break;
  }
  return kNumbers;
}

// The largest step that is not above a value. Numbers below 10 000 need none.
const Step& step_for(double largest, Unit unit) {
  const std::span<const Step> steps = steps_of(unit);
  if (unit == Unit::number && largest < 1e4) return steps.front();
  const Step* found = &steps.front();
  for (const Step& step : steps)
    if (step.factor <= largest * (1 + 1e-9)) found = &step;
  return *found;
}

std::string raised(int exponent) {
  static constexpr const char* kDigits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text = exponent < 0 ? "⁻" : "";
  for (const char digit : std::to_string(std::abs(exponent))) text += kDigits[digit - '0'];
  return text;
}

int exponent_of(double value) { return static_cast<int>(std::floor(std::log10(std::abs(value)) + 1e-9)); }

std::string with_minus(std::string text) {
  if (text.starts_with('-')) text.replace(0, 1, "−");
  return text;
}

std::string without_end_zeros(std::string text) {
  if (text.find('.') == std::string::npos) return text;
  while (text.ends_with('0')) text.pop_back();
  if (text.ends_with('.')) text.pop_back();
  return text;
}

// mantissa · 10ⁿ
std::string scientific(double value, int digits) {
  int exponent = exponent_of(value);
  std::string mantissa = without_end_zeros(fmt::format("{:.{}f}", value / std::pow(10.0, exponent), digits));
  if (mantissa == "10" || mantissa == "-10") {
    mantissa = mantissa.substr(0, mantissa.size() - 1);
    ++exponent;
  }
  const std::string power = "10" + raised(exponent);
  return mantissa == "1" ? power : mantissa == "-1" ? "−" + power : with_minus(mantissa) + "·" + power;
}

bool plain(double largest, Unit unit) { return unit != Unit::number || (largest < 1e15 && largest >= 1e-4); }

// The smallest of 1, 2 and 5 times a power of ten that is not below `value`.
Wide nice_step(Wide value) {
  const Wide power = std::pow(Wide{10}, std::floor(std::log10(value)));
  for (const Wide factor : {1, 2, 5})
    if (factor * power >= value * (1 - Wide{1e-9})) return factor * power;
  return 10 * power;
}

// All ticks of a linear axis with one unit and as many decimals as their distance asks for.
std::vector<Tick> label_linear(const std::vector<double>& values, Wide step, Unit unit) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  const Step& scale = step_for(largest, unit);
  const Wide shown_step = step / scale.factor;
  const int decimals = std::clamp(static_cast<int>(-std::floor(std::log10(shown_step) + Wide{1e-9})), 0, 12);
  const int digits =
      largest > 0 ? std::clamp(exponent_of(largest) - exponent_of(static_cast<double>(step)), 0, 12) : 0;
  std::vector<Tick> ticks;
  for (const double value : values)
    ticks.push_back(
        {value, value == 0 ? "0"
                : plain(largest, unit)
                    ? with_minus(fmt::format("{:.{}f}", value / scale.factor, decimals)) + scale.name
                    : scientific(value, digits)});
  return ticks;
}

}  // namespace

bool Range::shows(double value) const { return std::isfinite(value) && (!log_ || value > 0); }

void Range::add(double value) {
  if (!shows(value)) return;
  low_ = std::min(low_, value);
  high_ = std::max(high_, value);
}

void Range::add(std::span<const double> values) {
  for (const double value : values) add(value);
}

void Range::add(const Range& other) {
  add(other.low_);
  add(other.high_);
}

Axis::Axis(const Range& range, const AxisOptions& options, int wanted) : log_(range.log()) {
  Range whole = range;
  for (const auto& end : {options.low, options.high})
    if (end) whole.add(*end);
  low_ = whole.empty()                              ? (log_ ? 1 : 0)
         : options.low && whole.shows(*options.low) ? *options.low
                                                    : whole.low();
  high_ = whole.empty()                                ? (log_ ? 10 : 1)
          : options.high && whole.shows(*options.high) ? *options.high
                                                       : whole.high();
  if (low_ > high_) std::swap(low_, high_);
  wanted = std::max(wanted, 2);
  if (log_) {
    if (high_ / low_ < 1 + 1e-9) {  // one value: in the middle of some room
      low_ = std::max(low_ / 2, std::numeric_limits<double>::min());
      high_ = std::min(std::max(high_, low_) * 2, std::numeric_limits<double>::max());
    }
    choose_log(options, wanted);
  } else {
    const Wide span = Wide{high_} - low_, size = std::max(std::abs(low_), std::abs(high_));
    if (span <= size * Wide{1e-12} || span == 0) {
      const Wide room = size > 0 ? size / 10 : Wide{1};
      const Wide limit = std::numeric_limits<double>::max();
      low_ = static_cast<double>(std::max(low_ - room, -limit));
      high_ = static_cast<double>(std::min(high_ + room, limit));
    }
    choose_linear(options, wanted);
  }
  if (!options.ticks.empty()) {
    ticks_.clear();
    for (const double value : options.ticks)
      if (shows(value)) ticks_.push_back({value, number_text(value, options.unit)});
  }
}

void Axis::choose_linear(const AxisOptions& options, int wanted) {
  // Bytes are counted in powers of 1024 and shares in hundredths: round numbers are round in these.
  const double factor = options.unit == Unit::bytes
                            ? step_for(std::max(std::abs(low_), std::abs(high_)), options.unit).factor
                            : 1;
  const Wide step = nice_step((Wide{high_} - low_) / factor / wanted) * factor;
  Wide first = std::floor(low_ / step + Wide{1e-9}), last = std::ceil(high_ / step - Wide{1e-9});
  // Out to the next tick where that is near, so that little of the frame stays empty; otherwise a little
  // room.
  const Wide limit = std::numeric_limits<double>::max(), room = (Wide{high_} - low_) / 40;
  const auto out = [&](Wide end, Wide tick, Wide padded) {
    const Wide chosen = std::abs(end - tick) <= step * Wide{0.55} ? tick : padded;
    return static_cast<double>(std::clamp(chosen, -limit, limit));
  };
  if (options.round_out && !options.low) low_ = out(low_, first * step, low_ - room);
  if (options.round_out && !options.high) high_ = out(high_, last * step, high_ + room);
  std::vector<double> values;
  for (Wide index = first; index <= last; ++index) {
    const double value = static_cast<double>(index * step);
    if (std::isfinite(value) && shows(value)) values.push_back(value);
  }
  ticks_ = label_linear(values, step, options.unit);
}

void Axis::choose_log(const AxisOptions& options, int wanted) {
  const double base = options.unit == Unit::bytes ? 1024 : 10;
  const double decades = std::log10(high_ / low_);
  // Few decades have room for ticks between the powers; less than that is almost linear.
  if (base == 10 && std::isfinite(decades) && decades < 0.7) {
    const Wide step = nice_step((Wide{high_} - low_) / wanted);
    std::vector<double> values;
    for (Wide index = std::ceil(low_ / step - Wide{1e-9}); index * step <= high_ * (1 + Wide{1e-12}); ++index)
      values.push_back(static_cast<double>(index * step));
    ticks_ = label_linear(values, step, options.unit);
    return;
  }
  const int first = static_cast<int>(std::floor(std::log(low_) / std::log(base) + 1e-9));
  const int last = static_cast<int>(std::ceil(std::log(high_) / std::log(base) - 1e-9));
  std::vector<double> factors = {1};
  int every = 1;
  if (base == 1024 && (last - first) * 10 <= wanted * 5) {
    // Powers of two, as many as there is room for.
    const double doublings = std::log2(high_ / low_);
    const int bits = doublings <= wanted ? 1 : doublings <= 2 * wanted ? 2 : 5;
    for (int bit = bits; bit < 10; bit += bits) factors.push_back(std::exp2(bit));
  } else if (base == 10 && decades * 3 <= wanted + 1) {
    factors = {1, 2, 5};
  } else {
    every = std::max(1, static_cast<int>(std::ceil((last - first) / static_cast<double>(wanted))));
  }
  std::vector<double> values;
  for (int exponent = first - ((first % every) + every) % every; exponent <= last; exponent += every)
    for (const double factor : factors) {
      const double value = factor * std::pow(base, exponent);
      if (value > 0 && std::isfinite(value)) values.push_back(value);
    }
  if (options.round_out) {
    // Out to the nearest tick; the pixels between are better used by data where a decade is wide.
    for (const double value : values)
      if (!options.low && value <= low_ * (1 + 1e-9) && value * 10.5 > low_) low_ = std::min(low_, value);
    const auto below = [&](double value) { return value < low_ * (1 - 1e-9); };
    std::erase_if(values, below);
    const auto above =
        std::ranges::find_if(values, [&](double value) { return value >= high_ * (1 - 1e-9); });
    if (above != values.end() && !options.high && *above < high_ * 10.5) high_ = std::max(high_, *above);
  }
  double largest = 0, smallest = std::numeric_limits<double>::infinity();
  std::erase_if(values, [&](double value) { return !shows(value); });
  for (const double value : values) {
    largest = std::max(largest, value);
    smallest = std::min(smallest, value);
  }
  // Powers are written alike along an axis: 0.01, 0.1, 1, or all as 10ⁿ.
  const bool powers = options.unit == Unit::number && (smallest < 9e-4 || largest > 1.1e9);
  for (const double value : values)
    ticks_.push_back({value, powers ? scientific(value, 0) : number_text(value, options.unit)});
}

double Axis::place(double value) const {
  if (log_) return (std::log(value) - std::log(low_)) / (std::log(high_) - std::log(low_));
  return static_cast<double>((Wide{value} - low_) / (Wide{high_} - low_));
}

bool Axis::shows(double value) const {
  if (!std::isfinite(value) || (log_ && value <= 0)) return false;
  const double at = place(value);
  return at >= -1e-9 && at <= 1 + 1e-9;
}

std::string number_text(double value, Unit unit) {
  if (std::isnan(value)) return "none";
  if (std::isinf(value)) return value > 0 ? "∞" : "−∞";
  if (value == 0) return "0";
  const double size = std::abs(value);
  if (!plain(size, unit)) return scientific(value, 2);
  if (unit == Unit::number && size < 1e5 && value == std::trunc(value))
    return with_minus(fmt::format("{:.0f}", value));
  const Step& scale = step_for(size, unit);
  const double shown = value / scale.factor;
  // Three digits, and all of those before the point.
  const int decimals = std::clamp(2 - exponent_of(shown), 0, 7);
  return with_minus(without_end_zeros(fmt::format("{:.{}f}", shown, decimals))) + scale.name;
}

}  // namespace saccade
