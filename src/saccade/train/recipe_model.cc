#include "saccade/train/recipe_model.h"

#include "saccade/base/error.h"

namespace saccade {
namespace {

Formula checked_formula(const Recipe& recipe, AttentionSlot slot) {
  Formula formula = recipe.formula(slot);
  for (const TableInfo& table : formula.plan().tables)
    require(table.source != TableInfo::Source::input,
            "training: the formula '{}' needs the input '{}', which no recipe can give; packed documents are "
            "kept apart "
            "by train.separate_documents",
            formula.name(), table.name);
  require(slot != AttentionSlot::decoder || formula.plan().decoding.possible,
          "training: with the formula '{}' a token might see what it should predict, or it could never be "
          "generated: {}",
          formula.name(), formula.plan().decoding.reason);
  return formula;
}

}  // namespace

Transformer make_model(const Recipe& recipe, const Architecture& architecture) {
  const Formula decoder = checked_formula(recipe, AttentionSlot::decoder);
  Transformer model(architecture);
  model->set_attention(decoder);
  if (!recipe.translates()) return model;
  model->encoder()->set_attention(checked_formula(recipe, AttentionSlot::encoder));
  model->set_cross_attention(std::vector<Formula>(static_cast<size_t>(architecture.layers),
                                                  checked_formula(recipe, AttentionSlot::cross)));
  return model;
}

}  // namespace saccade
