// A transformer with an encoder: what its decoder sees of a source, and what it must not.
#include <gmock/gmock.h>

#include <filesystem>

#include "saccade/base/error.h"
#include "saccade/base/testing.h"
#include "saccade/models/initialise.h"
#include "saccade/models/model_files.h"

namespace saccade {
namespace {

using at::Tensor;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int64_t kVocabulary = 40;

Architecture pair_architecture() {
  Architecture a;
  a.family = "saccade";
  a.vocabulary = kVocabulary;
  a.width = 24;
  a.layers = 2;
  a.encoder_layers = 3;
  a.heads = 4;
  a.kv_heads = 2;
  a.head_dim = 6;
  a.inner = 40;
  a.context = 64;
  a.rotary = RotaryOptions{};
  return a;
}

Transformer random_pair(const Architecture& architecture, bool with_gpam = false) {
  Transformer model(architecture);
  if (with_gpam) {
    const std::string free =
        "vector q2 = linear(relu(q))\nstream t = q2 . k\nparam lp[head] = 0.3\nparam ln[head] = 0.2\n"
        "weights = (1 + lp) * softmax(s) - ln * softmax(t)\n";
    model->set_attention(Formula::load("gpam"));
    model->encoder()->set_attention(Formula::parse(free));
    model->set_cross_attention({2, Formula::parse(free)});
  }
  initialise(model, {.deviation = 0.3});
  return model;
}

Tensor some_ids(int64_t batch, int64_t tokens, uint64_t seed) {
  torch::manual_seed(seed);
  return torch::randint(kVocabulary, {batch, tokens}, torch::kLong);
}

double largest_difference(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

class Seq2seq : public DirectoryTest, public ::testing::WithParamInterface<bool> {};

TEST_P(Seq2seq, CachedDecodingEqualsTheFullForward) {
  const torch::NoGradGuard no_gradient;
  Transformer model = random_pair(pair_architecture(), GetParam());
  model->to(torch::kDouble);
  model->eval();
  const Tensor source = some_ids(3, 7, 1), ids = some_ids(3, 9, 2);
  const Tensor whole = model->forward({.ids = ids, .source = source});
  ModelCache cache = model->make_cache();
  std::vector<Tensor> parts;
  for (const auto& [from, count] : {std::pair<int64_t, int64_t>{0, 3}, {3, 1}, {4, 2}, {6, 1}, {7, 2}})
    parts.push_back(model->forward(
        {.ids = ids.narrow(1, from, count), .source = from == 0 ? source : Tensor(), .cache = &cache}));
  EXPECT_LT(largest_difference(torch::cat(parts, 1), whole), 1e-10);
}

TEST_P(Seq2seq, PaddingOfTheSourceChangesNothing) {
  const torch::NoGradGuard no_gradient;
  Transformer model = random_pair(pair_architecture(), GetParam());
  model->eval();
  const Tensor source = some_ids(2, 6, 3), ids = some_ids(2, 5, 4);
  const Tensor alone = model->forward({.ids = ids, .source = source});
  for (const int64_t padding : {1, 5, 40}) {
    const Tensor padded = torch::cat({source, some_ids(2, padding, 5)}, 1);
    const Tensor mask = torch::cat({torch::ones({2, 6}), torch::zeros({2, padding})}, 1).to(torch::kBool);
    EXPECT_LT(largest_difference(model->forward({.ids = ids, .source = padded, .source_mask = mask}), alone),
              1e-5)
        << padding;
  }
}

TEST_P(Seq2seq, PaddingOfTheTargetChangesNothingBeforeIt) {
  const torch::NoGradGuard no_gradient;
  Transformer model = random_pair(pair_architecture(), GetParam());
  model->eval();
  const Tensor source = some_ids(2, 6, 3), ids = some_ids(2, 5, 4);
  const Tensor longer = torch::cat({ids, some_ids(2, 4, 6)}, 1);
  EXPECT_LT(largest_difference(model->forward({.ids = longer, .source = source}).narrow(1, 0, 5),
                               model->forward({.ids = ids, .source = source})),
            1e-5);
}

TEST_P(Seq2seq, TheDecoderSeesAllOfTheSourceAndTheEncoderBothWays) {
  const torch::NoGradGuard no_gradient;
  Transformer model = random_pair(pair_architecture(), GetParam());
  model->eval();
  const Tensor source = some_ids(1, 6, 3), ids = some_ids(1, 4, 4);
  const Tensor before = model->forward({.ids = ids, .source = source});
  const Tensor states = model->encoder()->forward({.ids = source});
  for (int64_t place = 0; place < 6; ++place) {
    Tensor changed = source.clone();
    changed[0][place] = (changed[0][place] + 1) % kVocabulary;
    const Tensor after = model->forward({.ids = ids, .source = changed});
    EXPECT_GT((after - before)[0][0].abs().max().item<double>(), 1e-4) << place;
    const Tensor seen = (model->encoder()->forward({.ids = changed}) - states).abs().amax(-1)[0];
    EXPECT_GT(seen.min().item<double>(), 1e-6) << place;
  }
}

TEST_P(Seq2seq, TheFusedPathEqualsTheReference) {
  Transformer model = random_pair(pair_architecture(), GetParam());
  const Tensor source = some_ids(2, 33, 3), ids = some_ids(2, 21, 4);
  const Tensor mask = torch::arange(33).unsqueeze(0) < torch::tensor({33, 20}).unsqueeze(1);
  std::vector<std::vector<Tensor>> gradients;
  std::vector<Tensor> outputs;
  for (const Path path : {Path::fused, Path::reference}) {
    model->set_path(path);
    model->zero_grad();
    for (Tensor parameter : model->parameters()) parameter.requires_grad_(true);
    outputs.push_back(model->forward({.ids = ids, .source = source, .source_mask = mask}));
    outputs.back().sin().sum().backward();
    gradients.emplace_back();
    for (const Tensor& parameter : model->parameters()) gradients.back().push_back(parameter.grad().clone());
  }
  EXPECT_LT(largest_difference(outputs[0], outputs[1]), 1e-4);
  for (size_t index = 0; index < gradients[0].size(); ++index)
    EXPECT_LT(largest_difference(gradients[0][index], gradients[1][index]),
              1e-3 * (1 + gradients[1][index].abs().max().item<double>()))
        << model->named_parameters().keys()[index];
}

TEST_P(Seq2seq, EveryParameterHasTheGradientOfFiniteDifferences) {
  Transformer model = random_pair(pair_architecture(), GetParam());
  model->to(torch::kDouble);
  const Tensor source = some_ids(2, 5, 3), ids = some_ids(2, 4, 4);
  const auto loss = [&] {
    return torch::log_softmax(model->logits(model->forward({.ids = ids, .source = source})), -1)
        .select(-1, 7)
        .sum();
  };
  for (Tensor parameter : model->parameters()) parameter.requires_grad_(true);
  loss().backward();
  torch::manual_seed(7);
  for (auto& item : model->named_parameters()) {
    const torch::NoGradGuard no_gradient;
    Tensor value = item.value();
    ASSERT_TRUE(value.grad().defined()) << item.key();
    const Tensor direction = torch::randn_like(value);
    const double step = 1e-6, expected = (value.grad() * direction).sum().item<double>();
    value.add_(direction * step);
    const double above = loss().item<double>();
    value.sub_(direction * (2 * step));
    const double below = loss().item<double>();
    value.add_(direction * step);
    EXPECT_NEAR((above - below) / (2 * step), expected, 1e-5 * (1 + std::fabs(expected))) << item.key();
  }
}

TEST_P(Seq2seq, FilesKeepEverything) {
  const torch::NoGradGuard no_gradient;
  for (const bool shared : {true, false}) {
    const std::filesystem::path folder = at(shared ? "shared" : "separate");
    Architecture a = pair_architecture();
    a.shared_embedding = shared;
    a.tied = shared;
    Transformer model = random_pair(a, GetParam());
    model->eval();
    save_model(model, folder);
    Transformer loaded = load_model(folder);
    EXPECT_EQ(loaded->parameter_count(), model->parameter_count());
    const Tensor source = some_ids(2, 6, 3), ids = some_ids(2, 5, 4);
    EXPECT_EQ(largest_difference(loaded->logits(loaded->forward({.ids = ids, .source = source})),
                                 model->logits(model->forward({.ids = ids, .source = source}))),
              0);
  }
}

TEST_P(Seq2seq, BeamsThatChangePlacesKeepTheirSource) {
  const torch::NoGradGuard no_gradient;
  Transformer model = random_pair(pair_architecture(), GetParam());
  model->to(torch::kDouble);
  model->eval();
  const Tensor source = some_ids(2, 6, 3), first = some_ids(2, 1, 4), next = some_ids(5, 1, 5);
  ModelCache cache = model->make_cache();
  model->forward({.ids = first, .source = source, .cache = &cache});
  const Tensor rows = torch::tensor({1, 0, 0, 1, 1}, torch::kLong);
  cache.reorder(rows);
  Tensor got = model->forward({.ids = next, .cache = &cache});
  const auto wanted = [&](const Tensor& ids, const Tensor& from) {
    return model->forward({.ids = ids, .source = source.index_select(0, from)}).narrow(1, ids.size(1) - 1, 1);
  };
  const Tensor so_far = torch::cat({first.index_select(0, rows), next}, 1);
  EXPECT_LT(largest_difference(got, wanted(so_far, rows)), 1e-10);
  const Tensor swap = torch::tensor({3, 1, 2, 0, 4}, torch::kLong);  // within their sources
  cache.reorder(swap);
  got = model->forward({.ids = next, .cache = &cache});
  EXPECT_LT(largest_difference(
                got, wanted(torch::cat({so_far.index_select(0, swap), next}, 1), rows.index_select(0, swap))),
            1e-10);
}

INSTANTIATE_TEST_SUITE_P(Attention, Seq2seq, ::testing::Bool(),
                         [](const auto& which) { return which.param ? "gpam" : "softmax"; });

TEST(Seq2seqModel, SharedEmbeddingsAreCountedOnce) {
  Architecture a = pair_architecture();
  const int64_t shared = Transformer(a)->parameter_count();
  a.shared_embedding = false;
  const int64_t separate = Transformer(a)->parameter_count();
  a.tied = false;
  EXPECT_EQ(separate - shared, kVocabulary * a.width);
  EXPECT_EQ(Transformer(a)->parameter_count() - separate, kVocabulary * a.width);
}

TEST(Seq2seqModel, DropoutDiffersOnBothSidesAndNotByBatch) {
  Architecture a = pair_architecture();
  a.dropout = 0.5;
  Transformer model = random_pair(a);
  model->train();
  const torch::NoGradGuard no_gradient;
  const Tensor source = some_ids(4, 6, 3), ids = some_ids(4, 5, 4);
  const Tensor whole = model->forward({.ids = ids, .source = source, .dropout_seed = 3});
  const Tensor half = model->forward(
      {.ids = ids.narrow(0, 2, 2), .source = source.narrow(0, 2, 2), .dropout_seed = 3, .first_sequence = 2});
  EXPECT_LT(largest_difference(half, whole.narrow(0, 2, 2)), 1e-5);
  EXPECT_GT(largest_difference(model->forward({.ids = ids, .source = source, .dropout_seed = 4}), whole),
            1e-2);
}

TEST(Seq2seqModel, SaysWhatIsMissing) {
  Transformer model = random_pair(pair_architecture());
  const Tensor ids = some_ids(2, 5, 4);
  EXPECT_THAT([&] { model->forward({.ids = ids}); },
              ThrowsMessage<Error>(HasSubstr("it translates, and needs a source")));
  EXPECT_THAT([&] { model->forward({.ids = ids, .source = some_ids(3, 5, 1)}); },
              ThrowsMessage<Error>(HasSubstr("[3, 5]")));
  Architecture plain = pair_architecture();
  plain.encoder_layers = 0;
  EXPECT_THAT([&] { random_pair(plain)->forward({.ids = ids, .source = ids}); },
              ThrowsMessage<Error>(HasSubstr("no encoder")));
}

}  // namespace
}  // namespace saccade
