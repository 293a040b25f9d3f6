// The list of tasks.
#include "saccade/data/generator.h"

#include <algorithm>
#include <numeric>

#include "saccade/base/error.h"
#include "saccade/base/text.h"

namespace saccade {
namespace {

struct Row {
  std::string name;
  std::unique_ptr<Generator> (*make)();
};

const std::vector<Row>& rows() {
  static const std::vector<Row> result = {{"stories", make_stories},
                                          {"recall", make_recall},
                                          {"induction", make_induction},
                                          {"passkey", make_passkey},
                                          {"translation", make_translation}};
  return result;
}

}  // namespace

std::string text_of(const std::vector<Segment>& segments) {
  std::string result;
  for (const Segment& segment : segments) result += segment.text;
  return result;
}

const std::vector<std::string>& generator_names() {
  static const std::vector<std::string> result = [] {
    std::vector<std::string> names;
    for (const Row& row : rows()) names.push_back(row.name);
    return names;
  }();
  return result;
}

std::unique_ptr<Generator> make_generator(std::string_view name) {
  for (const Row& row : rows())
    if (row.name == name) return row.make();
  fail("data: no task is called '{}'; there are {}{}", printable(name), join(generator_names(), ", "),
       did_you_mean(name, generator_names()));
}

std::vector<size_t> shuffled(size_t count, RandomStream& random) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  for (size_t left = count; left > 1; --left) std::swap(order[left - 1], order[random.below(left)]);
  return order;
}

}  // namespace saccade
