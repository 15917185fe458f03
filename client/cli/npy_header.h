// The header of a .npy file: magic, version, length and a Python dictionary in ASCII.

#ifndef GEMMD_CLIENT_CLI_NPY_HEADER_H_
#define GEMMD_CLIENT_CLI_NPY_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "gemmd/server_info.h"

namespace gemm::cli {

struct NpyHeader {
  ElementType element_type = ElementType::kF32;
  bool fortran_order = false;
  std::vector<int64_t> shape;
  size_t size_bytes = 0;  // where the data begins
};

// `file` is the whole file or any part from its start that holds the header. The error says what is
// wrong, without the file's name.
absl::StatusOr<NpyHeader> ParseNpyHeader(std::string_view file);

// Version 1.0, row-major, padded as NumPy does so that the data is aligned to 64 bytes.
std::string FormatNpyHeader(ElementType element_type, const std::vector<int64_t>& shape);

}  // namespace gemm::cli

#endif  // GEMMD_CLIENT_CLI_NPY_HEADER_H_
