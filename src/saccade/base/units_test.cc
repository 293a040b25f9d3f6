#include "saccade/base/units.h"

#include <gtest/gtest.h>

namespace saccade {
namespace {

TEST(Units, BytesKeepThreeDigits) {
  EXPECT_EQ(bytes_text(0.0), "0 B");
  EXPECT_EQ(bytes_text(int64_t{1023}), "1023 B");
  EXPECT_EQ(bytes_text(3584.0), "3.5 KiB");
  EXPECT_EQ(bytes_text(120.4 * 1048576), "120 MiB");
  EXPECT_EQ(bytes_text(5e18), "4547474 TiB");
}

}  // namespace
}  // namespace saccade
