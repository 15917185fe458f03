// Matrices in the caller's memory, in bytes.

#ifndef GEMMD_CLIENT_CPP_INTERNAL_MATRIX_BYTES_H_
#define GEMMD_CLIENT_CPP_INTERNAL_MATRIX_BYTES_H_

#include <cstddef>
#include <cstdint>

namespace gemm::client {

struct MatrixBytes {
  std::byte* data = nullptr;  // never written, except where results go
  int64_t rows = 0;           // as stored
  int64_t row_bytes = 0;
  int64_t row_stride_bytes = 0;  // >= row_bytes
  int64_t matrices = 0;          // distinct ones: 1 where the batch shares it, 0 for an empty batch
  int64_t matrix_stride_bytes = 0;

  // From the first byte to one past the last; 0 if empty. The padding after the last row is not in.
  int64_t extent_bytes() const {
    if (matrices == 0) return 0;
    return (matrices - 1) * matrix_stride_bytes + (rows - 1) * row_stride_bytes + row_bytes;
  }
  int64_t dense_bytes() const { return matrices * rows * row_bytes; }
};

}  // namespace gemm::client

#endif  // GEMMD_CLIENT_CPP_INTERNAL_MATRIX_BYTES_H_
