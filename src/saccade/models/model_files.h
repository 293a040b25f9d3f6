// Models on disk: a Hugging Face directory or a GGUF file becomes a transformer with its weights, and the
// other way round.
#pragma once

#include <filesystem>
#include <string>

#include "saccade/models/transformer.h"
#include "saccade/weights/checkpoint.h"

namespace saccade {

// Where a model that a person names lies: a path that exists (of a training's folder its best checkpoint), or
// a name that `saccade fetch` or the Hugging Face cache knows. Throws Error with what to do when there is
// none.
std::filesystem::path find_model(const std::string& name_or_path);
// The folder of fetched models: $SACCADE_HOME/models, otherwise saccade/models in the user's cache.
std::filesystem::path model_store();

// With its weights, in single precision, in evaluation mode and without gradients. An attention.attn beside
// the weights (one formula, or one per layer in attention/<layer>.attn) is swapped in, with what it learned.
Transformer load_model(const std::filesystem::path& path);

// A Hugging Face directory: config.json, model.safetensors (in shards beyond `shard_bytes`), and the
// attention if it was swapped. The tokenizer is written by whoever has it.
void save_model(const Transformer& model, const std::filesystem::path& directory,
                int64_t shard_bytes = int64_t{5} << 30);

}  // namespace saccade
