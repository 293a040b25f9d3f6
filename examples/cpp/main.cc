// Your own attention in a C++ program: a formula, its fused forward and backward pass, decoding with a cache,
// and the proof that all of these agree.
#include <saccade/saccade.h>
#include <torch/torch.h>

#include <iostream>

int main() {
  // A decay that each head learns: alpha is how fast, beta is how sharply.
  const auto formula = saccade::Formula::parse(R"(
      param alpha[head] = 1
      param beta[head]  = 1 in [0.01, 4]
      mask  = causal
      score = s - abs(alpha * d) ^ beta
  )");

  saccade::Attention attention(formula, saccade::AttentionOptions{.heads = 8, .kv_heads = 2, .head_dim = 64});
  std::cout << "path: " << saccade::name_of(attention->path().path) << "\n";

  torch::manual_seed(1);
  const auto query = torch::randn({1, 8, 100, 64}), key = torch::randn({1, 2, 100, 64}),
             value = torch::randn({1, 2, 100, 64});

  // Training: no n x n matrix, and alpha and beta get their gradients.
  const auto output = attention->forward(query, key, value);
  output.square().mean().backward();
  for (const auto& parameter : attention->named_parameters())
    std::cout << "gradient of " << parameter.key() << ": " << parameter.value().grad().norm().item<float>()
              << "\n";

  // Decoding: the same mechanism, one token at a time.
  saccade::KvCache cache = attention->make_cache();
  double difference = 0;
  for (int64_t token = 0; token < 100; ++token) {
    const torch::NoGradGuard no_gradient;
    const auto one = [&](const torch::Tensor& all) { return all.narrow(2, token, 1); };
    const auto step = attention->forward(one(query), one(key), one(value), cache);
    difference = std::max(difference, (step - one(output)).abs().max().item<double>());
  }
  std::cout << "decoding differs by at most " << difference << "\n";

  // The conformance suite, as `saccade check` runs it.
  int64_t failed = 0;
  for (const saccade::CheckResult& result : saccade::run_conformance({.formula = formula})) {
    if (result.outcome != saccade::Outcome::failed) continue;
    ++failed;
    std::cout << result.name << ": " << result.detail << "\n";
  }
  std::cout << "checks that failed: " << failed << "\n";
  return difference < 1e-4 && failed == 0 ? 0 : 1;
}
