// `saccade view`: a page on this machine that shows what a model attends to while someone types.
#include <ATen/Parallel.h>

#include <memory>

#include "saccade/base/error.h"
#include "saccade/base/log.h"
#include "saccade/base/memory.h"
#include "saccade/cli/attention_option.h"
#include "saccade/cli/command.h"
#include "saccade/cli/output.h"
#include "saccade/view/page.h"
#include "saccade/view/session.h"

namespace saccade {
namespace {

struct ViewRequest {
  std::string model, compare;
  AttentionOption attention;
  int port = 0, threads = 0;
  bool json = false;
};

Session make_session(const ViewRequest& options) {
  if (options.model.empty()) {
    require(options.compare.empty() && !options.attention.given(),
            "view: nothing to compare with; expected a model first: saccade view MODEL --compare OTHER");
    return Session();
  }
  require(options.compare.empty() || !options.attention.given(),
          "view: --compare and --attention both give the second model; expected one of them");
  if (options.attention.given())
    options.attention.load();  // what is wrong with it is found before a long load
  Viewed viewed{.baseline = load_text_model(options.model)};
  if (!options.compare.empty()) {
    viewed.candidate = load_text_model(options.compare).model;
    viewed.candidate_name = options.compare;
  } else if (options.attention.given()) {
    viewed.candidate = Transformer(viewed.baseline.model->twin());
    options.attention.apply(viewed.candidate, Path::automatic);
    viewed.candidate_name = options.attention.title();
  }
  return Session(std::move(viewed));
}

ExitCode run(const ViewRequest& options) {
  keep_freed_memory();
  if (options.threads > 0) at::set_num_threads(options.threads);
  Session session = make_session(options);
  LocalServer server(view_files(), session.answers(), {.port = options.port});
  if (options.json)
    print("{}\n", dump({{"address", server.address()}}));
  else
    print("{}\n", server.address());
  flush_output();
  log::info("view: open this address in a browser on this machine; Ctrl-C ends it");
  server.run();
  return ExitCode::success;
}

}  // namespace

Work declare_view(CLI::App& app) {
  const auto options = std::make_shared<ViewRequest>();
  app.add_option("model", options->model,
                 "A model's directory, GGUF file or name, a run, or a sparse model; without one, the page "
                 "shows formulas alone")
      ->type_name("MODEL|RUN");
  app.add_option("--compare", options->compare, "A second model of the same vocabulary, shown beside it")
      ->type_name("MODEL|RUN");
  options->attention.declare(app);
  app.add_option("--port", options->port, "Port on 127.0.0.1; a free one by default")
      ->check(CLI::Range(1, 65535));
  app.add_option("--threads", options->threads, "Threads; torch's choice by default")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--json", options->json, "Print the address as JSON");
  return [options] { return run(*options); };
}

}  // namespace saccade
