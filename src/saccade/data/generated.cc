// How large a document may be is found by writing a few; a row is then a matter of its number alone.
#include "saccade/data/generated.h"

#include <algorithm>
#include <functional>

#include "saccade/base/error.h"

namespace saccade {
namespace {

using Measure = std::function<int64_t(const std::vector<Segment>&)>;

// The largest documents that fit. How long one is can only be found out by writing some.
DocumentSize fit(const Generator& generator, const GeneratedOptions& options, const Measure& measure) {
  require(options.length >= 1, "data: a length of {} tokens; expected at least 1", options.length);
  require(options.items >= 0 && options.items <= generator.most_items(),
          "data: {} has documents of 1 to {} items (0: as many as fit), not {}", options.task,
          generator.most_items(), options.items);
  const auto candidate = [&](int64_t step) {
    DocumentSize size = generator.natural_size(step);
    if (options.items > 0) size = {options.items, generator.has_filling() ? step - 1 : 0};
    size.items = std::min(size.items, generator.most_items());
    return size;
  };
  const auto longest = [&](int64_t step) {
    int64_t result = 0;
    for (const char* sample : {"1", "2", "3", "4"}) {
      const RandomStream random = RandomStream(0, "fit").split(sample);
      result = std::max(result, measure(generator.write(candidate(step), random)));
    }
    return result;
  };
  const int64_t room = options.length + 1, least = longest(1);
  require(least > 0, "data: the tokenizer has no tokens for the text of {}", options.task);
  require(least <= room, "data: a length of {} tokens is too short for {}{}: a document takes about {}",
          options.length, options.task,
          options.items > 0 ? fmt::format(" with {} items", options.items) : std::string(), least - 1);
  int64_t fits = 1, fails = 2;
  while (fails <= room && longest(fails) <= room) {
    fits = fails;
    fails *= 2;
  }
  while (fails - fits > 1) {
    const int64_t middle = fits + (fails - fits) / 2;
    (longest(middle) <= room ? fits : fails) = middle;
  }
  return candidate(fits);
}

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
        random_(RandomStream(options.seed, "data").split(options.stream)),
        length_(options.length) {
    size_ = fit(*generator_, options,
                [&](const std::vector<Segment>& segments) { return count_tokens(encoder_, segments); });
  }

  int64_t size() const override { return kEndless; }

  TrainingSequence read(int64_t index) const override {
    require(index >= 0, "data: sequence {} was asked for; expected 0 or more", index);
    const RandomStream row = random_.split(std::to_string(index));
    const size_t wanted = static_cast<size_t>(length_) + 1;
    TrainingSequence result;
    for (int32_t document = 0; result.ids.size() < wanted; ++document) {
      const size_t before = result.ids.size();
      add(encoder_.begin(), 0, result);
      for (const Segment& segment : generator_->write(size_, row.split(std::to_string(document))))
        add(encoder_.tokenizer().encode(segment.text, false), segment.answer ? 1 : 0, result);
      add(encoder_.end(), 0, result);
      require(result.ids.size() > before, "data: the tokenizer has no tokens for a document");
      result.documents.resize(result.ids.size(), document);
    }
    result.ids.resize(wanted);
    result.documents.resize(wanted);
    result.answers.resize(wanted);
    return result;
  }

 private:
  static void add(const std::vector<int32_t>& ids, uint8_t answer, TrainingSequence& result) {
    result.ids.insert(result.ids.end(), ids.begin(), ids.end());
    result.answers.resize(result.ids.size(), answer);
  }

  DocumentEncoder encoder_;
  std::unique_ptr<Generator> generator_;
  RandomStream random_;
  int64_t length_;
  DocumentSize size_;
};

}  // namespace

std::shared_ptr<const Dataset> generated_dataset(const GeneratedOptions& options, DocumentEncoder encoder) {
  return std::make_shared<GeneratedDataset>(options, std::move(encoder));
}

std::vector<std::string> generated_texts(const GeneratedOptions& options, int64_t count) {
  const std::unique_ptr<Generator> generator = make_generator(options.task);
  const DocumentSize size = fit(*generator, options, [](const std::vector<Segment>& segments) {
    return static_cast<int64_t>(text_of(segments).size() / 3);
  });
  const RandomStream random = RandomStream(options.seed, "texts").split(options.stream);
  std::vector<std::string> result;
  for (int64_t number = 0; number < count; ++number)
    result.push_back(text_of(generator->write(size, random.split(std::to_string(number)))));
  return result;
}

}  // namespace saccade
