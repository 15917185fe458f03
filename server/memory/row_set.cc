#include "server/memory/row_set.h"

#include <algorithm>
#include <iterator>

namespace gemm {

RowSet::Ranges::iterator RowSet::FirstEndingFrom(int64_t row) {
  auto range = ranges_.upper_bound(row);
  if (range != ranges_.begin() && std::prev(range)->second >= row) --range;
  return range;
}

void RowSet::Add(RowRange rows) {
  if (rows.count() <= 0) return;
  auto range = FirstEndingFrom(rows.begin);
  while (range != ranges_.end() && range->first <= rows.end) {
    rows.begin = std::min(rows.begin, range->first);
    rows.end = std::max(rows.end, range->second);
    count_ -= range->second - range->first;
    range = ranges_.erase(range);
  }
  ranges_.emplace_hint(range, rows.begin, rows.end);
  count_ += rows.count();
}

void RowSet::Remove(RowRange rows) {
  if (rows.count() <= 0) return;
  auto range = FirstEndingFrom(rows.begin);
  while (range != ranges_.end() && range->first < rows.end) {
    const RowRange held{range->first, range->second};
    range = ranges_.erase(range);
    count_ -= held.count();
    const RowRange before{held.begin, std::min(held.end, rows.begin)};
    const RowRange after{std::max(held.begin, rows.end), held.end};
    for (const RowRange& left : {before, after}) {
      if (left.count() <= 0) continue;
      ranges_.emplace_hint(range, left.begin, left.end);
      count_ += left.count();
    }
  }
}

bool RowSet::Intersects(RowRange rows) const {
  if (rows.count() <= 0) return false;
  const auto after = ranges_.lower_bound(rows.end);
  return after != ranges_.begin() && std::prev(after)->second > rows.begin;
}

std::vector<RowRange> RowSet::Missing(RowRange rows) const {
  std::vector<RowRange> missing;
  auto range = ranges_.upper_bound(rows.begin);
  if (range != ranges_.begin()) --range;
  int64_t next = rows.begin;
  for (; range != ranges_.end() && range->first < rows.end; ++range) {
    if (range->first > next) missing.push_back({next, range->first});
    next = std::max(next, range->second);
  }
  if (next < rows.end) missing.push_back({next, rows.end});
  return missing;
}

}  // namespace gemm
