// The operands of a mix of products, and what their results have to be.

#ifndef GEMMD_CLIENT_CLI_PERF_WORKLOAD_H_
#define GEMMD_CLIENT_CLI_PERF_WORKLOAD_H_

#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/perf/shape_mix.h"
#include "gemmd/multiply.h"

namespace gemm::cli {

// Immutable, and large. Calls may share operands, since nobody writes them.
class Workload {
 public:
  // Numbers from -1 to 1. `copies` distinct products of each shape, as a call of many has them:
  // what is the same memory would be sent once.
  Workload(ShapeMix mix, int copies, uint64_t seed);

  const ShapeMix& mix() const { return mix_; }
  int64_t largest_d_bytes() const { return largest_d_bytes_; }

  // d has room for the shape's D.
  AnyMultiplyArgs Args(size_t shape, int copy, std::byte* d) const;

  // Compares D with sums of twice the precision: every element, or some thousands of a large
  // product. DATA_LOSS names the first that is further off than rounding explains.
  absl::Status Check(size_t shape, int copy, const std::byte* d) const;

 private:
  template <typename T>
  struct Operands {
    std::vector<T> a;
    std::vector<T> b;
  };
  using AnyOperands = std::variant<Operands<float>, Operands<double>>;

  template <typename T>
  static Operands<T> Draw(const MixShape& shape, Random& random);
  template <typename T>
  static absl::Status Check(const MixShape& shape, const Operands<T>& operands, const T* d);

  const ShapeMix mix_;
  int64_t largest_d_bytes_ = 0;
  std::vector<std::vector<AnyOperands>> operands_;  // by shape and copy
};

}  // namespace gemm::cli

#endif  // GEMMD_CLIENT_CLI_PERF_WORKLOAD_H_
