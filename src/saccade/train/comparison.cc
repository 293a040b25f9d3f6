#include "saccade/train/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "saccade/base/error.h"
#include "saccade/base/file.h"
#include "saccade/base/memory.h"
#include "saccade/base/text.h"
#include "saccade/evaluate/reader.h"
#include "saccade/evaluate/robustness.h"
#include "saccade/train/recipe_file.h"
#include "saccade/train/recipe_model.h"
#include "saccade/train/run_directory.h"
#include "saccade/train/translation_outcome.h"
#include "saccade/train/validation.h"

namespace saccade {

namespace fs = std::filesystem;

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kDamage = 0.1;  // the rate at which robustness is measured

int64_t parameters_of(const Recipe& recipe) {
  // The tokenizer is the same for all, so any size serves to compare.
  return make_model(recipe, architecture_of(recipe, std::max<int64_t>(recipe.model.vocabulary, 512)))
      ->parameter_count();
}

int64_t length_at(const Recipe& recipe, double multiple) {
  return static_cast<int64_t>(std::llround(static_cast<double>(recipe.data.length) * multiple));
}

void measure_lengths(const Recipe& recipe, const TrainingResult& result, const std::vector<double>& lengths,
                     RunOutcome& outcome) {
  Team alone;
  for (const double multiple : lengths) {
    const int64_t length = length_at(recipe, multiple);
    double loss = kNone, answers = kNone;
    if (!result.model->architecture().learned_positions || length <= result.model->architecture().context) {
      const auto sequences = std::max<int64_t>(
          4, static_cast<int64_t>(static_cast<double>(recipe.train.validation_sequences) / multiple));
      const Validation found = validate(
          result.model, *result.data->validation_at(length),
          {.sequences = sequences, .batch = 4, .separate_documents = recipe.train.separate_documents}, alone);
      loss = found.loss();
      if (found.answers > 0) answers = found.answer_accuracy();
    }
    outcome.length_losses.push_back(loss);
    outcome.length_answers.push_back(answers);
  }
}

const std::vector<Corruption>& corruptions() {
  static const std::vector<Corruption> all{Corruption::token_drop, Corruption::token_swap, Corruption::typos};
  return all;
}

void measure_damage(const Recipe& recipe, const TrainingResult& result, RunOutcome& outcome) {
  if (recipe.translates()) {
    outcome.damage = source_damage(recipe, result, corruptions(), kDamage);
    return;
  }
  std::vector<EncodedText> texts;
  for (const std::string& text : result.data->validation_texts)
    if (!trim(text).empty()) texts.push_back(encode_text(result.data->tokenizer, text, "validation"));
  if (texts.empty()) return;
  const Robustness found =
      measure_robustness(reader_of(result.model, 4), result.data->tokenizer, texts,
                         {.context = recipe.data.length, .windows = 32, .rates = {kDamage}, .seed = 1});
  const double clean = found.points.front().scored.mean_nll();
  for (const Corruption corruption : corruptions())
    for (const RobustnessPoint& point : found.points)
      if (point.corruption == corruption) outcome.damage.push_back(point.scored.mean_nll() - clean);
}

Json outcome_json(const RunOutcome& o) {
  const auto list = [](const std::vector<double>& values) {
    Json json = Json::array();
    for (const double value : values) json.push_back(std::isfinite(value) ? Json(value) : Json());
    return json;
  };
  return {{"seed", o.seed},
          {"end", std::string(name_of(o.end))},
          {"parameters", o.parameters},
          {"formula_parameters", o.formula_parameters},
          {"loss", o.loss},
          {"bleu", std::isfinite(o.bleu) ? Json(o.bleu) : Json()},
          {"answers", std::isfinite(o.answers) ? Json(o.answers) : Json()},
          {"tokens_per_second", o.tokens_per_second},
          {"peak_bytes", o.peak_bytes},
          {"length_losses", list(o.length_losses)},
          {"length_answers", list(o.length_answers)},
          {"damage", list(o.damage)}};
}

RunOutcome read_outcome(const fs::path& file) {
  const Json json = parse_json(read_file(file, 1 << 20), file.string());
  const auto number = [](const Json& value) { return value.is_null() ? kNone : value.get<double>(); };
  try {
    RunOutcome o;
    o.seed = json.at("seed");
    o.end =
        json.at("end") == name_of(TrainingEnd::not_finite) ? TrainingEnd::not_finite : TrainingEnd::finished;
    o.parameters = json.at("parameters");
    o.formula_parameters = json.at("formula_parameters");
    o.loss = number(json.at("loss"));
    o.answers = number(json.at("answers"));
    o.tokens_per_second = json.at("tokens_per_second");
    o.peak_bytes = json.at("peak_bytes");
    for (const Json& value : json.at("length_losses")) o.length_losses.push_back(number(value));
    for (const Json& value : json.at("length_answers")) o.length_answers.push_back(number(value));
    for (const Json& value : json.at("damage")) o.damage.push_back(number(value));
    return o;
  } catch (const nlohmann::json::exception& error) {
    fail("{}: {}", file.string(), error.what());
  }
}

void read_translation(const fs::path& folder, RunOutcome& outcome) {
  outcome.bleu_lines = translated_lines(folder);
  outcome.bleu = outcome.bleu_lines.empty() ? kNone : bleu_score(outcome.bleu_lines);
}

RunOutcome run_one(const Recipe& recipe, const fs::path& folder, const ComparisonOptions& options) {
  const fs::path done = folder / "outcome.json";
  const bool started = RunDirectory::is_run(folder);
  if (fs::exists(done)) {
    const Recipe stored = load_recipe(folder / "recipe.toml");
    require(print_recipe(stored) == print_recipe(recipe),
            "{}: this run was made with another recipe; choose another --out", folder.string());
    RunOutcome outcome = read_outcome(done);
    read_translation(folder, outcome);
    return outcome;
  }
  release_freed_memory();
  Team alone;
  const TrainingResult result = train(recipe,
                                      {.directory = folder,
                                       .resume = started,
                                       .on_step = options.on_step,
                                       .interrupted = options.interrupted},
                                      alone);
  if (result.end == TrainingEnd::interrupted)
    fail("interrupted; the same command goes on where it was (finished runs stay in {})",
         options.directory.string());
  RunOutcome outcome{.seed = recipe.seed,
                     .end = result.end,
                     .parameters = result.parameters,
                     .formula_parameters = result.formula_parameters,
                     .loss = result.end == TrainingEnd::not_finite ? kNone : result.validation.loss(),
                     .answers = result.validation.answers > 0 ? result.validation.answer_accuracy() : kNone,
                     .tokens_per_second = result.tokens_per_second,
                     .peak_bytes = result.peak_bytes};
  if (result.end != TrainingEnd::not_finite) {
    measure_lengths(recipe, result, options.lengths, outcome);
    if (options.corruption) measure_damage(recipe, result, outcome);
    if (recipe.translates()) translate_validation(recipe, result, folder);
  }
  read_translation(folder, outcome);
  write_atomic(done, dump(outcome_json(outcome), 2) + "\n");
  return outcome;
}

}  // namespace

std::string run_folder(const Variant& variant, uint64_t seed) {
  std::string name;
  for (const char c : variant.name)
    name += std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' ? c : '-';
  return fmt::format("{}-{}", name, seed);
}

std::vector<double> VariantResult::losses() const {
  std::vector<double> result;
  for (const RunOutcome& run : runs) result.push_back(run.loss);
  return result;
}

std::vector<double> VariantResult::bleus() const {
  std::vector<double> result;
  for (const RunOutcome& run : runs) result.push_back(run.bleu);
  return result;
}

PairedBootstrap VariantResult::bleu_difference(const VariantResult& other) const {
  std::vector<BleuCounts> mine, others;
  for (size_t run = 0; run < std::min(runs.size(), other.runs.size()); ++run) {
    if (runs[run].bleu_lines.size() != other.runs[run].bleu_lines.size()) continue;  // one became not finite
    mine.insert(mine.end(), runs[run].bleu_lines.begin(), runs[run].bleu_lines.end());
    others.insert(others.end(), other.runs[run].bleu_lines.begin(), other.runs[run].bleu_lines.end());
  }
  return mine.empty() ? PairedBootstrap{kNone, kNone, kNone, kNone} : paired_bootstrap(others, mine, {});
}

std::vector<Variant> variants_of(const std::vector<std::string>& attentions,
                                 const std::vector<Sweep>& sweeps) {
  std::vector<Variant> variants;
  for (const std::string& attention : attentions)
    variants.push_back({fs::path(attention).stem().string(), {"attention=" + attention}});
  for (const Sweep& sweep : sweeps) {
    std::vector<Variant> more;
    // A key without a point is the formula's, unless the recipe has it.
    const bool of_recipe = sweep.key.find('.') != std::string::npos || sweep.key == "seed";
    for (const Variant& variant : variants)
      for (const std::string& value : sweep.values) {
        Variant changed = variant;
        changed.name += fmt::format(" {}={}", sweep.key, value);
        changed.overrides.push_back(fmt::format("{}{}={}", of_recipe ? "" : "set.", sweep.key, value));
        more.push_back(std::move(changed));
      }
    variants = std::move(more);
  }
  return variants;
}

std::vector<Variant> control_of(const Recipe& recipe, const std::vector<Variant>& variants) {
  const Recipe base = changed(recipe, variants.front().overrides);
  const int64_t parameters = parameters_of(base);
  int64_t most = parameters;
  for (const Variant& variant : variants)
    most = std::max(most, parameters_of(changed(recipe, variant.overrides)));
  if (static_cast<double>(most - parameters) <= 0.001 * static_cast<double>(parameters)) return {};
  const Architecture a = architecture_of(base, std::max<int64_t>(base.model.vocabulary, 512));
  const int64_t per_column = a.layers * (a.width * (a.gated ? 3 : 2) + (a.mlp_bias ? (a.gated ? 2 : 1) : 0));
  const int64_t inner = a.inner + (most - parameters + per_column - 1) / per_column;
  Variant control = variants.front();
  control.name += fmt::format(" inner={}", inner);
  control.overrides.push_back(fmt::format("model.inner={}", inner));
  control.control = true;
  return {control};
}

Comparison compare(const Recipe& recipe, const std::vector<Variant>& variants,
                   const ComparisonOptions& options) {
  require(!variants.empty() && options.runs >= 1, "compare: {} and {}; expected at least one of each",
          plural(static_cast<int64_t>(variants.size()), "mechanism"), plural(options.runs, "run"));
  Comparison comparison{.lengths = options.lengths};
  if (options.corruption)
    for (const Corruption corruption : corruptions())
      comparison.corruptions.push_back(fmt::format("{} {:.0f} %", name_of(corruption), 100 * kDamage));
  for (const Variant& variant : variants) {
    comparison.variants.push_back({variant, {}});
    parameters_of(changed(recipe, variant.overrides));  // what is wrong with a late one is found at once
  }
  // So is data that do not fill the longest rows: afterwards would be too late.
  const Data data = open_recipe_data(recipe, existing_tokenizer(recipe.data));
  for (const double multiple : options.lengths)
    with_context(fmt::format("compare: at {} times the length", multiple),
                 [&] { return data.validation_at(length_at(recipe, multiple)); });
  const auto total = static_cast<int64_t>(variants.size()) * options.runs;
  int64_t done = 0;
  // Seed by seed, so that whoever stops half-way has something to compare.
  for (int64_t run = 0; run < options.runs; ++run)
    for (VariantResult& result : comparison.variants) {
      Recipe mine = changed(recipe, result.variant.overrides);
      mine.seed = recipe.seed + static_cast<uint64_t>(run);
      if (options.on_run)
        options.on_run(fmt::format("{}, seed {}", result.variant.name, mine.seed), done, total);
      result.runs.push_back(
          run_one(mine, options.directory / run_folder(result.variant, mine.seed), options));
      ++done;
    }
  return comparison;
}

Json to_json(const Comparison& comparison) {
  Json variants = Json::array();
  const std::vector<double> base = comparison.variants.front().losses();
  for (const VariantResult& result : comparison.variants) {
    const std::vector<double> losses = result.losses();
    const Spread spread = spread_of(losses);
    Json runs = Json::array();
    for (const RunOutcome& run : result.runs) runs.push_back(outcome_json(run));
    variants.push_back(
        {{"name", result.variant.name},
         {"overrides", result.variant.overrides},
         {"control", result.variant.control},
         {"loss", {{"mean", spread.mean}, {"deviation", spread.deviation}}},
         {"p_value", &result == &comparison.variants.front() ? Json() : Json(paired_p_value(losses, base))},
         {"runs", runs}});
    if (!comparison.translates()) continue;
    const Spread bleu = spread_of(result.bleus());
    variants.back()["bleu"] = {{"mean", bleu.mean}, {"deviation", bleu.deviation}};
    if (&result == &comparison.variants.front()) continue;
    const PairedBootstrap found = result.bleu_difference(comparison.variants.front());
    variants.back()["bleu_bootstrap"] = {{"difference", found.difference},
                                         {"p_value", found.p},
                                         {"lower", found.lower},
                                         {"upper", found.upper}};
  }
  return {{"lengths", comparison.lengths}, {"corruptions", comparison.corruptions}, {"variants", variants}};
}

}  // namespace saccade
