// The properties themselves. Each returns what is wrong with the subject in one case, or nothing.
#pragma once

#include <string>

#include "saccade/certify/conformance.h"

namespace saccade::properties {

// properties_values.cc: what a single call gives
std::string definition(const Subject& subject, const Case& c);
std::string shapes(const Subject& subject, const Case& c);
std::string broadcasting(const Subject& subject, const Case& c);
std::string grouped_heads(const Subject& subject, const Case& c);
std::string rotary(const Subject& subject, const Case& c);
std::string non_contiguous(const Subject& subject, const Case& c);
std::string dtypes(const Subject& subject, const Case& c);
std::string repeated_tokens(const Subject& subject, const Case& c);
std::string extreme_values(const Subject& subject, const Case& c);

// properties_decoding.cc: what holds between calls
std::string causality(const Subject& subject, const Case& c);
std::string cache_tokens(const Subject& subject, const Case& c);
std::string cache_chunks(const Subject& subject, const Case& c);
std::string cache_reset(const Subject& subject, const Case& c);
std::string cache_crop(const Subject& subject, const Case& c);
std::string cache_reorder(const Subject& subject, const Case& c);

// properties_gradients.cc: derivatives, and what must not depend on chance
std::string padding(const Subject& subject, const Case& c);
std::string masked_rows(const Subject& subject, const Case& c);
std::string gradients(const Subject& subject, const Case& c);
std::string gradients_at_bounds(const Subject& subject, const Case& c);
std::string finite_gradients(const Subject& subject, const Case& c);
std::string deterministic(const Subject& subject, const Case& c);
std::string threads(const Subject& subject, const Case& c);

// properties_paths.cc: the implementation beside the reference
std::string precision(const Subject& subject, const Case& c);
std::string gradients_against_reference(const Subject& subject, const Case& c);
std::string skipping(const Subject& subject, const Case& c);
std::string lists(const Subject& subject, const Case& c);
std::string sizes(const Subject& subject, const Case& c);

}  // namespace saccade::properties
