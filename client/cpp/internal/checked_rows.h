// Rows of matrices on the server, and the memory that they come from or go to, checked: nothing
// computed from one wraps, and its bytes lie inside the caller's span.

#ifndef GEMMD_CLIENT_CPP_INTERNAL_CHECKED_ROWS_H_
#define GEMMD_CLIENT_CPP_INTERNAL_CHECKED_ROWS_H_

#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/internal/matrix_bytes.h"
#include "gemmd/matrix.h"
#include "gemmd/types.h"

namespace gemm::client {

template <typename T>
constexpr ElementType ElementTypeOf() {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>, "float or double");
  return std::is_same_v<T, float> ? ElementType::kF32 : ElementType::kF64;
}

constexpr int64_t BytesOf(ElementType type) { return type == ElementType::kF32 ? 4 : 8; }

// Elements without their type.
struct ElementSpan {
  template <typename T>
  explicit ElementSpan(std::span<T> elements)
      : data(const_cast<std::byte*>(reinterpret_cast<const std::byte*>(elements.data()))),
        size_bytes(static_cast<int64_t>(elements.size_bytes())),
        type(ElementTypeOf<std::remove_const_t<T>>()) {}

  std::byte* data;
  int64_t size_bytes;
  ElementType type;
};

struct CheckedWrite {
  using Report = MatrixInfo;
  static constexpr char kMethod[] = "/gemm.v1.GemmService/WriteRows";

  MatrixRows rows;
  MatrixBytes source;
  ElementType type = ElementType::kF32;
};

struct CheckedRead {
  using Report = MatrixInfo;
  static constexpr char kMethod[] = "/gemm.v1.GemmService/ReadRows";

  MatrixRows rows;
  MatrixBytes target;  // dense
  ElementType type = ElementType::kF32;
};

absl::StatusOr<CheckedWrite> CheckWrite(const MatrixRows& rows, ElementSpan source);
absl::StatusOr<CheckedRead> CheckRead(const MatrixRows& rows, ElementSpan target);

// A matrix to be put, checked; its panels are CheckedWrites.
struct CheckedPut {
  CreateMatrixArgs matrix;  // its name is set
  MatrixBytes source;
  bool name_is_new = false;  // made up here
};

absl::Status CheckMatrixArgs(CreateMatrixArgs& args);  // makes the name up where there is none
absl::StatusOr<CheckedPut> CheckPut(CreateMatrixArgs args, int64_t leading_dimension,
                                    ElementSpan source);

}  // namespace gemm::client

#endif  // GEMMD_CLIENT_CPP_INTERNAL_CHECKED_ROWS_H_
