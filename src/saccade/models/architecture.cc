// Checks what a file claims before anything is allocated.
#include "saccade/models/architecture.h"

#include "saccade/base/error.h"

namespace saccade {
namespace {
constexpr int64_t kMost = int64_t{1} << 24;
}

void Architecture::check(const std::string& where) const {
  const auto size = [&](const char* name, int64_t value, int64_t least = 1, int64_t most = kMost) {
    require(value >= least && value <= most, "{}: {} is {}; expected {} to {}", where, name, value, least,
            most);
  };
  size("the vocabulary", vocabulary);
  size("the width", width, 1, 1 << 17);
  size("the number of layers", layers, 1, 1 << 12);
  size("the number of heads", heads, 1, 1 << 12);
  size("the number of key heads", kv_heads, 1, heads);
  size("the width of a head", head_dim, 1, 1 << 12);
  size("the inner width", inner, 1, 1 << 20);
  size("the context", context, 1, int64_t{1} << 31);
  require(heads % kv_heads == 0, "{}: {} heads cannot share {} key heads evenly", where, heads, kv_heads);
  require(!rotary || head_dim % 2 == 0, "{}: heads of width {} cannot be turned in pairs", where, head_dim);
  require(norm_epsilon > 0 && norm_epsilon < 1,
          "{}: the norm's epsilon is {}; expected more than 0, less than 1", where, norm_epsilon);
  require(windows.empty() || static_cast<int64_t>(windows.size()) == layers,
          "{}: there are {} windows; expected one for each of {} layers", where, windows.size(), layers);
  require(dropout >= 0 && dropout < 1, "{}: a dropout of {}; expected 0 or more, less than 1", where,
          dropout);
  require(encoder_layers >= 0 && encoder_layers <= 1 << 12,
          "{}: the number of encoder layers is {}; expected 0 to {}", where, encoder_layers, 1 << 12);
  require(encoder_layers == 0 || (head == HeadKind::language_model && order == BlockOrder::norm_before &&
                                  causal && embedded_qkv == EmbeddedQkv::none && token_types == 0),
          "{}: an encoder goes with a causal language model that has its norms before, and queries, keys and "
          "values by projection",
          where);
  require(head != HeadKind::classifier || labels > 0, "{}: a classifier without labels", where);
}

Architecture Architecture::encoder() const {
  Architecture result = *this;
  result.head = HeadKind::none;
  result.causal = false;
  result.layers = encoder_layers;
  result.encoder_layers = 0;
  result.windows.clear();
  return result;
}

Formula Architecture::formula(int64_t layer) const {
  if (!causal) return Formula::load("full");
  if (window(layer) > 0) return Formula::load("window", {{"w", static_cast<double>(window(layer))}});
  return Formula::load("causal");
}

}  // namespace saccade
