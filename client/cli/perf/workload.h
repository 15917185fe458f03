// The operands of a mix of products, and what their results have to be.

#ifndef GEMMD_CLIENT_CLI_PERF_WORKLOAD_H_
#define GEMMD_CLIENT_CLI_PERF_WORKLOAD_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/perf/shape_mix.h"
#include "gemmd/client.h"
#include "gemmd/multiply.h"

namespace gemm::cli {

// Large, and once its matrices are on the server immutable. Calls may share operands, since nobody
// writes them.
class Workload {
 public:
  // Numbers from -1 to 1. `copies` distinct products of each shape, as a call of many has them:
  // what is the same memory would be sent once.
  Workload(ShapeMix mix, int copies, uint64_t seed);

  // Puts every B on the server that is to be there; without it they are sent with each call.
  absl::Status PutMatrices(const Client& client);

  // As far as it can.
  void DeleteMatrices(const Client& client);

  const ShapeMix& mix() const { return mix_; }
  int64_t largest_d_bytes() const { return largest_d_bytes_; }

  // d has room for the shape's D.
  AnyMultiplyArgs Args(size_t shape, int copy, std::byte* d) const;

  // Compares D with sums of twice the precision: every element, or some thousands of a large
  // product. DATA_LOSS names the first that is further off than rounding explains.
  absl::Status Check(size_t shape, int copy, const std::byte* d) const;

 private:
  // Of the products of one shape.
  template <typename T>
  struct Operands {
    std::vector<std::vector<T>> a;  // by copy
    std::vector<std::vector<T>> b;  // by copy, or one for all

    const std::vector<T>& b_of(int copy) const { return b[b.size() == 1 ? 0 : copy]; }
  };
  using AnyOperands = std::variant<Operands<float>, Operands<double>>;

  template <typename T>
  static Operands<T> Draw(const MixShape& shape, int copies, Random& random);
  template <typename T>
  static absl::Status Check(const MixShape& shape, const std::vector<T>& a, const std::vector<T>& b,
                            const T* d);

  const ShapeMix mix_;
  int64_t largest_d_bytes_ = 0;
  std::vector<AnyOperands> operands_;      // by shape
  std::vector<std::string> matrix_names_;  // by shape, of the Bs that are on the server
};

}  // namespace gemm::cli

#endif  // GEMMD_CLIENT_CLI_PERF_WORKLOAD_H_
