// Families of published models: how their files spell an architecture and name its weights. To add one: a
// file with its row, and the row's name in families.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/base/json.h"
#include "saccade/models/architecture.h"
#include "saccade/weights/gguf.h"
#include "saccade/weights/hub_config.h"

namespace saccade {

// How a tensor of a file becomes a part of ours.
enum class WeightForm {
  as_is,
  transposed,   // GPT-2 stores [inputs, outputs]
  plus_one,     // Gemma's norms multiply by 1 + weight
  interleaved,  // llama.cpp keeps the rows of rotary heads as neighbouring pairs, we as two halves
};

struct WeightPart {
  std::string name;  // "~" stands for the prefix, which not all files have
  WeightForm form = WeightForm::as_is;
  int64_t heads = 0;  // of interleaved rows
};

// One of our parameters, and the tensors that it consists of, one below the other.
struct WeightRule {
  std::string ours;
  std::vector<WeightPart> parts;
};

struct Family {
  std::string_view name;
  std::vector<std::string_view> hub_types;   // model_type in config.json
  std::vector<std::string_view> gguf_types;  // general.architecture
  std::vector<std::string_view> prefixes;    // that names may begin with; the first is written
  std::string_view probe;                    // a name that every file has, to find its prefix
  std::vector<std::string_view> ignored;     // ends of names that carry nothing
  Architecture (*from_hub)(const HubConfig& config);
  Json (*to_hub)(const Architecture& architecture);
  std::vector<WeightRule> (*hub_weights)(const Architecture& architecture);
  Architecture (*from_gguf)(const Gguf& file);
  std::vector<WeightRule> (*gguf_weights)(const Architecture& architecture);
};

std::span<const Family> families();
// Throws Error, naming `where` and the known ones.
const Family& hub_family(std::string_view type, const std::string& where);
const Family& gguf_family(std::string_view type, const std::string& where);
const Family& family_named(std::string_view name);

// --- what families share ---

Activation activation_named(const HubConfig& config, std::string_view key, std::string_view otherwise);
std::string hub_name(Activation activation);

// A number, or a list of them, or nothing.
std::vector<int64_t> token_ids(const HubConfig& config, std::string_view key);
// bos, eos and pad of a configuration, and the other way round.
void read_token_ids(Architecture& architecture, const HubConfig& config);
void write_token_ids(const Architecture& architecture, Json& config);
void read_token_ids(Architecture& architecture, const Gguf& file);

// A size in a GGUF file's metadata: 1 or more. Throws Error.
int64_t gguf_size(const Gguf& file, std::string_view key, std::optional<int64_t> otherwise = {});
// A tensor of a GGUF file, or null.
const TensorView* gguf_tensor(const Gguf& file, std::string_view name);
// What the tensors say: the vocabulary's size, and whether the output is the embedding again.
void read_embedding(Architecture& architecture, const Gguf& file);

// Rotary embedding from `rope_parameters` or the older rope_theta and rope_scaling. Stretched kinds are
// turned into frequencies; one that is not known is an Error.
RotaryOptions read_rotary(const HubConfig& parameters, double base, int64_t dims);

}  // namespace saccade
