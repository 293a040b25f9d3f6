// A certificate: which models and texts were compared, what was measured, what was demanded, and the command
// that does it again. As JSON, as a page and as a table for a terminal.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "saccade/base/json.h"
#include "saccade/certify/fidelity_criteria.h"

namespace saccade {

// A file by what is in it.
struct FileIdentity {
  std::string name, sha256;
  int64_t bytes = 0;
};
FileIdentity identify_file(const std::filesystem::path& path, const std::string& name);

struct ModelIdentity {
  std::string name;                 // as the person called it
  std::vector<FileIdentity> files;  // weights, configuration, formulas
  std::string attention;            // of a swap: "softcap", "last10 in layers 0-5"
  std::string formula;              // its text with all constants
  std::string family;
  int64_t parameters = 0, layers = 0;
};
// `path` is a model's directory or a GGUF file.
ModelIdentity identify_model(const TextModel& model, const std::filesystem::path& path);

struct Certificate {
  ModelIdentity baseline, candidate;
  std::vector<FileIdentity> data;
  FidelityOptions options;
  FidelityThresholds thresholds;
  int threads = 0;
  std::string command;  // that makes it again
  Fidelity fidelity;
  std::vector<Criterion> criteria;
};

Json to_json(const Certificate& certificate);
// A line for each criterion and the verdict.
std::string to_text(const Certificate& certificate);
// One HTML file that needs nothing else.
std::string to_page(const Certificate& certificate);

}  // namespace saccade
