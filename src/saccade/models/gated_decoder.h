// What Llama and the families after it share: their configuration's keys and their weights' names.
#pragma once

#include "saccade/models/families.h"

namespace saccade {

// Everything but what differs: biases, norms of queries and keys, windows.
Architecture gated_decoder_from_hub(const HubConfig& config, std::string_view activation_key);
Json gated_decoder_to_hub(const Architecture& architecture, std::string_view activation_key);
// `prefix` is that of the metadata's keys: "llama".
Architecture gated_decoder_from_gguf(const Gguf& file, const std::string& prefix);

// `norm`: how norms are stored.
std::vector<WeightRule> gated_decoder_hub_weights(const Architecture& architecture, WeightForm norm);
// `rotary`: how the rows of queries and keys are stored.
std::vector<WeightRule> gated_decoder_gguf_weights(const Architecture& architecture, WeightForm rotary);

// By layer: 0 for "full_attention", `window` for "sliding_attention". Empty when all layers look all the way.
std::vector<int64_t> read_layer_types(const HubConfig& config, int64_t layers, int64_t window);

}  // namespace saccade
