// Reading which layers, and swapping the formula there.
#include "saccade/cli/attention_option.h"

#include <charconv>
#include <numeric>
#include <set>

#include "saccade/base/error.h"
#include "saccade/base/log.h"
#include "saccade/cli/formula_options.h"

namespace saccade {

void AttentionOption::declare(CLI::App& app) {
  auto* attention =
      app.add_option("--attention", formula,
                     "Swap the attention for this formula file or shipped mechanism; no weight is touched");
  attention->type_name("FORMULA");
  app.add_option(
         "--set", set,
         "Give a constant of that formula another value, or a param another start; may be given again")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false)
      ->type_name("NAME=VALUE")
      ->needs(attention);
  app.add_option("--layers", layers, "Swap it in these layers only, such as 0-5,7")
      ->type_name("LIST")
      ->needs(attention);
}

Formula AttentionOption::load() const { return Formula::load(formula, parse_overrides(set)); }

void AttentionOption::apply(Transformer model, Path path) const {
  const Formula wanted = load();
  const int64_t count = model->architecture().layers;
  std::vector<int64_t> chosen(static_cast<size_t>(count));
  std::iota(chosen.begin(), chosen.end(), 0);
  if (!layers.empty()) chosen = parse_layers(layers, count);
  const Decoding& decoding = wanted.plan().decoding;
  if (model->architecture().causal && !decoding.possible)
    log::warn("{}: a prediction may depend on what comes after it, which makes it look too good: {}", formula,
              decoding.reason);
  for (const int64_t layer : chosen) model->block(layer)->set_formula(wanted, path);
}

std::string AttentionOption::title() const {
  return layers.empty() ? formula : fmt::format("{} in layers {}", formula, layers);
}

std::vector<int64_t> parse_layers(std::string_view text, int64_t count) {
  std::set<int64_t> chosen;
  const auto number = [&](std::string_view word) {
    int64_t value = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    require(error == std::errc() && end == word.data() + word.size() && value >= 0,
            "--layers: cannot read '{}'; expected numbers and ranges, such as 0-5,7", text);
    require(value < count, "--layers: there is no layer {}; the model's are 0 to {}", value, count - 1);
    return value;
  };
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    const size_t dash = word.find('-');
    const int64_t first = number(word.substr(0, dash));
    const int64_t last = dash == std::string_view::npos ? first : number(word.substr(dash + 1));
    require(first <= last, "--layers: '{}' runs backwards", word);
    for (int64_t layer = first; layer <= last; ++layer) chosen.insert(layer);
    begin = end + 1;
  }
  return {chosen.begin(), chosen.end()};
}

}  // namespace saccade
