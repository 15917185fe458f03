// Reordering what is stored column by column.

#ifndef GEMMD_CLIENT_CLI_TRANSPOSE_H_
#define GEMMD_CLIENT_CLI_TRANSPOSE_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace gemm::cli {

// The row-major rows x columns matrix, of its columns one after another. By tiles, so that neither
// side jumps from page to page at every element.
template <typename T>
std::vector<T> RowMajor(std::span<const T> by_column, int64_t rows, int64_t columns) {
  constexpr int64_t kTile = 64;
  std::vector<T> result(by_column.size());
  if (result.empty()) return result;
  for (int64_t i0 = 0; i0 < rows; i0 += kTile) {
    const int64_t i1 = std::min(rows, i0 + kTile);
    for (int64_t j0 = 0; j0 < columns; j0 += kTile) {
      const int64_t j1 = std::min(columns, j0 + kTile);
      for (int64_t j = j0; j < j1; ++j) {
        for (int64_t i = i0; i < i1; ++i) result[i * columns + j] = by_column[j * rows + i];
      }
    }
  }
  return result;
}

}  // namespace gemm::cli

#endif  // GEMMD_CLIENT_CLI_TRANSPOSE_H_
