// .npy files (NumPy's format, versions 1.0 to 3.0) of float32 and float64, read and written in
// place. Strict: whatever is not exactly such a file is an error that names the file and the fault.

#ifndef GEMMD_CLIENT_CLI_NPY_H_
#define GEMMD_CLIENT_CLI_NPY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/temporary_file.h"
#include "gemmd/server_info.h"

namespace gemm::cli {

using Shape = std::vector<int64_t>;

std::string ToString(const Shape& shape);  // "2 x 3 x 4"; "scalar" for no dimension

// Elements of a shape, or -1 when 64-bit sizes cannot count their bytes.
int64_t CountElements(const Shape& shape);

// An array in a mapped file. Its elements are the file's own pages, so a file that another process
// shortens meanwhile ends this one.
class NpyArray {
 public:
  static absl::StatusOr<NpyArray> Open(const std::string& path);

  const std::string& path() const { return path_; }
  ElementType element_type() const { return element_type_; }
  bool fortran_order() const { return fortran_order_; }
  const Shape& shape() const { return shape_; }

  // In file order. Requires T to be the element type.
  template <typename T>
  std::span<const T> elements() const {
    return {reinterpret_cast<const T*>(data_.get()), data_bytes_ / sizeof(T)};
  }

 private:
  NpyArray() = default;

  std::string path_;
  ElementType element_type_ = ElementType::kF32;
  bool fortran_order_ = false;
  Shape shape_;
  std::shared_ptr<const std::byte> data_;  // keeps the mapping
  size_t data_bytes_ = 0;
};

// A new array, row-major, which appears under its name when it is whole and not before.
class NpyWriter {
 public:
  // Reserves the file's space beside `path`, so that a full disk shows here.
  static absl::StatusOr<NpyWriter> Create(const std::string& path, ElementType element_type,
                                          const Shape& shape);

  // To be filled before Commit. Requires T to be the element type.
  template <typename T>
  std::span<T> elements() {
    return {reinterpret_cast<T*>(data_.get()), data_bytes_ / sizeof(T)};
  }

  absl::Status Commit();

 private:
  explicit NpyWriter(TemporaryFile file) : file_(std::move(file)) {}

  TemporaryFile file_;
  std::shared_ptr<std::byte> data_;  // keeps the mapping
  size_t data_bytes_ = 0;
};

}  // namespace gemm::cli

#endif  // GEMMD_CLIENT_CLI_NPY_H_
