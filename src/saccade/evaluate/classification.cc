// Counts of the true label against the predicted one; all figures follow from these.
#include "saccade/evaluate/classification.h"

#include <algorithm>
#include <charconv>

#include "saccade/base/error.h"
#include "saccade/base/json.h"
#include "saccade/base/meter.h"
#include "saccade/base/text.h"

namespace saccade {
namespace {

int64_t parse_label(std::string_view word, const std::string& where, int64_t labels,
                    std::span<const std::string> names) {
  if (const auto found = std::ranges::find(names, word); found != names.end()) return found - names.begin();
  int64_t label = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), label);
  const bool number = error == std::errc() && end == word.data() + word.size();
  require(number && label >= 0 && label < labels, "{}: the label '{}'; expected 0 to {}{}", where,
          printable(word, 40), labels - 1, names.empty() ? "" : " or one of " + join(names, ", "));
  return label;
}

LabelledText parse_json_line(std::string_view line, const std::string& where, int64_t labels,
                             std::span<const std::string> names) {
  const Json json = parse_json(line, where);
  require(json.is_object() && json.contains("text") && json["text"].is_string() && json.contains("label"),
          "{}: expected an object with \"text\" and \"label\"", where);
  const Json& label = json["label"];
  require(label.is_string() || label.is_number_integer(),
          "{}: the label is neither a whole number nor a name", where);
  return {json["text"].get<std::string>(),
          parse_label(label.is_string() ? label.get<std::string>() : dump(label), where, labels, names)};
}

std::vector<std::string_view> split_tabs(std::string_view line) {
  std::vector<std::string_view> cells;
  for (size_t begin = 0;;) {
    const size_t end = std::min(line.find('\t', begin), line.size());
    cells.push_back(line.substr(begin, end - begin));
    if (end == line.size()) return cells;
    begin = end + 1;
  }
}

}  // namespace

std::vector<LabelledText> read_labelled(std::string_view content, std::string_view where, int64_t labels,
                                        std::span<const std::string> names) {
  std::vector<LabelledText> texts;
  size_t text_column = 0, label_column = 1;
  const std::vector<std::string_view> lines = split_lines(content);
  for (size_t number = 0; number < lines.size(); ++number) {
    const std::string_view line = lines[number];
    if (trim(line).empty()) continue;
    const std::string place = fmt::format("{}:{}", where, number + 1);
    if (trim(line).starts_with('{')) {
      texts.push_back(parse_json_line(line, place, labels, names));
      continue;
    }
    const std::vector<std::string_view> cells = split_tabs(line);
    if (const auto label = std::ranges::find(cells, "label"); number == 0 && label != cells.end()) {
      const auto text =
          std::ranges::find_if(cells, [](auto cell) { return cell == "text" || cell == "sentence"; });
      require(text != cells.end(), "{}: a column 'label', but none that is called 'text' or 'sentence'",
              place);
      text_column = static_cast<size_t>(text - cells.begin());
      label_column = static_cast<size_t>(label - cells.begin());
      continue;
    }
    require(cells.size() > std::max(text_column, label_column), "{}: {}; expected a text, a tab and a label",
            place, plural(static_cast<int64_t>(cells.size()), "column"));
    texts.push_back(
        {std::string(cells[text_column]), parse_label(trim(cells[label_column]), place, labels, names)});
  }
  require(!texts.empty(), "{}: there are no texts with labels in it", where);
  return texts;
}

int64_t Classification::texts() const {
  int64_t sum = 0;
  for (const auto& row : confusion)
    for (const int64_t count : row) sum += count;
  return sum;
}

double Classification::accuracy() const {
  int64_t right = 0;
  for (size_t label = 0; label < confusion.size(); ++label) right += confusion[label][label];
  return static_cast<double>(right) / static_cast<double>(texts());
}

std::vector<LabelScore> Classification::scores() const {
  std::vector<LabelScore> result;
  for (size_t label = 0; label < confusion.size(); ++label) {
    const auto right = static_cast<double>(confusion[label][label]);
    int64_t have = 0, predicted = 0;
    for (size_t other = 0; other < confusion.size(); ++other) {
      have += confusion[label][other];
      predicted += confusion[other][label];
    }
    const auto share = [&](double of) { return of > 0 ? right / of : 0; };
    result.push_back({.texts = have,
                      .precision = share(static_cast<double>(predicted)),
                      .recall = share(static_cast<double>(have)),
                      .f1 = share(static_cast<double>(have + predicted) / 2)});
  }
  return result;
}

double Classification::macro_f1() const {
  double sum = 0;
  int64_t seen = 0;
  const std::vector<LabelScore> all = scores();
  for (size_t label = 0; label < all.size(); ++label) {
    const bool predicted = std::ranges::any_of(confusion, [&](const auto& row) { return row[label] > 0; });
    if (all[label].texts == 0 && !predicted) continue;
    sum += all[label].f1;
    ++seen;
  }
  return seen > 0 ? sum / static_cast<double>(seen) : 0;
}

Classification compare_labels(std::span<const int64_t> truth, std::span<const int64_t> predicted,
                              int64_t labels) {
  require(truth.size() == predicted.size(), "classification: {} true labels and {} predicted ones",
          truth.size(), predicted.size());
  Classification result;
  result.confusion.assign(static_cast<size_t>(labels), std::vector<int64_t>(static_cast<size_t>(labels)));
  const auto index = [&](int64_t label) {
    require(label >= 0 && label < labels, "classification: the label {}; expected 0 to {}", label,
            labels - 1);
    return static_cast<size_t>(label);
  };
  for (size_t text = 0; text < truth.size(); ++text)
    ++result.confusion[index(truth[text])][index(predicted[text])];
  return result;
}

Classification measure_classification(Transformer model, const Tokenizer& tokenizer,
                                      std::span<const LabelledText> texts,
                                      const ClassificationOptions& options) {
  const auto total = static_cast<int64_t>(texts.size());
  require(total > 0, "classification: no texts");
  require(options.context >= 2, "classification: a context of {}; expected at least 2", options.context);
  const Meter meter;
  std::vector<int64_t> truth, predicted;
  for (int64_t first = 0; first < total; first += options.batch_size) {
    std::vector<std::vector<int32_t>> batch;
    for (int64_t index = first; index < std::min(first + options.batch_size, total); ++index) {
      const LabelledText& text = texts[static_cast<size_t>(index)];
      std::vector<int32_t> ids = tokenizer.encode(text.text);
      if (static_cast<int64_t>(ids.size()) > options.context) {
        const int32_t last = ids.back();
        ids.resize(static_cast<size_t>(options.context));
        ids.back() = last;
      }
      batch.push_back(std::move(ids));
      truth.push_back(text.label);
    }
    const at::Tensor likeliest = classify(model, batch, options.batch_size).argmax(1);
    predicted.insert(predicted.end(), likeliest.data_ptr<int64_t>(),
                     likeliest.data_ptr<int64_t>() + likeliest.numel());
    if (options.on_progress) options.on_progress(static_cast<int64_t>(predicted.size()), total);
  }
  Classification result = compare_labels(truth, predicted, model->architecture().labels);
  result.seconds = meter.seconds();
  result.peak_bytes = meter.peak_bytes();
  return result;
}

}  // namespace saccade
