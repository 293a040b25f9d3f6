// `saccade convert`: a model from GGUF or a Hugging Face directory as a Hugging Face directory in single
// precision, which `transformers` loads.
#include <filesystem>

#include "saccade/base/error.h"
#include "saccade/base/file.h"
#include "saccade/base/json.h"
#include "saccade/cli/command.h"
#include "saccade/cli/output.h"
#include "saccade/generate/text_model.h"

namespace saccade {
namespace {

struct ConvertRequest {
  std::string model, directory;
  int64_t shard_megabytes = 5000;
  bool verify = false, force = false, json = false;
};

// The largest difference of what two models make of the same tokens.
double difference(Transformer& a, Transformer& b) {
  const torch::NoGradGuard no_gradient;
  torch::manual_seed(1);
  const int64_t tokens = std::min<int64_t>(64, a->architecture().context);
  const at::Tensor ids = torch::randint(a->architecture().vocabulary, {2, tokens}, torch::kLong);
  return (a->forward({.ids = ids}) - b->forward({.ids = ids})).abs().max().item<double>();
}

ExitCode run(const ConvertRequest& options) {
  namespace fs = std::filesystem;
  const fs::path from = find_model(options.model), to = options.directory;
  require(to.extension() != ".gguf",
          "convert: '{}' would be a GGUF file; only Hugging Face directories are written", to.string());
  std::error_code none;
  require(!fs::exists(to) || fs::is_directory(to), "convert: '{}' is a file; expected a directory",
          to.string());
  require(options.force || !fs::exists(to / "config.json", none),
          "convert: '{}' holds a model already; --force replaces it", to.string());
  require(!fs::equivalent(from, to, none), "convert: '{}' is the model itself; expected another directory",
          to.string());
  TextModel model = load_text_model(options.model);
  save_model(model.model, to, options.shard_megabytes * 1'000'000);
  write_atomic(to / "tokenizer.json", model.tokenizer.to_json());
  write_atomic(to / "tokenizer_config.json", model.tokenizer.config_json());
  Json generation = Json::object();
  const Architecture& a = model.model->architecture();
  if (a.bos) generation["bos_token_id"] = *a.bos;
  if (a.pad) generation["pad_token_id"] = *a.pad;
  if (!a.eos.empty()) generation["eos_token_id"] = a.eos;
  if (a.head == HeadKind::language_model)
    write_atomic(to / "generation_config.json", dump(generation, 2) + "\n");

  double worst = -1;
  if (options.verify) {
    Transformer again = load_model(to);
    worst = difference(model.model, again);
    const std::string text = "The eye jumps 3 times;\n naïve Ärzte, 東京 🎉";
    require(load_tokenizer(to).encode(text) == model.tokenizer.encode(text),
            "convert: the tokenizer that was written gives other ids");
  }
  if (options.json) {
    Json json = {{"from", from.string()},
                 {"to", to.string()},
                 {"family", a.family},
                 {"parameters", model.model->parameter_count()}};
    if (options.verify) json["difference"] = worst;
    print("{}\n", dump(json, 2));
  } else {
    print("{}: {} with {:.1f} million parameters\n", to.string(), a.family,
          static_cast<double>(model.model->parameter_count()) / 1e6);
    if (options.verify)
      print("verified: read back, hidden states differ by {} at most, token ids are the same\n", worst);
  }
  return worst <= 0 ? ExitCode::success : ExitCode::check_failed;
}

}  // namespace

Work declare_convert(CLI::App& app) {
  const auto options = std::make_shared<ConvertRequest>();
  app.add_option("model", options->model, "A model's directory, GGUF file or name, or the folder of a run")
      ->required()
      ->type_name("MODEL");
  app.add_option("directory", options->directory, "Where to write")->required()->type_name("DIRECTORY");
  app.add_option("--shard", options->shard_megabytes, "Split weights beyond so many megabytes")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}))
      ->capture_default_str();
  app.add_flag("--verify", options->verify, "Read the result back and compare it; exit code 1 if it differs");
  app.add_flag("--force", options->force, "Replace a model that is there");
  app.add_flag("--json", options->json, "Print JSON");
  return [options] { return run(*options); };
}

}  // namespace saccade
