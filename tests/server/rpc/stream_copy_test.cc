#include "proto/stream_copy.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

namespace gemm {
namespace {

std::string Letters(size_t count) {
  std::string letters(count, ' ');
  for (size_t i = 0; i < count; ++i) letters[i] = static_cast<char>('a' + i % 26);
  return letters;
}

TEST(StreamCopyTest, CopiesWhatItIsToldAndNothingBesideIt) {
  constexpr size_t kRoom = 512;
  const std::string source = Letters(kRoom);
  for (size_t to = 0; to < 65; ++to) {
    for (const size_t from : {size_t{0}, size_t{1}, size_t{15}, size_t{63}}) {
      for (const size_t bytes : {0, 1, 15, 16, 63, 64, 65, 127, 128, 129, 300}) {
        std::string target(kRoom, '.');
        StreamCopy(target.data() + to, source.data() + from, bytes);
        std::string expected(kRoom, '.');
        expected.replace(to, bytes, source, from, bytes);
        ASSERT_EQ(target, expected) << bytes << " bytes from " << from << " to " << to;
      }
    }
  }
}

}  // namespace
}  // namespace gemm
