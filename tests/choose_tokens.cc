// Sampling and beam search behind a pipe, for tests/choice_test.py: a line of JSON in, a line of JSON out.
#include <iostream>
#include <string>

#include "saccade/base/json.h"
#include "saccade/generate/beam.h"
#include "saccade/generate/sampling.h"

namespace saccade {
namespace {

// The probability of each token that may be chosen.
Json sample(const Json& request) {
  const SamplingOptions options{.temperature = request.at("temperature"),
                                .top_k = request.at("top_k"),
                                .top_p = request.at("top_p"),
                                .min_p = request.at("min_p"),
                                .repetition_penalty = request.at("repetition_penalty")};
  const auto logits = request.at("logits").get<std::vector<float>>();
  const auto history = request.at("history").get<std::vector<int64_t>>();
  Json reply = Json::object();
  for (const Candidate& each : candidates(logits, options, history))
    reply[std::to_string(each.token)] = each.probability;
  return reply;
}

// The model is a table: the logits at a place after a token.
Json search(const Json& request) {
  const BeamOptions options{.beams = request.at("beams"),
                            .n_best = request.at("n_best"),
                            .max_new_tokens = request.at("max_new_tokens"),
                            .length_penalty = request.at("length_penalty"),
                            .early_stopping = request.at("early_stopping"),
                            .end_ids = request.at("end_ids")};
  const int64_t vocabulary = request.at("vocabulary");
  const at::Tensor table = torch::tensor(request.at("table").get<std::vector<double>>(), torch::kDouble)
                               .view({options.max_new_tokens, vocabulary, vocabulary});
  const at::Tensor prompts = torch::tensor(request.at("prompts").get<std::vector<int64_t>>(), torch::kLong);
  int64_t place = 0;
  const BeamStep step = [&](const at::Tensor& ids, const at::Tensor&) {
    return table[++place].index_select(0, ids);
  };
  Json reply = Json::array();
  for (const std::vector<Hypothesis>& found : beam_search(table[0].index_select(0, prompts), step, options)) {
    Json texts = Json::array();
    for (const Hypothesis& each : found) texts.push_back({{"ids", each.ids}, {"score", each.score}});
    reply.push_back(texts);
  }
  return reply;
}

}  // namespace
}  // namespace saccade

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const saccade::Json request = saccade::parse_json(line, "request");
    const saccade::Json reply =
        request.contains("table") ? saccade::search(request) : saccade::sample(request);
    std::cout << saccade::dump(reply) << "\n";
  }
}
