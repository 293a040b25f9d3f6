// The slots of one program for every sequence and head, prepared once: heads whose values are the same share
// them.
#pragma once

#include <memory>

#include "saccade/kernels/slots.h"
#include "saccade/kernels/workspace.h"

namespace saccade::kernels {

template <class Real>
class SlotTable {
 public:
  SlotTable(const Program& program, const Plan& plan, const Shape& shape)
      : reads_(slot_reads(program, plan)), heads_(reads_ & kReadsHead ? shape.heads : 1) {
    const int64_t batches = reads_ & kReadsBatch ? shape.batch : 1;
    entries_.reserve(static_cast<size_t>(batches * heads_));
    for (int64_t entry = 0; entry < batches * heads_; ++entry) entries_.emplace_back(program, shape);
    const int64_t each = entries_.empty() ? 0 : entries_[0].size();
    memory_ = std::make_unique<Workspace>(static_cast<size_t>(each * batches * heads_) * sizeof(Real));
    auto* memory = reinterpret_cast<Real*>(memory_->data());
    for (Slots<Real>& entry : entries_) {
      entry.bind(memory);
      memory += each;
    }
  }

  int64_t entries() const { return static_cast<int64_t>(entries_.size()); }
  // May run in parallel for different entries.
  void prepare(const Inputs& inputs, int64_t entry) {
    entries_[static_cast<size_t>(entry)].prepare(inputs, entry / heads_, entry % heads_);
  }
  const Slots<Real>& at(int64_t batch, int64_t head) const {
    return entries_[static_cast<size_t>((reads_ & kReadsBatch ? batch * heads_ : 0) +
                                        (reads_ & kReadsHead ? head : 0))];
  }

 private:
  Reads reads_;
  int64_t heads_;
  std::vector<Slots<Real>> entries_;
  std::unique_ptr<Workspace> memory_;
};

}  // namespace saccade::kernels
