// Which rows of a matrix: a set of row numbers, kept as ranges.

#ifndef GEMMD_SERVER_MEMORY_ROW_SET_H_
#define GEMMD_SERVER_MEMORY_ROW_SET_H_

#include <cstdint>
#include <map>
#include <vector>

namespace gemm {

// Rows begin to end - 1.
struct RowRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t count() const { return end - begin; }
  friend bool operator==(const RowRange&, const RowRange&) = default;
};

// Not thread-safe. Ranges that touch are joined, so a set filled in order stays one range.
class RowSet {
 public:
  void Add(RowRange rows);
  void Remove(RowRange rows);

  bool Intersects(RowRange rows) const;
  // The parts of `rows` that are not in the set, in order.
  std::vector<RowRange> Missing(RowRange rows) const;

  int64_t count() const { return count_; }
  bool empty() const { return count_ == 0; }

 private:
  using Ranges = std::map<int64_t, int64_t>;  // begin to end; they neither overlap nor touch

  // The first range that ends at `row` or later.
  Ranges::iterator FirstEndingFrom(int64_t row);

  Ranges ranges_;
  int64_t count_ = 0;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_MEMORY_ROW_SET_H_
