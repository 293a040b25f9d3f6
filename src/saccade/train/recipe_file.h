// Recipes as people write them: TOML files with comments, and `key=value` on the command line.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/train/recipe.h"

namespace saccade {

// Each override is "train.steps=500"; its value is written as in TOML, or is a plain word. Throws Error with
// the file's name and line: for what is no TOML, a key that does not exist (with the nearest that does), a
// value of another type, and values without a meaning.
Recipe parse_recipe(std::string_view toml, const std::string& where,
                    std::span<const std::string> overrides = {});
Recipe load_recipe(const std::filesystem::path& path, std::span<const std::string> overrides = {});
// The recipe with further overrides.
Recipe changed(const Recipe& recipe, std::span<const std::string> overrides);

// All options with their meaning as comments; it reads back as the same recipe.
std::string print_recipe(const Recipe& recipe);

// Every key with its meaning and the value that it has when nobody gives it, in the order of the file.
struct RecipeKey {
  std::string key, meaning, otherwise;
};
std::vector<RecipeKey> recipe_keys();
// The same with the values of a recipe.
std::vector<RecipeKey> recipe_values(const Recipe& recipe);

}  // namespace saccade
