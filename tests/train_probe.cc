// Lets Python train along: writes what a training starts from and what it reads, for a peer that does the
// same.
//
//   train_probe RECIPE OUT [key=value]...
//
// OUT gets `model`, the model at its starting weights, and batches.safetensors with ids.0, targets.0 and,
// where packed documents are kept apart, documents.0, then those of the next step, and so on; and the same
// with .validation instead of a number.
#include <fmt/format.h>

#include "saccade/base/error.h"
#include "saccade/models/model_files.h"
#include "saccade/train/batch.h"
#include "saccade/train/recipe_file.h"
#include "saccade/train/trainer.h"
#include "saccade/weights/safetensors_writer.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

struct Seen {};

// From inside a training, so that it is certainly what a training starts from.
void write_start(const Recipe& recipe, const fs::path& out) {
  Team alone;
  try {
    train(recipe,
          {.directory = out / "run",
           .on_start =
               [&](const Transformer& model) {
                 save_model(model, out / "model");
                 throw Seen{};
               }},
          alone);
  } catch (const Seen&) {
  }
}

void write_batches(const Recipe& recipe, const fs::path& out) {
  const Data data = open_data(recipe.data, recipe.seed, existing_tokenizer(recipe.data));
  std::vector<TensorSource> sources;
  const auto add = [&](const std::string& name, const at::Tensor& numbers) {
    if (!numbers.defined()) return;
    sources.push_back({.name = name,
                       .type = ElementType::I64,
                       .shape = numbers.sizes().vec(),
                       .write = [numbers](const ByteSink& sink) {
                         sink({static_cast<const std::byte*>(numbers.data_ptr()), numbers.nbytes()});
                       }});
  };
  const auto add_batch = [&](const std::string& name, const Batch& batch) {
    add("ids." + name, batch.ids);
    add("targets." + name, batch.targets);
    add("documents." + name, batch.documents);
  };
  const TrainOptions& options = recipe.train;
  for (int64_t step = 0; step < options.steps; ++step)
    add_batch(fmt::format("{}", step),
              read_batch(*data.train, step * options.batch, options.batch, options.separate_documents));
  const int64_t validated = std::min(options.validation_sequences, data.validation->size());
  add_batch("validation", read_batch(*data.validation, 0, validated, options.separate_documents));
  write_safetensors(out / "batches.safetensors", sources);
}

}  // namespace
}  // namespace saccade

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  try {
    const std::vector<std::string> overrides(argv + 3, argv + argc);
    const saccade::Recipe recipe = saccade::load_recipe(argv[1], overrides);
    saccade::write_start(recipe, argv[2]);
    saccade::write_batches(recipe, argv[2]);
  } catch (const saccade::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
