// Sums in double: a parameter of a head gathers n x n contributions.
#include "saccade/kernels/table_gradients.h"

#include <algorithm>

namespace saccade::kernels {

bool wants(const std::vector<Link>& links, const Gradients& gradients) {
  return std::ranges::any_of(links, [&](const Link& link) {
    return gradients.tables[static_cast<size_t>(link.table)].data != nullptr;
  });
}

template <class Real>
void add_links(const std::vector<Link>& links, const Slots<Real>& chain, const std::vector<double>& adjoints,
               const Inputs& inputs, const Gradients& gradients, int64_t batch, int64_t head) {
  for (const Link& link : links) {
    const Gradients::TableGradient& gradient = gradients.tables[static_cast<size_t>(link.table)];
    if (!gradient.data) continue;
    const Table& table = inputs.tables[static_cast<size_t>(link.table)];
    double* elements = gradient.data + batch * gradient.batch_stride + head * gradient.head_stride;
    const bool fixed = std::ranges::all_of(
        link.subscripts, [](const Operand& operand) { return operand.kind == Operand::Kind::none; });
    double sum = 0;
    for (size_t k = 0; k < adjoints.size(); ++k) {
      if (adjoints[k] == 0) continue;  // zero wins, whatever the derivative
      const auto at = static_cast<int64_t>(k);
      const double part = adjoints[k] * static_cast<double>(chain.element(link.derivative, at));
      if (fixed) {
        sum += part;
        continue;
      }
      int64_t place = 0;
      for (size_t index = 0; index < 3; ++index)
        if (link.subscripts[index].kind != Operand::Kind::none)
          place +=
              table_place(chain.element(link.subscripts[index], at), table.size[index], table.origin[index]) *
              gradient.stride[index];
      elements[place] += part;
    }
    if (fixed) elements[0] += sum;
  }
}

template void add_links<float>(const std::vector<Link>&, const Slots<float>&, const std::vector<double>&,
                               const Inputs&, const Gradients&, int64_t, int64_t);
template void add_links<double>(const std::vector<Link>&, const Slots<double>&, const std::vector<double>&,
                                const Inputs&, const Gradients&, int64_t, int64_t);

}  // namespace saccade::kernels
