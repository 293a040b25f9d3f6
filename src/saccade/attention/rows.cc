// What runs along queries is narrowed; keys, values and tables by key stay as they are.
#include "saccade/attention/rows.h"

#include "saccade/base/error.h"

namespace saccade {

PairInputs rows_of(const Plan& plan, const PairInputs& inputs, int64_t first, int64_t count) {
  const int64_t all = inputs.queries[0].size(2);
  invariant(first >= 0 && count >= 0 && first + count <= all, "rows_of: rows outside the call");
  PairInputs part = inputs;
  part.offset += first;
  for (at::Tensor& query : part.queries)
    if (query.defined()) query = query.narrow(2, first, count);
  for (size_t index = 0; index < plan.tables.size(); ++index) {
    const std::vector<Dimension> dimensions = plan.tables[index].subscripted();
    for (size_t place = 0; place < dimensions.size(); ++place)
      if (dimensions[place].kind == Dimension::Kind::query)
        part.tables[index] = part.tables[index].narrow(static_cast<int64_t>(place) + 2, first, count);
  }
  if (part.lists) {
    const int64_t tile = part.lists->query_tile;
    invariant(first % tile == 0 && ((first + count) % tile == 0 || first + count == all),
              "rows_of: rows that cut through a tile of the lists");
    part.lists->starts = part.lists->starts.narrow(2, first / tile, (count + tile - 1) / tile + 1);
  }
  return part;
}

}  // namespace saccade
