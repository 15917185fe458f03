// A matrix in a device's memory, and how it lies there.

#ifndef GEMMD_SERVER_MEMORY_DEVICE_MATRIX_H_
#define GEMMD_SERVER_MEMORY_DEVICE_MATRIX_H_

#include <cstddef>
#include <cstdint>

#include "kernels/gemm.h"

namespace gemm {

struct MatrixSpec {
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t columns = 0;

  friend bool operator==(const MatrixSpec&, const MatrixSpec&) = default;
};

// Whether every size computed from it fits in 62 bits. Neither of the two below may be called for
// one that is not valid.
bool IsValid(const MatrixSpec& spec);

// Elements from one row to the next. Rows of kPaddedRowBytes and more begin at multiples of
// kRowAlignment bytes, as kernels and copy engines like them; shorter ones lie dense, where padding
// would cost much of the memory and the copies would go row by row.
int64_t LeadingDimension(const MatrixSpec& spec);
inline constexpr size_t kPaddedRowBytes = 1024;
inline constexpr size_t kRowAlignment = 128;

// Of memory that it takes, padding included.
uint64_t MemoryBytes(const MatrixSpec& spec);

// Owns a matrix's memory, which is freed with it: by then every use must have ended. Constant after
// construction but for the elements. Its device must outlive it.
class DeviceMatrix {
 public:
  // `data` is aligned to 256 bytes and holds MemoryBytes; a subclass frees it.
  DeviceMatrix(int device, const MatrixSpec& spec, void* data);
  virtual ~DeviceMatrix() = default;

  DeviceMatrix(const DeviceMatrix&) = delete;
  DeviceMatrix& operator=(const DeviceMatrix&) = delete;

  int device() const { return device_; }  // index of the device
  const MatrixSpec& spec() const { return spec_; }
  int64_t leading_dimension() const { return leading_dimension_; }
  std::byte* data() const { return data_; }
  // Bytes of a row's elements, and from one row to the next.
  size_t row_bytes() const { return static_cast<size_t>(spec_.columns) * SizeOf(spec_.dtype); }
  size_t pitch_bytes() const {
    return static_cast<size_t>(leading_dimension_) * SizeOf(spec_.dtype);
  }
  std::byte* row(int64_t index) const { return data_ + static_cast<size_t>(index) * pitch_bytes(); }

 private:
  const int device_;
  const MatrixSpec spec_;
  const int64_t leading_dimension_;
  std::byte* const data_;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_MEMORY_DEVICE_MATRIX_H_
