// What is to be multiplied: plain values, no CUDA, no gRPC. Start here.
//
//   D = alpha * op(A) op(B) + beta * C,  op(A) m x k, op(B) k x n, C and D m x n,
//
// for batch_count products of one shape. Storage is row-major; op transposes what is stored.

#ifndef GEMMD_KERNELS_GEMM_H_
#define GEMMD_KERNELS_GEMM_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gemm {

enum class DType : uint8_t { kF32, kF64 };

// How the product is computed; nothing lower than asked is ever used.
enum class Precision : uint8_t {
  kStrict,  // IEEE fused multiply-adds in the product's own type.
};

size_t SizeOf(DType dtype);            // bytes of one element
std::string_view NameOf(DType dtype);  // "f32"

// How one operand is stored. Element (i, j) of matrix q of the batch is at
// q * batch_stride + i * ld + j of the stored (untransposed) matrix.
struct MatrixLayout {
  bool transposed = false;   // op(X) is the transpose of what is stored; false for C and D
  int64_t ld = 0;            // elements from one stored row to the next, >= max(1, stored columns)
  int64_t batch_stride = 0;  // elements from one matrix to the next; 0: one matrix for the batch
  // What the base address is a multiple of, in bytes; at least the element's size.
  int32_t alignment_bytes = 8;

  friend bool operator==(const MatrixLayout&, const MatrixLayout&) = default;
};

struct Problem {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t batch_count = 1;
  DType dtype = DType::kF32;
  Precision precision = Precision::kStrict;
  MatrixLayout a;  // stored m x k, or k x m when transposed
  MatrixLayout b;  // stored k x n, or n x k when transposed
  MatrixLayout c;  // m x n; read only when beta != 0
  MatrixLayout d;  // m x n; batches must not overlap
  // Rounded to dtype before use. beta = 0: C is never read. alpha = 0 or k = 0: A and B are never
  // read and D = beta * C.
  double alpha = 1.0;
  double beta = 0.0;

  friend bool operator==(const Problem&, const Problem&) = default;
};

// Device (or, for the CPU, host) addresses of one problem. c may equal d when their layouts agree;
// no other overlap with d is allowed. Unread operands may be null.
struct Operands {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;
  void* d = nullptr;
};

// A product of contiguous row-major matrices, packed batches.
Problem DenseProblem(DType dtype, int64_t m, int64_t n, int64_t k, int64_t batch_count = 1);

struct MatrixShape {
  int64_t rows = 0;
  int64_t columns = 0;
};
MatrixShape StoredA(const Problem& problem);
MatrixShape StoredB(const Problem& problem);
MatrixShape StoredC(const Problem& problem);  // also D's

// Elements from the first to one past the last that `batch_count` matrices span; 0 if empty.
// Only for layouts that Validate accepts.
int64_t ExtentElements(MatrixShape shape, const MatrixLayout& layout, int64_t batch_count);

bool ReadsAB(const Problem& problem);      // false when k = 0 or alpha = 0
bool ReadsC(const Problem& problem);       // false when beta = 0
bool IsEmpty(const Problem& problem);      // D has no elements
double FlopCount(const Problem& problem);  // 2 m n k batch_count

// What is wrong with a problem, or nothing. `field` is a path such as "m" or
// "a.leading_dimension"; `message` names the value and the limit.
struct ProblemFault {
  std::string field;
  std::string message;
};
// Checks every limit with 64-bit overflow in mind: after it, no index or extent computed from the
// problem in int64 can wrap. Addresses are not looked at.
std::optional<ProblemFault> Validate(const Problem& problem);

}  // namespace gemm

#endif  // GEMMD_KERNELS_GEMM_H_
