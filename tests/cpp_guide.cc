// The code of docs/cpp.md, so that what the guide shows compiles and is true; tests/cpp_guide_test.py holds
// the two to each other. What is not in the guide checks that its comments are right.
#include <saccade/saccade.h>
#include <torch/optim/adamw.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <iostream>

namespace {

bool all_hold = true;

void hold(bool ok, const char* what) {
  if (!ok) std::cout << "does not hold: " << what << "\n";
  all_hold = all_hold && ok;
}

saccade::Formula formulas() {
  const auto prior = saccade::Formula::parse(R"(
      param alpha[head] = 1
      param beta[head]  = 1 in [0.01, 4]
      mask  = causal
      score = s - abs(alpha * d) ^ beta
  )",
                                             {.name = "my prior"});
  const auto window = saccade::Formula::load("window", {{"w", 128}});

  const saccade::Plan& plan = prior.plan();
  std::cout << plan.decoding.possible << ": " << plan.decoding.reason << "\n";
  for (const std::string& warning : plan.warnings) std::cout << warning << "\n";
  std::cout << saccade::explain(prior, {.length = 1024});
  hold(plan.decoding.possible && plan.warnings.empty(), "the prior decodes");
  hold(window.plan().decoding.ring == 128, "a window needs a ring of its size");
  return prior;
}

void attention_module(const saccade::Formula& prior) {
  saccade::Attention attention(prior, saccade::AttentionOptions{.heads = 8, .kv_heads = 2, .head_dim = 64});
  const auto q = torch::randn({1, 8, 100, 64});
  const auto k = torch::randn({1, 2, 100, 64}), v = torch::randn({1, 2, 100, 64});
  const auto out = attention->forward(q, k, v);
  hold(out.sizes() == q.sizes(), "the output has the query's shape");

  torch::optim::AdamW optimiser(attention->parameters());
  out.square().mean().backward();
  optimiser.step();
  attention->clamp_parameters();
  hold(attention->named_parameters()["alpha"].grad().defined(), "alpha has a gradient");

  const saccade::PathChoice choice = attention->path();
  std::cout << saccade::name_of(choice.path) << ": " << choice.reason << "\n";
  hold(choice.path == saccade::Path::fused, "the fused path runs");

  saccade::Attention packed(
      saccade::Formula::load("document"),
      saccade::AttentionOptions{
          .heads = 8, .kv_heads = 2, .head_dim = 64, .rotary = saccade::RotaryOptions{.base = 10000}});
  const auto document = torch::arange(100) / 50 >= 1;
  const auto apart = packed->forward(q, k, v, {.inputs = {{"doc", document.to(torch::kLong)}}});
  const auto padded = packed->forward(
      q, k, v,
      {.inputs = {{"doc", document.to(torch::kLong)}}, .key_mask = torch::ones({1, 100}, torch::kBool)});
  hold(torch::allclose(apart, padded), "a mask that hides nothing changes nothing");

  const saccade::AttentionResult looked = attention->run(q, k, v, {.need_weights = true});
  hold(looked.weights.sizes() == torch::IntArrayRef({1, 8, 100, 100}), "weights of all pairs");
  hold(looked.log_sums.size() == 1, "one log-sum per norm");
}

void decoding(const saccade::Formula& prior) {
  saccade::Attention attention(prior, saccade::AttentionOptions{.heads = 4, .head_dim = 16});
  const torch::NoGradGuard no_gradient;
  const auto q = torch::randn({2, 4, 10, 16}), k = torch::randn({2, 4, 10, 16}),
             v = torch::randn({2, 4, 10, 16});
  const auto all = attention->forward(q, k, v);

  saccade::KvCache cache = attention->make_cache();
  const auto part = [](const torch::Tensor& x, int64_t from, int64_t count) {
    return x.narrow(2, from, count);
  };
  attention->forward(part(q, 0, 6), part(k, 0, 6), part(v, 0, 6), cache);
  const auto next = attention->forward(part(q, 6, 1), part(k, 6, 1), part(v, 6, 1), cache);
  hold((next - part(all, 6, 1)).abs().max().item<double>() < 1e-5,
       "decoding gives what the full forward gives");
  hold(cache.length() == 7 && cache.batch() == 2, "seven tokens of two sequences");

  cache.crop(5);
  cache.reorder(torch::tensor({1, 1}));
  hold(cache.length() == 5, "two tokens were taken back");
  cache.reset();
  hold(cache.length() == 0 && cache.bytes_held() == 0, "nothing is held");
}

void drop_in() {
  saccade::MultiheadAttention layer(saccade::MultiheadAttentionOptions{
      .embed_dim = 64, .num_heads = 4, .batch_first = true, .formula = saccade::Formula::load("alibi")});
  const auto x = torch::randn({2, 10, 64});
  const auto [output, weights] = layer->forward(x, x, x);
  const auto [alone, none] = layer->forward(x, x, x, {}, /*need_weights=*/false);
  hold(output.sizes() == x.sizes() && weights.size(-1) == 10 && !none.defined(),
       "outputs as torch's class has them");
  hold((output - alone).abs().max().item<double>() < 1e-5, "both paths give the same");
}

void conformance(const saccade::Formula& prior) {
  const auto results = saccade::run_conformance({.formula = prior}, {.only = {"causality", "cache-tokens"}});
  for (const saccade::CheckResult& result : results)
    if (result.outcome == saccade::Outcome::failed) std::cout << result.name << ": " << result.detail << "\n";
  hold(results.size() == 2 && saccade::passed(results), "the prior conforms");
}

void errors(const saccade::Formula& prior) {
  bool refused = false, mismatch = false;
  try {
    saccade::Formula::parse("score = s - aplha * d", {.name = "mine"});
  } catch (const saccade::FormulaError& error) {
    for (const saccade::Diagnostic& each : error.diagnostics())
      std::cout << each.span.begin << ": " << each.message << "\n";
    refused = true;
  }
  saccade::Attention attention(prior, saccade::AttentionOptions{.heads = 8, .kv_heads = 2, .head_dim = 64});
  try {
    attention->forward(torch::randn({1, 8, 4, 64}), torch::randn({1, 3, 4, 64}), torch::randn({1, 3, 4, 64}));
  } catch (const saccade::Error& error) {
    std::cout << error.what() << "\n";
    mismatch = true;
  }
  hold(refused && mismatch, "mistakes are errors");
}

}  // namespace

int main() {
  torch::manual_seed(1);
  const saccade::Formula prior = formulas();
  attention_module(prior);
  decoding(prior);
  drop_in();
  conformance(prior);
  errors(prior);
  return all_hold ? 0 : 1;
}
