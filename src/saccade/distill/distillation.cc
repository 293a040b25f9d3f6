// The order of work. Every stage is small enough to be done again, except the training of scorers, which is
// written down layer by layer.
#include "saccade/distill/distillation.h"

#include <fstream>

#include "saccade/base/error.h"
#include "saccade/base/file.h"
#include "saccade/base/meter.h"
#include "saccade/distill/fine_tune.h"
#include "saccade/sparse/span.h"

namespace saccade {

using at::Tensor;
namespace fs = std::filesystem;

namespace {

constexpr size_t kMostBytes = size_t{1} << 30;

void tell(const DistillRun& run, const Json& event) {
  if (run.on_event) run.on_event(event);
  if (run.directory.empty()) return;
  std::ofstream file(run.directory / "metrics.jsonl", std::ios::app);
  file << dump(event) << '\n';
  file.flush();
  require(file.good(), "{}: cannot be written", (run.directory / "metrics.jsonl").string());
}

bool learns_scores(SelectorKind kind) { return kind == SelectorKind::gate || kind == SelectorKind::indexer; }

bool learns(SelectorKind kind) { return learns_scores(kind) || kind == SelectorKind::token_gate; }

int64_t pool_of(const DistillOptions& options) {
  return options.kind == SelectorKind::indexer ? 1 : options.pool;
}

// Ranges of positions with settings of their own: they double from 1024 on.
std::vector<int64_t> ranges_of(std::span<const TokenIds> texts) {
  int64_t longest = 0;
  for (const TokenIds& text : texts) longest = std::max<int64_t>(longest, std::ssize(text));
  std::vector<int64_t> ranges{0};
  for (int64_t begin = 1024; begin < longest; begin *= 2) ranges.push_back(begin);
  return ranges;
}

fs::path layer_directory(const DistillRun& run, int64_t layer) {
  return run.directory / "layers" / std::to_string(layer);
}

// A layer's selector as it stands beside those of other layers.
void keep_layer(const DistillRun& run, int64_t layer, const std::shared_ptr<SparseSelector>& selector) {
  if (!run.directory.empty()) save_sparse(layer_directory(run, layer), run.base, {selector}, Json());
}

std::shared_ptr<SparseSelector> kept_layer(const DistillRun& run, int64_t layer) {
  if (run.directory.empty() || !run.resume || !is_sparse_directory(layer_directory(run, layer)))
    return nullptr;
  return load_sparse(layer_directory(run, layer)).selectors.at(0);
}

std::shared_ptr<SparseSelector> train_token_gate(const Formula& formula, int64_t layer,
                                                 std::span<const PairInputs> texts,
                                                 const DistillOptions& options, const DistillRun& run) {
  std::vector<GateLesson> lessons;
  for (const PairInputs& text : texts)
    lessons.push_back(
        make_gate_lesson(formula, text, {.selection = options.selection, .pool = options.pool}));
  GateTraining training = options.token_gate;
  training.seed = options.seed * 1000003 + static_cast<uint64_t>(layer);
  TrainedGate trained = train_gate(lessons, training);
  tell(run, {{"stage", "gate"},
             {"layer", layer},
             {"first_loss", trained.first_loss},
             {"last_loss", trained.last_loss}});
  return std::make_shared<TokenGateSelector>(options.selection, looks_back_only(formula),
                                             std::move(trained.gate));
}

std::shared_ptr<SparseSelector> train_layer(const Formula& formula, int64_t layer,
                                            std::span<const PairInputs> texts, const DistillOptions& options,
                                            const DistillRun& run) {
  if (options.kind == SelectorKind::token_gate) return train_token_gate(formula, layer, texts, options, run);
  const bool causal = looks_back_only(formula);
  Json event{{"stage", "scorer"}, {"layer", layer}};
  const auto train = [&](const char* name, int64_t pool, int64_t samples, int64_t tile,
                         const ScorerTraining& training) {
    LowRankScorer scorer = starting_scorer(texts, training.rank, pool, samples);
    std::vector<Lesson> lessons;
    for (size_t text = 0; text < texts.size(); ++text) {
      LessonOptions lesson{
          .selection = options.selection, .pool = pool, .samples = samples, .causal = causal};
      lesson.selection.query_tile = tile;
      // Single queries are learned from every 16th, a different one in each text.
      if (pool == 1) {
        lesson.stride = 16;
        lesson.first = static_cast<int64_t>(text) * 5 % 16;
      }
      lessons.push_back(make_lesson(formula, texts[text], lesson));
    }
    ScorerTraining with_seed = training;
    with_seed.seed = options.seed * 1000003 + static_cast<uint64_t>(layer);
    const TrainedScorer trained = train_scorer(scorer, lessons, with_seed);
    event[name] = {{"first_loss", trained.first_loss}, {"last_loss", trained.last_loss}};
    return scorer;
  };
  LowRankScorer scorer =
      train("prefill", pool_of(options), options.kind == SelectorKind::indexer ? 1 : options.samples,
            options.selection.query_tile, options.scorer);
  std::optional<LowRankScorer> single;
  if (options.decoding && causal) single = train("decoding", 1, 1, 1, options.single);
  tell(run, event);
  return std::make_shared<LowRankSelector>(options.selection, causal, std::move(scorer), std::move(single));
}

// The same scorers for single queries, as a selector of its own: what decoding will do, a text at a time.
Selectors as_single_queries(const Selectors& selectors) {
  Selectors result;
  for (const auto& selector : selectors) {
    auto& both = dynamic_cast<LowRankSelector&>(*selector);
    SelectionOptions options = both.options();
    options.query_tile = 1;
    auto single = std::make_shared<LowRankSelector>(options, both.causal(), *both.single());
    single->set_ranges({0});
    result.push_back(std::move(single));
  }
  return result;
}

// Thresholds for decoding, found on the shortest windows; later positions use the same, which fall with the
// position by themselves.
Solution set_decoding(Transformer model, const Selectors& selectors, const TextWindows& windows,
                      const DistillOptions& options, const DistillRun& run) {
  const auto shortest = [](const std::vector<TokenIds>& texts) {
    size_t size = texts.front().size();
    std::vector<TokenIds> result;
    for (const TokenIds& text : texts)
      if (text.size() == size) result.push_back(text);
    return result;
  };
  const Selectors singles = as_single_queries(selectors);
  const std::vector<TokenIds> sense = shortest(windows.sense), held_out = shortest(windows.held_out);
  const Sensitivity sensitivity = measure_sensitivity(
      model, singles, sense,
      {.draws = options.draws, .seed = options.seed, .on_progress = [&](int64_t done, int64_t total) {
         if (run.on_progress) run.on_progress("sensitivity of decoding", done, total);
       }});
  detach(model);
  const std::vector<Tensor> dense = last_hidden_states(model, held_out);
  const Solution solution =
      solve(model, singles, sensitivity, options.goal, held_out, dense, {.on_try = [&](Json line) {
              line["stage"] = "solve decoding";
              tell(run, line);
            }});
  for (size_t layer = 0; layer < selectors.size(); ++layer) {
    auto& both = dynamic_cast<LowRankSelector&>(*selectors[layer]);
    const Tensor found = dynamic_cast<LowRankSelector&>(*singles[layer]).scorer().thresholds;
    both.single()->thresholds = found.select(1, 0).unsqueeze(1).repeat({1, std::ssize(both.ranges())});
  }
  return solution;
}

void check_resume(const DistillOptions& options, const DistillRun& run) {
  const fs::path file = run.directory / "distill.json";
  const std::string wanted = dump(Json{{"base", run.base}, {"options", to_json(options)}}, 2) + "\n";
  if (fs::exists(file)) {
    require(run.resume, "{}: there is a run already; go on with --resume, or name another folder",
            run.directory.string());
    require(read_file(file, kMostBytes) == wanted,
            "{}: the run was started with other options; they must be the same to resume", file.string());
    return;
  }
  make_directories(run.directory);
  write_atomic(file, wanted);
}

}  // namespace

std::string_view name_of(SelectorKind kind) {
  switch (kind) {
    case SelectorKind::gate:
      return "gate";
    case SelectorKind::indexer:
      return "indexer";
    case SelectorKind::token_gate:
      return "token_gate";
    case SelectorKind::span:
      return "span";
    case SelectorKind::full_or_local:
      return "full_or_local";
  }
  return "";
}

Json to_json(const DistillOptions& options) {
  Json json{{"selector", name_of(options.kind)},
            {"kl", options.goal.divergence},
            {"density", options.goal.density},
            {"pool", options.pool},
            {"samples", options.samples},
            {"rank", options.scorer.rank},
            {"steps", options.scorer.steps},
            {"rate", options.scorer.rate},
            {"decoding", options.decoding},
            {"decoding_rank", options.single.rank},
            {"gate_hidden", options.token_gate.hidden},
            {"gate_steps", options.token_gate.steps},
            {"gate_rate", options.token_gate.rate},
            {"fine_tuning_steps", options.fine_tuning.steps},
            {"fine_tuning_rate", options.fine_tuning.rate},
            {"output_weight", options.fine_tuning.output},
            {"hidden_weight", options.fine_tuning.hidden},
            {"map_weight", options.fine_tuning.maps},
            {"draws", options.draws},
            {"seed", options.seed}};
  SelectionOptions selection = options.selection;
  selection.visit([&](const char* name, int64_t value, const char*) { json[name] = value; });
  for (const WindowCount& count : options.windows)
    json["windows"].push_back({{"tokens", count.tokens},
                               {"learn", count.learn},
                               {"sense", count.sense},
                               {"hold_out", count.hold_out}});
  return json;
}

Json to_json(const Solution& solution) {
  Json json{{"found", solution.found},
            {"saves", solution.saves},
            {"divergence", solution.divergence},
            {"density", solution.density},
            {"dense_heads", solution.dense_heads},
            {"tries", solution.tries}};
  for (const RangeResult& range : solution.ranges)
    json["ranges"].push_back({{"begin", range.begin},
                              {"divergence", range.divergence},
                              {"density", range.density},
                              {"margin", range.margin}});
  return json;
}

void check(const DistillOptions& options) {
  check(options.selection);
  require(options.selection.query_tile % pool_of(options) == 0 && options.pool % options.samples == 0,
          "distill: tiles of {} queries, groups of {}, {} samples; expected groups that divide the tile and "
          "samples that "
          "divide the group",
          options.selection.query_tile, pool_of(options), options.samples);
}

std::vector<WindowCount> usual_windows(const Architecture& architecture, int64_t query_tile) {
  const auto whole = [&](int64_t tokens) { return tokens / query_tile * query_tile; };
  const int64_t context = architecture.learned_positions
                              ? architecture.context
                              : std::max<int64_t>(architecture.context, query_tile);
  const int64_t shorter = whole(std::min<int64_t>(1024, context));
  require(shorter > 0, "distill: the model's context of {} is shorter than a tile of {} queries", context,
          query_tile);
  std::vector<WindowCount> result{{.tokens = shorter, .learn = 24, .sense = 4, .hold_out = 12}};
  if (context >= 4096) result.push_back({.tokens = 4096, .learn = 6, .sense = 2, .hold_out = 6});
  return result;
}

Selectors train_selectors(Transformer model, const TextWindows& windows, const DistillOptions& options,
                          const DistillRun& run) {
  const int64_t layers = model->architecture().layers, heads = model->architecture().heads;
  Selectors selectors(static_cast<size_t>(layers));
  if (options.kind == SelectorKind::token_gate)
    for (int64_t layer = 0; layer < layers; ++layer) require_evictable(model->formula(layer));
  if (!learns(options.kind)) {
    for (int64_t layer = 0; layer < layers; ++layer) {
      auto spans = std::make_shared<SpanSelector>(options.selection, looks_back_only(model->formula(layer)),
                                                  torch::full({heads}, kWholeSpan, torch::kLong));
      spans->full_or_local(options.kind == SelectorKind::full_or_local);
      selectors[static_cast<size_t>(layer)] = spans;
    }
    return selectors;
  }
  if (!run.scorers.empty()) {
    selectors = load_sparse(run.scorers).selectors;
    require(std::ssize(selectors) == layers, "{}: scorers for {} layers, the model has {}",
            run.scorers.string(), selectors.size(), layers);
    const std::string wanted = options.kind == SelectorKind::token_gate ? "token_gate" : "low_rank";
    for (const auto& selector : selectors) {
      require(selector->kind() == wanted, "{}: selectors of kind '{}'; expected {}", run.scorers.string(),
              selector->kind(), wanted);
      selector->options().min_keys = selector->options().min_cached = 0;
    }
    return selectors;
  }
  int64_t known = 0;
  for (int64_t layer = 0; layer < layers; ++layer)
    if ((selectors[static_cast<size_t>(layer)] = kept_layer(run, layer))) ++known;
  const std::vector<int64_t> ranges = ranges_of(windows.learn);
  if (known < layers)
    stream_layers(model, windows.learn, [&](int64_t layer, std::span<const PairInputs> texts) {
      std::shared_ptr<SparseSelector>& selector = selectors[static_cast<size_t>(layer)];
      if (!selector && !(run.stop && run.stop())) {
        selector = train_layer(model->formula(layer), layer, texts, options, run);
        keep_layer(run, layer, selector);
      }
      if (run.on_progress) run.on_progress("learning", layer + 1, layers);
    });
  for (const auto& selector : selectors)
    if (auto* scored = dynamic_cast<LowRankSelector*>(selector.get())) scored->set_ranges(ranges);
  return selectors;
}

DistillResult distill(Transformer model, const TokenIds& text, const DistillOptions& given,
                      const DistillRun& run) {
  const Meter meter;
  DistillOptions options = given;
  check(options);
  if (options.windows.empty())
    options.windows = usual_windows(model->architecture(), options.selection.query_tile);
  const TextWindows windows = cut_windows(text, options.windows);
  if (!run.directory.empty()) check_resume(options, run);  // writes, so what may be refused comes first
  detach(model);
  DistillResult result;
  result.selectors = train_selectors(model, windows, options, run);
  for (const auto& selector : result.selectors)
    if (!selector) return result.stopped = true, result;
  const std::vector<Tensor> dense = last_hidden_states(model, windows.held_out);
  const auto set_heads = [&](const char* stage) {
    const Sensitivity sensitivity = measure_sensitivity(
        model, result.selectors, windows.sense,
        {.draws = options.draws, .seed = options.seed, .on_progress = [&](int64_t done, int64_t total) {
           if (run.on_progress) run.on_progress("sensitivity", done, total);
         }});
    detach(model);
    Solution solution = solve(model, result.selectors, sensitivity, options.goal, windows.held_out, dense,
                              {.on_try = [&](Json line) {
                                line["stage"] = stage;
                                tell(run, line);
                              }});
    detach(model);
    return solution;
  };
  result.solution = set_heads("solve");
  if (options.fine_tuning.steps > 0 && learns_scores(options.kind)) {
    const ScorerStates before = states_of(result.selectors);
    const FineTuned tuned = fine_tune(model, result.selectors, windows, options.fine_tuning, run);
    const Solution again = tuned.kept ? set_heads("solve after fine-tuning") : result.solution;
    const bool better = tuned.kept && again.found &&
                        (options.goal.divergence > 0 ? again.density < result.solution.density
                                                     : again.divergence < result.solution.divergence);
    result.fine_tuned = Json{{"stage", "fine-tuned"},
                             {"steps", tuned.steps},
                             {"loss_before", tuned.before},
                             {"loss_after", tuned.after},
                             {"stepped_back", tuned.stepped_back || !better},
                             {"density_before", result.solution.density},
                             {"density_after", again.density}};
    tell(run, *result.fine_tuned);
    // What does not help is taken back.
    if (better)
      result.solution = again;
    else
      restore(result.selectors, before);
  }
  if (options.decoding && learns_scores(options.kind) && result.selectors[0]->causal())
    result.decoding = set_decoding(model, result.selectors, windows, options, run);
  detach(model);
  const std::span<const TokenIds> learned =
      std::span(windows.learn).first(std::min<size_t>(2, windows.learn.size()));
  const std::vector<Tensor> learned_dense = last_hidden_states(model, learned);
  result.learned_divergence = measure_held_out(model, result.selectors, learned, learned_dense).divergence;
  result.selection_cost =
      selection_cost(result.selectors, model->architecture(), options.windows.back().tokens);
  if (options.longest > 0) {
    result.times = set_crossover(model, result.selectors, text,
                                 std::min(options.longest, model->architecture().context));
    for (const AttentionTime& time : result.times) {
      Json line = to_json(time);
      line["stage"] = "speed";
      tell(run, line);
    }
  }
  attach(model, result.selectors);
  result.seconds = meter.seconds();
  Json notes{{"goal", {{"kl", options.goal.divergence}, {"density", options.goal.density}}},
             {"held_out", to_json(result.solution)},
             {"learned_divergence", result.learned_divergence},
             {"selection_cost", result.selection_cost},
             {"seconds", result.seconds}};
  if (result.decoding) notes["decoding"] = to_json(*result.decoding);
  if (result.fine_tuned) notes["fine_tuning"] = *result.fine_tuned;
  if (!run.directory.empty()) save_sparse(run.directory, run.base, result.selectors, notes);
  notes["stage"] = "done";
  tell(run, notes);
  return result;
}

}  // namespace saccade
