// Values and errors that tests of matrices look at.

#ifndef GEMMD_TESTS_CLIENT_MATRIX_VALUES_H_
#define GEMMD_TESTS_CLIENT_MATRIX_VALUES_H_

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gemmd/error_detail.h"

namespace gemm::testing {

// 1, 2, 3 ...
template <typename T>
std::vector<T> Numbered(int64_t elements) {
  std::vector<T> values(elements);
  std::iota(values.begin(), values.end(), T{1});
  return values;
}

template <typename T>
std::string BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

inline std::string ReasonOf(const absl::Status& status) {
  return GetErrorDetail(status).value_or(ErrorDetail{}).reason;
}

inline std::string FieldOf(const absl::Status& status) {
  return GetErrorDetail(status).value_or(ErrorDetail{}).field;
}

}  // namespace gemm::testing

#endif  // GEMMD_TESTS_CLIENT_MATRIX_VALUES_H_
