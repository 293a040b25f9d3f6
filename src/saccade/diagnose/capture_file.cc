// What a selector kept is stored by blocks: single pairs would double the file, and blocks are what one sees.
#include "saccade/diagnose/capture_file.h"

#include <torch/types.h>

#include "saccade/base/error.h"

namespace saccade {
namespace {

constexpr int64_t kBlock = 16;

std::vector<float> floats_of(const at::Tensor& values) {
  const at::Tensor flat = values.to(torch::kFloat).contiguous();
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}

}  // namespace

AttentionCapture to_file(const Capture& capture, std::vector<std::string> tokens) {
  require(capture.cell == 1, "capture: cells of {} tokens cannot be stored; expected single weights",
          capture.cell);
  AttentionCapture file{.tokens = std::move(tokens)};
  for (const CapturedHead& head : capture.heads) {
    AttentionMap map{.layer = head.layer,
                     .head = head.head,
                     .first_row = capture.first_row,
                     .rows = head.weights.size(0),
                     .columns = head.weights.size(1),
                     .has_sign = capture.has_negative,
                     .values = floats_of(head.weights)};
    if (head.kept.defined())
      map.mask =
          BlockMask{kBlock, kBlock,
                    floats_of(torch::avg_pool2d(head.kept.unsqueeze(0), {kBlock, kBlock}, {kBlock, kBlock}, 0,
                                                /*ceil_mode=*/true, /*count_include_pad=*/false))};
    file.maps.push_back(std::move(map));
  }
  return file;
}

}  // namespace saccade
