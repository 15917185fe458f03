#include "server/memory/row_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

namespace gemm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(RowSetTest, JoinsWhatTouchesAndSaysWhatIsMissing) {
  RowSet rows;
  rows.Add({10, 20});
  rows.Add({30, 40});
  EXPECT_EQ(rows.count(), 20);
  EXPECT_THAT(rows.Missing({0, 50}),
              ElementsAre(RowRange{0, 10}, RowRange{20, 30}, RowRange{40, 50}));
  EXPECT_THAT(rows.Missing({12, 18}), IsEmpty());
  rows.Add({20, 30});
  EXPECT_THAT(rows.Missing({5, 45}), ElementsAre(RowRange{5, 10}, RowRange{40, 45}));
  rows.Remove({15, 16});
  EXPECT_THAT(rows.Missing({10, 40}), ElementsAre(RowRange{15, 16}));
  rows.Add({7, 7});
  EXPECT_EQ(rows.count(), 29);
  EXPECT_FALSE(rows.Intersects({7, 8}));
  EXPECT_FALSE(rows.Intersects({15, 16}));
  EXPECT_FALSE(rows.Intersects({12, 12}));
  EXPECT_TRUE(rows.Intersects({0, 11}));
  EXPECT_TRUE(rows.Intersects({39, 100}));
  EXPECT_FALSE(rows.Intersects({40, 100}));
}

TEST(RowSetTest, CountsBeyond32Bits) {
  RowSet rows;
  rows.Add({int64_t{1} << 40, int64_t{1} << 41});
  EXPECT_EQ(rows.count(), int64_t{1} << 40);
  EXPECT_TRUE(rows.Intersects({(int64_t{1} << 41) - 1, int64_t{1} << 42}));
}

TEST(RowSetTest, EqualsASetOfNumbers) {
  std::mt19937 random(7);
  constexpr int64_t kRows = 40;
  std::uniform_int_distribution<int64_t> row(0, kRows);
  RowSet rows;
  std::set<int64_t> want;
  for (int step = 0; step < 20'000; ++step) {
    int64_t begin = row(random);
    int64_t end = row(random);
    if (begin > end) std::swap(begin, end);
    const bool add = random() % 2 == 0;
    add ? rows.Add({begin, end}) : rows.Remove({begin, end});
    for (int64_t r = begin; r < end; ++r) {
      if (add) {
        want.insert(r);
      } else {
        want.erase(r);
      }
    }
    ASSERT_EQ(rows.count(), static_cast<int64_t>(want.size()));
    begin = row(random);
    end = std::min<int64_t>(kRows, begin + static_cast<int64_t>(random() % 8));
    std::set<int64_t> missing;
    for (const RowRange& range : rows.Missing({begin, end})) {
      ASSERT_LT(range.begin, range.end);
      for (int64_t r = range.begin; r < range.end; ++r) ASSERT_TRUE(missing.insert(r).second);
    }
    bool intersects = false;
    for (int64_t r = begin; r < end; ++r) {
      ASSERT_EQ(missing.contains(r), !want.contains(r)) << step << ": " << r;
      intersects = intersects || want.contains(r);
    }
    ASSERT_EQ(rows.Intersects({begin, end}), intersects);
  }
}

}  // namespace
}  // namespace gemm
