// From lessons to a sparse model that keeps its budget, on small random models.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <numeric>

#include "saccade/base/error.h"
#include "saccade/base/random.h"
#include "saccade/distill/budget.h"
#include "saccade/distill/frontier.h"
#include "saccade/distill/imitate.h"
#include "saccade/distill/rivals.h"
#include "saccade/distill/testing.h"
#include "saccade/sparse/span.h"

namespace saccade {
namespace {

using at::Tensor;
using testing::HasSubstr;

// Small windows for a model of 60 tokens.
DistillOptions small_options() {
  DistillOptions options;
  options.selection = {.query_tile = 16, .sinks = 2, .near = 8};
  options.windows = {{.tokens = 64, .learn = 6, .sense = 2, .hold_out = 6},
                     {.tokens = 128, .learn = 2, .sense = 1, .hold_out = 2}};
  options.scorer = {.rank = 4, .steps = 30, .groups_at_once = 8};
  options.single = {.rank = 3, .steps = 30, .rate = 0.03, .groups_at_once = 8};
  options.longest = 0;
  return options;
}

std::vector<PairInputs> inputs_of(Transformer model, const std::vector<TokenIds>& texts,
                                  int64_t wanted_layer) {
  std::vector<PairInputs> result;
  stream_layers(model, texts, [&](int64_t layer, std::span<const PairInputs> inputs) {
    if (layer == wanted_layer) result.assign(inputs.begin(), inputs.end());
  });
  return result;
}

TEST(Budget, FindsWhatTryingEverythingFinds) {
  RandomStream random(4, "budget");
  for (int round = 0; round < 20; ++round) {
    std::vector<HeadChoices> heads(4);
    for (HeadChoices& head : heads) {
      double cost = 0, density = 1;
      for (int choice = 0; choice < 4; ++choice) {
        head.settings.push_back(choice);
        head.cost.push_back(cost);
        head.density.push_back(density);
        cost += random.uniform();
        density *= 0.3 + 0.5 * random.uniform();
      }
    }
    const Allocation found = allocate_cost(heads, 1.5);
    EXPECT_LE(found.cost, 1.5);
    // The best of all, and the best that a price can find: no worse than what a slightly larger budget
    // allows.
    double best = 1;
    for (int code = 0; code < 256; ++code) {
      double cost = 0, density = 0;
      for (int head = 0; head < 4; ++head) {
        const auto choice = static_cast<size_t>(code >> (2 * head) & 3);
        cost += heads[static_cast<size_t>(head)].cost[choice];
        density += heads[static_cast<size_t>(head)].density[choice] / 4;
      }
      if (cost <= found.cost + 1e-12) best = std::min(best, density);
    }
    EXPECT_NEAR(found.density, best, 1e-12);
    const Allocation sparse = allocate_density(heads, 0.5);
    EXPECT_LE(sparse.density, 0.5);
  }
}

TEST(Budget, FinerChoicesKeepTheirEnds) {
  const HeadChoices coarse{{0, 0.01, 0.1, INFINITY}, {1, 0.6, 0.2, 0.1}, {0, 0.001, 0.0005, 0.1}};
  const HeadChoices fine = coarse.refined(3);
  ASSERT_EQ(fine.settings.size(), 7U);
  EXPECT_EQ(fine.settings.front(), 0);
  EXPECT_EQ(fine.settings.back(), INFINITY);
  EXPECT_TRUE(std::ranges::is_sorted(fine.cost));  // a dip in what was measured is smoothed out
  EXPECT_TRUE(std::ranges::is_sorted(fine.density, std::greater{}));
  EXPECT_NEAR(fine.settings[3], std::sqrt(0.001), 1e-12);
}

TEST(Texts, PurposesShareNoTokens) {
  TokenIds text(5000);
  std::iota(text.begin(), text.end(), 0);
  const TextWindows windows = cut_windows(text, std::vector<WindowCount>{{100, 10, 2, 3}, {400, 3, 1, 1}});
  EXPECT_EQ(windows.learn.size(), 13U);
  EXPECT_EQ(windows.sense.size(), 3U);
  EXPECT_EQ(windows.held_out.size(), 4U);
  std::vector<std::string> purpose(text.size());
  const auto mark = [&](const std::vector<TokenIds>& of, const std::string& name) {
    for (const TokenIds& window : of)
      for (const int32_t token : window) {
        std::string& found = purpose[static_cast<size_t>(token)];
        EXPECT_TRUE(found.empty() || found == name) << token << " serves to " << found << " and to " << name;
        found = name;
      }
  };
  mark(windows.learn, "learn");
  mark(windows.sense, "sense");
  mark(windows.held_out, "hold out");
  // What is held out comes from the beginning and from the end of a long text, and a longer text never gives
  // fewer windows.
  EXPECT_LT(windows.held_out.front().front(), 2500);
  EXPECT_GT(windows.held_out.back().front(), 1000);
  size_t most = 0;
  for (int64_t size = 300; size < 9000; size += 37) {
    TokenIds longer(static_cast<size_t>(size));
    const TextWindows cut = cut_windows(longer, std::vector<WindowCount>{{100, 10, 2, 3}, {400, 3, 1, 1}});
    const size_t count = cut.learn.size() + cut.sense.size() + cut.held_out.size();
    EXPECT_GE(count, most) << size;
    most = std::max(most, count);
  }
  text.resize(300);
  EXPECT_EQ(cut_windows(text, std::vector<WindowCount>{{100, 10, 2, 3}, {400, 3, 1, 1}}).learn.size(), 1U);
  text.resize(299);
  EXPECT_THROW(cut_windows(text, std::vector<WindowCount>{{100, 10, 2, 3}}), Error);
}

// The definition, from all weights at once.
TEST(Lessons, SayWhatAttentionGave) {
  for (const char* formula : {"causal", "full", "alibi"})
    for (const int64_t pool : {1, 16}) {
      Transformer model = tiny_transformer();
      model->set_attention(Formula::load(formula));
      const PairInputs inputs = inputs_of(model, {random_text(96)}, 1)[0];
      const bool causal = std::string(formula) != "full";
      const LessonOptions options{.selection = {.query_tile = 16, .sinks = 2, .near = 8},
                                  .pool = pool,
                                  .samples = pool == 1 ? 1 : 4,
                                  .causal = causal,
                                  .stride = pool == 1 ? 16 : 1,
                                  .first = pool == 1 ? 5 : 0};
      const Lesson lesson = make_lesson(model->formula(1), inputs, options);
      const AttentionResult all = reference_attention(model->formula(1).plan(), inputs, true);
      const int64_t count = lesson.near.size(1);
      ASSERT_EQ(count, 6);
      for (int64_t index = 0; index < count; ++index) {
        const int64_t row = pool == 1 ? index * 16 + 5 : index * 16, tile = row / 16 * 16;
        for (int64_t key = 0; key < 96; ++key) {
          const bool near = key < 2 || (key >= tile - 8 && key <= tile + 15 + (causal ? 0 : 8));
          const bool far = !near && (!causal || key < row);
          EXPECT_EQ(lesson.far[index][key].item<bool>(), far) << formula << " " << index << " " << key;
        }
        const Tensor weights = all.weights[0].narrow(1, row, pool);
        const Tensor target = weights.square().sum(1).sqrt() * lesson.far[index];
        EXPECT_LT((lesson.target.select(1, index) - target).abs().max().item<double>(), 1e-5);
        Tensor logs = torch::zeros({4});
        for (int64_t sample = 0; sample < options.samples; ++sample) {
          const int64_t step = pool / options.samples, at = row + step / 2 + sample * step;
          Tensor kept = torch::zeros({4});
          for (int64_t key = 0; key < 96; ++key)
            if (key < 2 || (key >= tile - 8 && key <= tile + 15 + (causal ? 0 : 8)))
              kept += all.weights[0].select(1, at).select(1, key);
          logs += (kept.log() + all.log_sums[0][0].select(1, at)) / static_cast<double>(options.samples);
        }
        EXPECT_LT((lesson.near.select(1, index) - logs).abs().max().item<double>(), 1e-4) << formula;
      }
    }
}

TEST(ScorerTraining, GradientIsTheLosss) {
  Transformer model = tiny_transformer();
  const std::vector<PairInputs> inputs = inputs_of(model, {random_text(128)}, 0);
  const LessonOptions options{.selection = {.query_tile = 16, .sinks = 2, .near = 8}};
  const Lesson lesson = make_lesson(model->formula(0), inputs[0], options);
  LowRankScorer scorer = starting_scorer(inputs, 3, 16, 4);
  scorer.log_factor += 0.3;
  const auto gradients = scorer_gradients(scorer, lesson);
  constexpr double kStep = 1e-2;
  for (const auto& [name, tensor] : scorer.named()) {
    if (name == "thresholds") continue;
    const Tensor direction = torch::randn(tensor->sizes()) / std::sqrt(static_cast<double>(tensor->numel()));
    const Tensor kept = tensor->clone();
    tensor->copy_(kept + kStep * direction);
    const double above = scorer_loss(scorer, lesson);
    tensor->copy_(kept - kStep * direction);
    const double below = scorer_loss(scorer, lesson);
    tensor->copy_(kept);
    const double expected = (above - below) / (2 * kStep) * 4;  // the loss is a mean over four heads
    const double slope = (gradients.at(name) * direction).sum().item<double>();
    EXPECT_NEAR(slope, expected, 0.02 * std::abs(expected) + 2e-4) << name;
  }
}

TEST(ScorerTraining, LearnsAndIsBetterThanItsStart) {
  Transformer model = tiny_transformer();
  std::vector<TokenIds> texts;
  for (uint64_t seed = 1; seed <= 6; ++seed) texts.push_back(random_text(128, seed));
  const std::vector<PairInputs> inputs = inputs_of(model, texts, 1);
  const LessonOptions options{.selection = {.query_tile = 16, .sinks = 2, .near = 8}};
  std::vector<Lesson> lessons;
  for (const PairInputs& input : inputs) lessons.push_back(make_lesson(model->formula(1), input, options));
  LowRankScorer scorer = starting_scorer(inputs, 4, 16, 4);
  const double before = scorer_loss(scorer, lessons.back());
  const TrainedScorer trained = train_scorer(scorer, std::span(lessons).first(5), {.rank = 4, .steps = 120});
  EXPECT_LT(trained.last_loss, trained.first_loss);
  EXPECT_LT(scorer_loss(scorer, lessons.back()), before);  // also on a text that it did not learn from
}

TEST(Divergence, IsZeroForTheSameAndKnownForOther) {
  Transformer model = tiny_transformer();
  const std::vector<TokenIds> texts{random_text(300), random_text(5)};
  const std::vector<Tensor> hidden = last_hidden_states(model, texts);
  const Divergence same = divergence_of(model, hidden, model, hidden, texts);
  EXPECT_EQ(same.values.numel(), 305);
  EXPECT_EQ(same.values.abs().max().item<double>(), 0);
  EXPECT_TRUE(same.same_top.all().item<bool>());
  std::vector<Tensor> moved{hidden[0] + 0.1 * torch::randn_like(hidden[0]), hidden[1]};
  const Divergence other = divergence_of(model, hidden, model, moved, texts);
  const Tensor p = model->logits(hidden[0]).to(torch::kDouble).log_softmax(-1),
               q = model->logits(moved[0]).to(torch::kDouble).log_softmax(-1);
  const Tensor expected = (p.exp() * (p - q)).sum(-1);
  EXPECT_LT((other.values.narrow(0, 0, 300) - expected).abs().max().item<double>(), 1e-6);
  EXPECT_GE(other.quantile(0.99), other.median());
  EXPECT_TRUE(std::isnan(other.base_nll[304].item<double>()));
  EXPECT_NEAR(other.base_nll[0].item<double>(), -p[0][texts[0][1]].item<double>(), 1e-5);
}

TEST(Sensitivity, KeepingAllCostsNothingAndLessCostsMore) {
  Transformer model = tiny_transformer();
  const Selectors selectors = random_selectors(0.01F);
  const Sensitivity sensitivity =
      measure_sensitivity(model, selectors, std::vector<TokenIds>{random_text(128)}, {});
  EXPECT_LT(sensitivity.cost[0].abs().max().item<double>(), 1e-9);
  EXPECT_NEAR(sensitivity.density[0].min().item<double>(), 1, 1e-12);
  EXPECT_GT(sensitivity.cost[-1].min().item<double>(), 0);
  EXPECT_LT(sensitivity.density[-1].max().item<double>(), 0.5);
}

// The estimate is about the truth for a single head, where errors cannot add up.
TEST(Sensitivity, AgreesWithTheDivergenceOfOneHead) {
  Transformer model = tiny_transformer();
  const std::vector<TokenIds> texts{random_text(128, 1), random_text(128, 2), random_text(128, 3)};
  Selectors selectors;
  for (int layer = 0; layer < 2; ++layer)
    selectors.push_back(std::make_shared<SpanSelector>(SelectionOptions{.query_tile = 16, .near = 8}, true,
                                                       torch::full({4}, kWholeSpan, torch::kLong)));
  const Sensitivity sensitivity = measure_sensitivity(model, selectors, texts, {.draws = 12});
  const std::vector<Tensor> dense = last_hidden_states(model, texts);
  for (const auto& [layer, head] : {std::pair{0, 1}, {1, 0}, {1, 3}}) {
    for (const auto& selector : selectors)
      for (int64_t other = 0; other < 4; ++other) selector->set(other, 0, static_cast<double>(kWholeSpan));
    selectors[static_cast<size_t>(layer)]->set(head, 0, 8);
    const HeldOutMeasure truth = measure_held_out(model, selectors, texts, dense);
    const double estimate = sensitivity.cost[-1][0][layer][head].item<double>();
    EXPECT_GT(estimate, 0.3 * truth.divergence);
    EXPECT_LT(estimate, 3 * truth.divergence);
  }
}

TEST(Distill, KeepsItsBudgetOnHeldOutText) {
  for (const SelectorKind kind : {SelectorKind::gate, SelectorKind::indexer, SelectorKind::token_gate,
                                  SelectorKind::span, SelectorKind::full_or_local}) {
    Transformer model = tiny_transformer();
    DistillOptions options = small_options();
    options.kind = kind;
    options.goal.divergence = 0.02;
    const DistillResult result = distill(model, random_text(3000), options, {});
    EXPECT_TRUE(result.solution.found) << name_of(kind);
    for (const RangeResult& range : result.solution.ranges) {
      EXPECT_LE(range.divergence * (1 + range.margin), 0.02 * 1.0001) << name_of(kind);
      EXPECT_GT(range.margin, 0.1) << name_of(kind);  // eight windows held out say little
    }
    // Heads that are either full or local may all have to be full.
    if (kind != SelectorKind::full_or_local) {
      EXPECT_LT(result.solution.density, 0.99) << name_of(kind);
    }
    EXPECT_EQ(selectors_of(model).size(), 2U);
    EXPECT_EQ(result.decoding.has_value(), kind == SelectorKind::gate || kind == SelectorKind::indexer);
    if (result.decoding) {
      EXPECT_TRUE(result.decoding->found) << name_of(kind);
      EXPECT_LE(result.decoding->divergence, 0.02) << name_of(kind);
      EXPECT_LT(result.decoding->density, 0.98) << name_of(kind);
    }
  }
}

// Texts beyond 1024 tokens have ranges of positions with thresholds of their own; decoding has one set.
TEST(Distill, LongTextsHaveRangesOfTheirOwn) {
  Transformer model = tiny_transformer();
  DistillOptions options = small_options();
  options.windows = {{.tokens = 128, .learn = 4, .sense = 2, .hold_out = 2},
                     {.tokens = 1152, .learn = 1, .sense = 1, .hold_out = 1}};
  options.goal.divergence = 0.02;
  const DistillResult result = distill(model, random_text(9000), options, {});
  ASSERT_EQ(result.solution.ranges.size(), 2U);
  EXPECT_TRUE(result.solution.found);
  for (const RangeResult& range : result.solution.ranges) EXPECT_LE(range.divergence, 0.02);
  ASSERT_TRUE(result.decoding.has_value());
  EXPECT_TRUE(result.decoding->found);
  EXPECT_LT(result.decoding->density, 0.98);
}

TEST(Distill, ReachesADensity) {
  Transformer model = tiny_transformer();
  DistillOptions options = small_options();
  options.goal.density = 0.6;
  options.decoding = false;
  const DistillResult result = distill(model, random_text(3000), options, {});
  EXPECT_TRUE(result.solution.found);
  EXPECT_LE(result.solution.density, 0.604);
  EXPECT_GT(result.solution.density, 0.4);
}

TEST(Distill, RefusesSizesThatDoNotFit) {
  Transformer model = tiny_transformer();
  const auto error = [&](const std::function<void(DistillOptions&)>& change) {
    DistillOptions options = small_options();
    options.goal.divergence = 0.02;
    change(options);
    EXPECT_THROW(distill(model, random_text(3000), options, {}), Error);
  };
  error([](DistillOptions& options) { options.selection.query_tile = 0; });
  error([](DistillOptions& options) { options.pool = 12; });
  error([](DistillOptions& options) { options.samples = 3; });
  error([](DistillOptions& options) { options.scorer.rank = 9; });
  error([](DistillOptions& options) {
    options.windows = {{.tokens = 60, .learn = 1, .sense = 1, .hold_out = 1}};
  });
}

TEST(Distill, SaysWhenNothingCanBeLeftOut) {
  Transformer model = tiny_transformer();
  DistillOptions options = small_options();
  options.kind = SelectorKind::full_or_local;
  options.goal.divergence = 1e-12;
  const DistillResult result = distill(model, random_text(3000), options, {});
  EXPECT_FALSE(result.solution.saves);
  EXPECT_GT(result.solution.density, 0.98);
}

TEST(Distill, EncodersLookBothWays) {
  Transformer model = tiny_transformer(false);
  model->set_attention(Formula::load("full"));
  DistillOptions options = small_options();
  options.goal.divergence = 0.05;
  const DistillResult result = distill(model, random_text(3000), options, {});
  EXPECT_TRUE(result.solution.found);
  EXPECT_FALSE(result.decoding.has_value());
}

TEST(Distill, ATextThatIsTooShortLeavesNoFolder) {
  const std::filesystem::path directory = std::filesystem::path(testing::TempDir()) / "distill_short";
  std::filesystem::remove_all(directory);
  DistillOptions options = small_options();
  options.goal.divergence = 0.05;
  EXPECT_THROW(distill(tiny_transformer(), random_text(30), options, {.directory = directory, .base = "x"}),
               Error);
  EXPECT_FALSE(std::filesystem::exists(directory));
}

TEST(Distill, ResumesToTheSameModel) {
  const std::filesystem::path directory = std::filesystem::path(testing::TempDir()) / "distill_resume";
  std::filesystem::remove_all(directory);
  DistillOptions options = small_options();
  options.goal.divergence = 0.02;
  const TokenIds text = random_text(3000), other = random_text(70, 9);
  const auto hidden = [&](Transformer model) {
    return last_hidden_states(model, std::vector<TokenIds>{other})[0];
  };
  Transformer whole = tiny_transformer(), parts = tiny_transformer();
  distill(whole, text, options, {});
  int64_t asked = 0;
  const DistillResult stopped = distill(
      parts, text, options, {.directory = directory, .base = "x", .stop = [&] { return ++asked > 1; }});
  EXPECT_TRUE(stopped.stopped);
  EXPECT_THROW(distill(parts, text, options, {.directory = directory, .base = "x"}), Error);
  DistillOptions changed = options;
  changed.seed = 5;
  EXPECT_THROW(distill(parts, text, changed, {.directory = directory, .base = "x", .resume = true}), Error);
  EXPECT_FALSE(distill(parts, text, options, {.directory = directory, .base = "x", .resume = true}).stopped);
  EXPECT_EQ((hidden(whole) - hidden(parts)).abs().max().item<double>(), 0);
  Transformer loaded = tiny_transformer();
  attach(loaded, load_sparse(directory).selectors);
  EXPECT_EQ((hidden(whole) - hidden(loaded)).abs().max().item<double>(), 0);
}

TEST(Distill, FineTuningTakesBackWhatDoesNotHelp) {
  Transformer model = tiny_transformer();
  DistillOptions options = small_options();
  options.goal.divergence = 0.02;
  options.decoding = false;
  const TokenIds text = random_text(3000);
  const DistillResult plain = distill(model, text, options, {});
  options.fine_tuning = {
      .steps = 12, .rate = 0.01, .hidden = 0.01, .maps = 0.01, .density = 0.05, .watch_every = 4};
  std::vector<Json> events;
  const DistillResult tuned =
      distill(model, text, options, {.on_event = [&](const Json& event) { events.push_back(event); }});
  EXPECT_TRUE(tuned.solution.found);
  EXPECT_LE(tuned.solution.density, plain.solution.density + 1e-9);
  ASSERT_TRUE(tuned.fine_tuned.has_value());
  // Far too fast: held-out text shows it, and nothing of it stays.
  options.fine_tuning.rate = 30;
  const DistillResult wild = distill(model, text, options, {});
  EXPECT_TRUE((*wild.fine_tuned)["stepped_back"].get<bool>());
  EXPECT_NEAR(wild.solution.density, plain.solution.density, 1e-9);
}

TEST(Distill, ScorersOfAnotherRunCanBeSetAnew) {
  const std::filesystem::path directory = std::filesystem::path(testing::TempDir()) / "distill_scorers";
  std::filesystem::remove_all(directory);
  Transformer model = tiny_transformer();
  DistillOptions options = small_options();
  options.goal.divergence = 0.02;
  const TokenIds text = random_text(3000);
  const DistillResult first = distill(model, text, options, {.directory = directory, .base = "x"});
  options.goal.divergence = 0.1;
  int64_t trained = 0;
  const DistillResult second =
      distill(model, text, options, {.scorers = directory, .on_event = [&](const Json& event) {
                                       trained += event["stage"] == "scorer" ? 1 : 0;
                                     }});
  EXPECT_EQ(trained, 0);
  EXPECT_LT(second.solution.density, first.solution.density);
}

TEST(Imitation, ComesCloserToTheModel) {
  Transformer model = tiny_transformer();
  const std::vector<TokenIds> texts{random_text(48, 1), random_text(48, 2)}, held_out{random_text(48, 3)};
  const std::vector<Teacher> teacher = teachers_of(model, texts), other = teachers_of(model, held_out);
  const Tensor projection = model->block(0)->projection->weight.clone(),
               mlp = model->block(0)->mlp->up->weight.clone();
  model->set_attention(Formula::load("window", {{"w", 4}}));
  const std::vector<ImitationEpoch> epochs =
      imitate(model, texts, teacher, held_out, other, {.epochs = 30, .rate = 3e-3});
  ASSERT_EQ(epochs.size(), 31U);
  EXPECT_LT(epochs.back().learned, 0.4 * epochs.front().learned);
  EXPECT_GT(epochs.front().held_out, 0);
  EXPECT_TRUE(
      torch::equal(model->block(0)->projection->weight, projection));  // what is not chosen is not touched
  EXPECT_FALSE(torch::equal(model->block(0)->mlp->up->weight, mlp));
  EXPECT_THROW(imitate(model, texts, teacher, {}, {}, {.learn = {"mpl"}}), Error);
}

TEST(Frontier, TheOracleIsBestAndLearningBeatsChance) {
  Transformer model = tiny_transformer();
  FrontierOptions options{.distill = small_options(), .goals = {0.003, 0.03, 0.3}};
  options.distill.windows = {{.tokens = 128, .learn = 8, .sense = 2, .hold_out = 3}};
  options.distill.goal.divergence = 0.03;
  options.distill.scorer.rank = 8;
  const Frontier frontier = measure_frontier(model, random_text(3000), options, {});
  std::map<std::string, FrontierCurve> curves;
  for (const FrontierCurve& curve : frontier.curves) curves[curve.name] = curve;
  ASSERT_TRUE(curves.contains("learned gate") && curves.contains("oracle") && curves.contains("random"));
  const std::optional<double> learned = curves["learned gate"].density_at(0.05),
                              oracle = curves["oracle"].density_at(0.05),
                              random = curves["random"].density_at(0.05);
  ASSERT_TRUE(learned && oracle);
  EXPECT_LT(*oracle, *learned * 1.1);
  if (random) {
    EXPECT_LT(*learned, *random);
  }
  EXPECT_THAT(dump(to_json(frontier)), HasSubstr("pooled top-k"));
}

TEST(AttentionTime, MeasuresAndSetsTheCrossover) {
  Transformer model = tiny_transformer();
  const Selectors selectors = random_selectors(kernels::kKeepNone);
  const AttentionTime time = measure_attention_time(model, selectors, random_text(256), 1);
  EXPECT_EQ(time.tokens, 256);
  EXPECT_GT(time.dense, 0);
  EXPECT_GT(time.sparse, time.choosing);
  EXPECT_LT(time.density, 0.5);
  EXPECT_GT(time.next_dense, 0);
  EXPECT_GT(time.next_sparse, 0);
  EXPECT_LT(time.next_density, 0.5);
  // Two layers with two key heads of 8 + 8 floats; 4 sinks, 8 near keys and the token itself, and four
  // numbers of each earlier key for each of four heads.
  EXPECT_EQ(time.next_dense_bytes, 2 * 2 * 256 * 16 * 4);
  EXPECT_EQ(time.next_sparse_bytes, 2 * (2 * 13 * 16 * 4 + 4 * 4 * 255 * 4));
  EXPECT_TRUE(
      set_crossover(model, selectors, random_text(256), 256).empty());  // too short to measure anything
  EXPECT_EQ(selectors[0]->options().min_keys, 0);
  EXPECT_EQ(selectors[0]->options().min_cached, 0);
}

}  // namespace
}  // namespace saccade
