// How large a document may be is found by writing a few; a row is then a matter of its number alone.
#include "saccade/data/generated.h"

#include <algorithm>
#include <functional>

#include "saccade/base/error.h"

namespace saccade {
namespace {

using Measure = std::function<int64_t(const std::vector<Segment>&)>;

// Finds how large documents may be.
class Fit {
 public:
  Fit(const Generator& generator, const GeneratedOptions& options, const Measure& measure)
      : generator_(generator), items_(options.items) {
    require(options.length >= 1, "data: a length of {} tokens; expected at least 1", options.length);
    require(items_ >= 0 && items_ <= generator.most_items(),
            "data: {} has documents of 1 to {} items (0: as many as fit), not {}", options.task,
            generator.most_items(), items_);
    const auto longest = [&](int64_t step) {
      int64_t result = 0;
      for (const char* sample : {"1", "2", "3", "4", "5", "6", "7", "8"}) {
        const RandomStream random = RandomStream(0, "fit").split(sample);
        result = std::max(result, measure(generator.write(size(step), random)));
      }
      return result;
    };
    const int64_t room = options.length + 1, least = longest(1);
    require(least > 0, "data: the tokenizer has no tokens for the text of {}", options.task);
    require(least <= room, "data: a length of {} tokens is too short for {}{}: a document takes about {}",
            options.length, options.task, items_ > 0 ? fmt::format(" with {} items", items_) : std::string(),
            least - 1);
    int64_t fails = 2;
    while (fails <= room && longest(fails) <= room) {
      largest_ = fails;
      fails *= 2;
    }
    while (fails - largest_ > 1) {
      const int64_t middle = largest_ + (fails - largest_) / 2;
      (longest(middle) <= room ? largest_ : fails) = middle;
    }
  }

  /// Sizes grow with their step, from 1 on.
  DocumentSize size(int64_t step) const {
    DocumentSize result = generator_.natural_size(step);
    if (items_ > 0) result = {items_, generator_.has_filling() ? step - 1 : 0};
    result.items = std::min(result.items, generator_.most_items());
    return result;
  }

  /// The largest step of which some documents were tried, and all fitted.
  int64_t largest() const { return largest_; }

 private:
  const Generator& generator_;
  int64_t items_, largest_ = 1;
};

int64_t count_tokens(const DocumentEncoder& encoder, const std::vector<Segment>& segments) {
  size_t result = encoder.begin().size() + encoder.end().size();
  for (const Segment& segment : segments) result += encoder.tokenizer().encode(segment.text, false).size();
  return static_cast<int64_t>(result);
}

class GeneratedDataset : public Dataset {
 public:
  GeneratedDataset(const GeneratedOptions& options, DocumentEncoder encoder)
      : encoder_(std::move(encoder)),
        generator_(make_generator(options.task)),
        fit_(*generator_, options,
             [&](const std::vector<Segment>& segments) { return count_tokens(encoder_, segments); }),
        random_(RandomStream(options.seed, "data").split(options.stream)),
        length_(options.length) {}

  int64_t size() const override { return kEndless; }

  TrainingSequence read(int64_t index) const override {
    require(index >= 0, "data: sequence {} was asked for; expected 0 or more", index);
    const RandomStream row = random_.split(std::to_string(index));
    const size_t wanted = static_cast<size_t>(length_) + 1;
    TrainingSequence result;
    for (int32_t document = 0; result.ids.size() < wanted; ++document) {
      const RandomStream random = row.split(std::to_string(document));
      TrainingSequence next = write(fit_.largest(), random);
      // Few documents are longer than those that were tried; the first of a row should have its answers.
      for (int64_t step = fit_.largest() - 1; document == 0 && step > 0 && next.ids.size() > wanted; --step)
        next = write(step, random);
      require(!next.ids.empty(), "data: the tokenizer has no tokens for a document");
      result.ids.insert(result.ids.end(), next.ids.begin(), next.ids.end());
      result.answers.insert(result.answers.end(), next.answers.begin(), next.answers.end());
      result.documents.resize(result.ids.size(), document);
    }
    result.ids.resize(wanted);
    result.documents.resize(wanted);
    result.answers.resize(wanted);
    return result;
  }

 private:
  TrainingSequence write(int64_t step, const RandomStream& random) const {
    TrainingSequence result;
    add(encoder_.begin(), 0, result);
    for (const Segment& segment : generator_->write(fit_.size(step), random))
      add(encoder_.tokenizer().encode(segment.text, false), segment.answer ? 1 : 0, result);
    add(encoder_.end(), 0, result);
    return result;
  }

  static void add(const std::vector<int32_t>& ids, uint8_t answer, TrainingSequence& result) {
    result.ids.insert(result.ids.end(), ids.begin(), ids.end());
    result.answers.resize(result.ids.size(), answer);
  }

  DocumentEncoder encoder_;
  std::unique_ptr<Generator> generator_;
  Fit fit_;
  RandomStream random_;
  int64_t length_;
};

}  // namespace

std::shared_ptr<const Dataset> generated_dataset(const GeneratedOptions& options, DocumentEncoder encoder) {
  return std::make_shared<GeneratedDataset>(options, std::move(encoder));
}

std::vector<std::string> generated_texts(const GeneratedOptions& options, int64_t count) {
  const std::unique_ptr<Generator> generator = make_generator(options.task);
  const Fit fit(*generator, options, [](const std::vector<Segment>& segments) {
    return static_cast<int64_t>(text_of(segments).size() / 3);
  });
  const RandomStream random = RandomStream(options.seed, "texts").split(options.stream);
  std::vector<std::string> result;
  for (int64_t number = 0; number < count; ++number)
    result.push_back(
        text_of(generator->write(fit.size(fit.largest()), random.split(std::to_string(number)))));
  return result;
}

}  // namespace saccade
