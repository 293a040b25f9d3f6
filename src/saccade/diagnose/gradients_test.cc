#include "saccade/diagnose/gradients.h"

#include <gmock/gmock.h>

#include "saccade/base/testing.h"
#include "saccade/diagnose/testing.h"

namespace saccade {
namespace {

using at::Tensor;
using ::testing::HasSubstr;

double loss_of(Transformer& model, const Tensor& ids) {
  const torch::NoGradGuard no_gradient;
  const Tensor logits = model->logits(model->forward({.ids = ids})), chances = logits.log_softmax(-1);
  double sum = 0;
  for (int64_t row = 0; row < ids.size(0); ++row)
    for (int64_t token = 0; token + 1 < ids.size(1); ++token)
      sum -= chances[row][token][ids[row][token + 1]].item<double>();
  return sum / static_cast<double>(ids.size(0) * (ids.size(1) - 1));
}

TEST(Gradients, AreTheSlopesOfTheLoss) {
  Transformer model = random_model(small_architecture(), "prior");
  model->to(torch::kDouble);
  const Tensor ids = some_ids(2, 7);
  const Gradients found = measure_gradients(model, ids);
  EXPECT_NEAR(found.loss, loss_of(model, ids), 1e-10);
  const torch::NoGradGuard no_gradient;
  // The norm of a gradient, from what moving each number does to the loss.
  const auto slope_norm = [&](const Tensor& part) {
    double squares = 0;
    const Tensor flat = part.contiguous().view(-1);
    std::vector<int64_t> index(static_cast<size_t>(part.dim()), 0);
    for (int64_t row = 0; row < part.size(0); ++row)
      for (int64_t column = 0; column < (part.dim() > 1 ? part.size(1) : 1); ++column) {
        Tensor cell = part.dim() > 1 ? part[row][column] : part[row];
        const double before = cell.item<double>(), step = 1e-5;
        cell.fill_(before + step);
        const double above = loss_of(model, ids);
        cell.fill_(before - step);
        const double below = loss_of(model, ids);
        cell.fill_(before);
        squares += std::pow((above - below) / (2 * step), 2);
      }
    return std::sqrt(squares);
  };
  const Block block = model->block(1);
  const Tensor projection = block->projection->weight;  // rows: 4 heads of 6, then 2 and 2
  const LayerGradients& layer = found.layers[1];
  EXPECT_NEAR(layer.query_heads[2], slope_norm(projection.narrow(0, 12, 6)), 1e-6);
  EXPECT_NEAR(layer.key_heads[1], slope_norm(projection.narrow(0, 30, 6)), 1e-6);
  EXPECT_NEAR(layer.value_heads[0], slope_norm(projection.narrow(0, 36, 6)), 1e-6);
  EXPECT_NEAR(layer.output_heads[3], slope_norm(block->output->weight.narrow(1, 18, 6)), 1e-6);
  EXPECT_NEAR(layer.formula.at("alpha"), slope_norm(block->attention->named_parameters()["alpha"]), 1e-6);
}

TEST(Gradients, AddUpAndAgreeWithBackward) {
  Transformer model = random_model(small_architecture(), "gpam");
  const Tensor ids = some_ids(3, 9);
  const Gradients found = measure_gradients(model, ids);
  std::vector<Tensor> hidden;
  const Tensor last = model->forward({.ids = ids, .hidden_states = &hidden});
  for (const Tensor& each : hidden) each.retain_grad();
  at::cross_entropy_loss(model->logits(last.narrow(1, 0, 8)).flatten(0, 1), ids.narrow(1, 1, 8).flatten())
      .backward();
  double total = 0;
  for (const Tensor& parameter : model->parameters()) total += parameter.grad().square().sum().item<double>();
  EXPECT_NEAR(found.total, std::sqrt(total), 1e-4 * found.total);
  EXPECT_NEAR(found.embedding, model->named_parameters()["tokens"].grad().norm().item<double>(), 1e-4);
  for (int64_t index = 0; index < 2; ++index) {
    const LayerGradients& layer = found.layers[static_cast<size_t>(index)];
    const Block block = model->block(index);
    double squares = 0;
    for (const Tensor& parameter : block->parameters())
      squares += parameter.grad().square().sum().item<double>();
    EXPECT_NEAR(layer.block, std::sqrt(squares), 1e-4 * layer.block);
    EXPECT_NEAR(layer.entering, hidden[static_cast<size_t>(index)].grad().norm().item<double>(),
                1e-4 * layer.entering);
    EXPECT_NEAR(std::hypot(layer.query, layer.key, layer.value),
                block->projection->weight.grad().norm().item<double>(), 1e-4);
    EXPECT_EQ(layer.query_heads.size(), 4u);
    EXPECT_EQ(layer.value_heads.size(), 2u);
    EXPECT_GT(layer.formula.at("ln"), 0);
  }
}

TEST(Gradients, LeaveTheModelAsItWas) {
  Transformer model = random_model(small_architecture());
  for (Tensor parameter : model->parameters()) parameter.set_requires_grad(false);
  Tensor asking = model->block(0)->output->weight;
  asking.set_requires_grad(true);
  asking.mutable_grad() = torch::full_like(asking, 7);
  {
    const torch::NoGradGuard no_gradient;  // as whoever only reads models has it
    EXPECT_GT(measure_gradients(model, some_ids(1, 5)).layers[1].mlp, 0);
  }
  for (const Tensor& parameter : model->parameters()) {
    EXPECT_EQ(parameter.requires_grad(), parameter.is_same(asking));
    EXPECT_EQ(parameter.grad().defined(), parameter.is_same(asking));
  }
  EXPECT_TRUE(torch::equal(asking.grad(), torch::full_like(asking, 7)));
}

TEST(Gradients, NeedSomethingToPredict) {
  Transformer model = random_model(small_architecture());
  EXPECT_THAT(message_of([&] { measure_gradients(model, some_ids(1, 1)); }), HasSubstr("needs at least 2"));
  Architecture a = small_architecture();
  a.head = HeadKind::none;
  Transformer headless = random_model(a);
  EXPECT_THAT(message_of([&] { measure_gradients(headless, some_ids(1, 5)); }),
              HasSubstr("no head for tokens"));
}

}  // namespace
}  // namespace saccade
