// The table of checks: one row per property, in the order in which they are shown.
#include <cmath>

#include "saccade/certify/conformance.h"
#include "saccade/certify/properties.h"

namespace saccade {
namespace {

std::string always(const Formula&) { return ""; }

std::string needs_decoding(const Formula& formula) {
  const Decoding& decoding = formula.plan().decoding;
  return decoding.possible ? "" : "it cannot decode: " + decoding.reason;
}

std::string needs_no_vectors(const Formula& formula) {
  for (const VectorInfo& vector : formula.plan().vectors)
    if (vector.used)
      return "it computes vectors of its own, which are rotated too; the cache checks cover them";
  return "";
}

bool any_case(const Case&) { return true; }
bool small(const Case& c) { return c.queries <= 12; }
bool is_sequence(const Case& c) { return c.queries == c.keys && c.offset == 0; }
bool several_tokens(const Case& c) { return is_sequence(c) && c.queries > 1; }
bool grouped(const Case& c) { return c.kv_heads < c.heads; }
bool with_rotary(const Case& c) { return c.head_dim % 2 == 0 && is_sequence(c); }
bool one_sequence_or_more(const Case& c) { return is_sequence(c) && c.queries <= 40; }
bool small_sequence(const Case& c) { return is_sequence(c) && c.queries <= 12; }

constexpr Check kChecks[] = {
    {"definition",
     "The output, the log-sums and the weights are those of the formula, computed pair by pair.", always,
     any_case, properties::definition},
    {"shapes", "Every batch size, head count, width and pair of lengths gives an output of the right shape.",
     always, any_case, properties::shapes},
    {"broadcasting", "Each sequence of a batch gives what it gives alone.", always, any_case,
     properties::broadcasting},
    {"grouped-heads", "Query head h uses key head h / (heads / key heads).", always, grouped,
     properties::grouped_heads},
    {"rotary", "Rotary embedding turns queries and keys by their positions, and nothing else.",
     needs_no_vectors, with_rotary, properties::rotary},
    {"non-contiguous", "Transposed and strided inputs give the same result as contiguous ones.", always,
     any_case, properties::non_contiguous},
    {"dtypes", "bfloat16 and half inputs give the float result within their rounding.", always, small,
     properties::dtypes},
    {"causality", "No output changes when later tokens change.", needs_decoding, several_tokens,
     properties::causality},
    {"cache-tokens", "Decoding token by token equals the full forward.", needs_decoding, is_sequence,
     properties::cache_tokens},
    {"cache-chunks", "Decoding in chunks equals the full forward.", needs_decoding, several_tokens,
     properties::cache_chunks},
    {"cache-reset", "A cache that was used and reset gives the same as a new one.", needs_decoding,
     is_sequence, properties::cache_reset},
    {"cache-crop", "After tokens are taken back, decoding goes on as if they had never been.", needs_decoding,
     several_tokens, properties::cache_crop},
    {"cache-reorder", "After beams are exchanged, each goes on from its new past.", needs_decoding,
     several_tokens, properties::cache_reorder},
    {"padding", "Padded keys change nothing, whatever they hold.", always, one_sequence_or_more,
     properties::padding},
    {"masked-rows", "A row with no allowed key gives 0, a log-sum of -inf and zero gradients.", always,
     small_sequence, properties::masked_rows},
    {"gradients", "Gradients equal finite differences in double precision, for every input and parameter.",
     always, small, properties::gradients},
    {"gradients-at-bounds", "The same with every parameter at either of its bounds.",
     [](const Formula& formula) -> std::string {
       for (const TableInfo& table : formula.plan().tables)
         if (table.source == TableInfo::Source::param &&
             (std::isfinite(table.low) || std::isfinite(table.high)))
           return "";
       return "no parameter has bounds";
     },
     small_sequence, properties::gradients_at_bounds},
    {"gradients-against-reference",
     "Gradients of output and log-sums equal those of the definition, with and without padding.", always,
     any_case, properties::gradients_against_reference, cases_with_tiles},
    {"finite-gradients", "No gradient is NaN or infinite, also at d = 0 and for repeated tokens.", always,
     any_case, properties::finite_gradients},
    {"repeated-tokens", "Equal values come back multiplied by the row's total weight.", always, any_case,
     properties::repeated_tokens},
    {"extreme-values",
     "Very large and very small queries and keys give what the formula says, without overflow on the way.",
     always, small, properties::extreme_values},
    {"precision",
     "In float, nothing is further from the exact result than 4 times the definition's own error.", always,
     any_case, properties::precision, cases_with_tiles},
    {"sizes", "Lengths and widths of every remainder give the definition's result and gradients.", always,
     any_case, properties::sizes, size_cases},
    {"lists", "With lists of keys, the result and gradients are those of all other keys masked.", always,
     any_case, properties::lists, cases_with_tiles},
    {"skipping", "Leaving out what the mask empties changes no bit, forward and backward.", always, any_case,
     properties::skipping, cases_with_tiles},
    {"deterministic", "Two runs give the same bits, forward and backward.", always, any_case,
     properties::deterministic, cases_with_tiles},
    {"threads", "1, 2 and 3 threads give the same bits, forward and backward.", always, any_case,
     properties::threads, cases_with_tiles},
};

}  // namespace

std::span<const Check> checks() { return kChecks; }

}  // namespace saccade
