// Lines are sorted by length, so that those of a batch need little padding, and put back in their order.
#include "saccade/generate/translation.h"

#include <algorithm>
#include <numeric>

#include "saccade/base/error.h"
#include "saccade/base/text.h"
#include "saccade/generate/beam.h"

namespace saccade {
namespace {

using at::Tensor;

struct Source {
  size_t line;
  std::vector<int32_t> ids;
};

Tensor padded(std::span<const Source> sources, Tensor& mask) {
  int64_t longest = 0, shortest = std::numeric_limits<int64_t>::max();
  for (const Source& source : sources) {
    longest = std::max(longest, static_cast<int64_t>(source.ids.size()));
    shortest = std::min(shortest, static_cast<int64_t>(source.ids.size()));
  }
  const auto rows = static_cast<int64_t>(sources.size());
  Tensor ids = torch::zeros({rows, longest}, torch::kLong);
  if (shortest < longest) mask = torch::zeros({rows, longest}, torch::kBool);
  for (int64_t row = 0; row < rows; ++row) {
    const std::vector<int32_t>& source = sources[static_cast<size_t>(row)].ids;
    std::ranges::copy(source, ids.data_ptr<int64_t>() + row * longest);
    if (mask.defined()) std::fill_n(mask.data_ptr<bool>() + row * longest, source.size(), true);
  }
  return ids;
}

bool is_identity(const Tensor& rows, int64_t count) {
  return rows.numel() == count && torch::equal(rows, torch::arange(count, torch::kLong));
}

// How many tokens a translation may have: a matter of its own source, so that no other line changes it.
int64_t limit_for(const Architecture& architecture, const TranslationOptions& options, size_t source_tokens) {
  const int64_t wanted =
      options.max_new_tokens > 0 ? options.max_new_tokens : 2 * static_cast<int64_t>(source_tokens) + 20;
  return architecture.learned_positions ? std::min(wanted, architecture.context) : wanted;
}

void translate_batch(TransformerImpl& model, const PairEncoder& encoder, std::span<const Source> sources,
                     const TranslationOptions& options, std::vector<LineTranslation>& results) {
  ModelCache cache = model.make_cache();
  Tensor mask;
  const Tensor ids = padded(sources, mask);
  auto rows_before = static_cast<int64_t>(sources.size());
  const auto logits_of = [&](const Tensor& hidden) { return model.logits(hidden.select(1, 0).contiguous()); };
  const Tensor begin = torch::full({rows_before, 1}, encoder.begin(), torch::kLong);
  const Tensor first =
      logits_of(model.forward({.ids = begin, .source = ids, .source_mask = mask, .cache = &cache}));
  BeamOptions beam{.beams = options.beams,
                   .n_best = options.n_best,
                   .length_penalty = options.length_penalty,
                   .early_stopping = options.early_stopping,
                   .end_ids = {encoder.end()}};
  for (const Source& source : sources)
    beam.limits.push_back(limit_for(model.architecture(), options, source.ids.size()));
  const auto step = [&](const Tensor& tokens, const Tensor& rows) {
    if (!is_identity(rows, rows_before)) cache.reorder(rows);
    rows_before = rows.numel();
    return logits_of(model.forward({.ids = tokens.unsqueeze(1), .cache = &cache}));
  };
  const std::vector<std::vector<Hypothesis>> found = beam_search(first, step, beam);
  for (size_t row = 0; row < sources.size(); ++row) {
    LineTranslation& result = results[sources[row].line];
    result.ended = !found[row].empty() && found[row].front().ended;
    for (const Hypothesis& hypothesis : found[row]) {
      std::vector<int32_t> tokens(hypothesis.ids.begin(), hypothesis.ids.end());
      if (hypothesis.ended) tokens.pop_back();
      result.texts.push_back(encoder.line(tokens));
      result.scores.push_back(hypothesis.score);
    }
  }
}

}  // namespace

std::vector<LineTranslation> translate(const Transformer& model, const PairEncoder& encoder,
                                       std::span<const std::string> lines, const TranslationOptions& options,
                                       const std::function<void(int64_t done, int64_t total)>& on_progress) {
  const torch::NoGradGuard no_gradient;
  TransformerImpl& inside = *model.ptr();
  const Architecture& a = inside.architecture();
  require(a.encoder_layers > 0,
          "translate: the model has no encoder; it goes on with a text, and translates none");
  require(options.batch_size >= 1, "translate: {} lines at once; expected at least 1", options.batch_size);
  require(!options.extend || !a.learned_positions,
          "translate: the model's learned positions end at {}; longer lines can only be cut", a.context);
  std::vector<LineTranslation> results(lines.size());
  std::vector<Source> sources;
  for (size_t line = 0; line < lines.size(); ++line) {
    LineTranslation& result = results[line];
    if (trim(lines[line]).empty()) {
      result.texts = {""};
      result.scores = {0};
      continue;
    }
    std::vector<int32_t> ids = encoder.source(lines[line]);
    result.source_tokens = result.read_tokens = static_cast<int64_t>(ids.size());
    if (!options.extend && result.source_tokens > a.context) {
      ids.resize(static_cast<size_t>(a.context));
      ids.back() = encoder.end();
      result.read_tokens = a.context;
    }
    sources.push_back({line, std::move(ids)});
  }
  std::ranges::stable_sort(sources, std::greater(), [](const Source& source) { return source.ids.size(); });
  const auto batch = static_cast<size_t>(options.batch_size);
  for (size_t begin = 0; begin < sources.size(); begin += batch) {
    const size_t count = std::min(batch, sources.size() - begin);
    translate_batch(inside, encoder, std::span(sources).subspan(begin, count), options, results);
    if (on_progress) on_progress(static_cast<int64_t>(begin + count), static_cast<int64_t>(sources.size()));
  }
  return results;
}

std::vector<std::string> translate_lines(const Transformer& model, const PairEncoder& encoder,
                                         std::span<const std::string> lines,
                                         const TranslationOptions& options) {
  std::vector<std::string> texts;
  for (LineTranslation& line : translate(model, encoder, lines, options))
    texts.push_back(line.texts.empty() ? "" : std::move(line.texts.front()));
  return texts;
}

}  // namespace saccade
