// `saccade report`: one HTML file from results. The page is made by the report rung; here are the options.
#include "saccade/report/report.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>

#include "saccade/base/error.h"
#include "saccade/base/file.h"
#include "saccade/base/json.h"
#include "saccade/base/log.h"
#include "saccade/base/text.h"
#include "saccade/cli/command.h"
#include "saccade/cli/output.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

struct ReportRequest {
  std::vector<std::string> inputs;
  std::string out = "report.html", title;
  bool json = false;
};

// Whether a file may be replaced: an earlier report, or nothing yet. Results are too easily named by mistake.
bool is_page(const fs::path& file) {
  constexpr std::string_view kBeginning = "<!doctype html>";
  std::string begin(kBeginning.size(), ' ');
  std::ifstream stream(file, std::ios::binary);
  if (!stream.read(begin.data(), static_cast<std::streamsize>(begin.size()))) return stream.gcount() == 0;
  std::ranges::transform(begin, begin.begin(), [](unsigned char c) { return std::tolower(c); });
  return begin == kBeginning;
}

ExitCode run(const ReportRequest& options) {
  const std::vector<fs::path> inputs(options.inputs.begin(), options.inputs.end());
  const Report report = make_report(inputs, options.title);
  const fs::path out = options.out;
  require(!fs::exists(out) || is_page(out),
          "report: {} is there and is no page; expected a new file or an earlier report", options.out);
  if (out.has_parent_path()) make_directories(out.parent_path());
  write_atomic(out, report.html);
  if (options.json) {
    Json json{{"out", options.out},
              {"title", report.title},
              {"bytes", report.html.size()},
              {"sections", Json::array()}};
    for (const ReportPart& part : report.parts)
      json["sections"].push_back(
          {{"kind", part.kind}, {"title", part.title}, {"from", part.from}, {"notes", part.notes}});
    print("{}\n", dump(json, 2));
    return ExitCode::success;
  }
  Table table({"kind", "section", "from"});
  for (const ReportPart& part : report.parts) {
    table.add({part.kind, printable(part.title, 60), printable(part.from, 60)});
    for (const std::string& note : part.notes) log::warn("{}", printable(note, 400));
  }
  print("{}\n{}: {:.1f} MB, for any browser, no network needed\n", table.print(), options.out,
        static_cast<double>(report.html.size()) / 1e6);
  return ExitCode::success;
}

}  // namespace

Work declare_report(CLI::App& app) {
  const auto options = std::make_shared<ReportRequest>();
  app.add_option(
         "inputs", options->inputs,
         "Training runs, folders of compare, distill, certify and diagnose, JSON files of bench, eval and "
         "generate, or a folder of these")
      ->type_name("RUN|FOLDER|FILE")
      ->required();
  app.add_option("-o,--out", options->out, "The file to write")->type_name("FILE")->capture_default_str();
  app.add_option("--title", options->title, "Of the page; named by its content by default");
  app.add_flag("--json", options->json, "Print JSON about what was written");
  return [options] { return run(*options); };
}

}  // namespace saccade
