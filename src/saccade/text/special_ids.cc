// Which tokens play which role: a tokenizer.json does not say, a tokenizer_config.json does, and otherwise
// the usual names tell.
#include <initializer_list>

#include "saccade/text/tokenizer_parts.h"

namespace saccade {

void Tokenizer::Parts::guess_special_ids() {
  const auto first_of = [&](std::initializer_list<std::string_view> names) -> std::optional<int32_t> {
    for (std::string_view name : names)
      if (const auto found = id(name)) return found;
    return std::nullopt;
  };
  special.cls = first_of({"[CLS]"});
  special.sep = first_of({"[SEP]"});
  special.mask = first_of({"[MASK]", "<mask>"});
  special.bos = first_of({"<s>", "<bos>", "<|begin_of_text|>", "<|startoftext|>"});
  special.eos = first_of({"</s>", "<eos>", "<|end_of_text|>", "<|endoftext|>"});
  special.pad = first_of({"[PAD]", "<pad>"});
  special.unk = first_of({"[UNK]", "<unk>"});
  if (const Json& model_part = config["model"];
      model_part.contains("unk_token") && model_part["unk_token"].is_string())
    special.unk = id(model_part["unk_token"].get<std::string>());
}

void Tokenizer::Parts::name_special_ids(const Json& tokenizer_config) {
  const std::pair<const char*, std::optional<int32_t>*> roles[] = {
      {"bos_token", &special.bos}, {"eos_token", &special.eos},   {"pad_token", &special.pad},
      {"unk_token", &special.unk}, {"mask_token", &special.mask}, {"cls_token", &special.cls},
      {"sep_token", &special.sep}};
  if (!tokenizer_config.is_object()) return;
  for (const auto& [role, place] : roles) {
    auto found = tokenizer_config.find(role);
    if (found == tokenizer_config.end()) continue;
    const Json& held = found->is_object() && found->contains("content") ? (*found)["content"] : *found;
    if (held.is_null()) *place = std::nullopt;
    if (held.is_string()) *place = id(held.get<std::string>());
  }
}

}  // namespace saccade
