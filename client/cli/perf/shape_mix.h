// The products that a load is made of.

#ifndef GEMMD_CLIENT_CLI_PERF_SHAPE_MIX_H_
#define GEMMD_CLIENT_CLI_PERF_SHAPE_MIX_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/perf/random.h"
#include "gemmd/multiply.h"
#include "gemmd/types.h"

namespace gemm::cli {

struct MixShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  ElementType type = ElementType::kF32;
  bool transpose_a = false;  // A is stored transposed
  bool transpose_b = false;
  double weight = 1.0;
  bool resident_b = false;  // B is on the server, one for all products of the shape

  int64_t element_bytes() const { return type == ElementType::kF32 ? 4 : 8; }
  int64_t d_bytes() const { return m * n * element_bytes(); }
  int64_t payload_bytes() const {  // that travel, both ways
    return (m * k + (resident_b ? 0 : k * n) + m * n) * element_bytes();
  }
  // Whether a Multiply of it goes in panels of rows, over several connections.
  bool by_panels() const {
    const int64_t request_bytes = payload_bytes() - d_bytes();
    return !transpose_a &&
           static_cast<uint64_t>(std::max(request_bytes, d_bytes())) > kOneMessageBytes;
  }
  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
  std::string name() const;  // "64x64x64/f64/tb"
};

class ShapeMix {
 public:
  ShapeMix() : ShapeMix({MixShape{.m = 1024, .n = 1024, .k = 1024}}) {}

  // "64x64x64:8,1000x1000x10/f64/ta/tb": M x N x K, then the type if it is not f32 and which
  // operands are stored transposed, then the weight if it is not 1. Every matrix fits a message.
  static absl::StatusOr<ShapeMix> Parse(const std::string& text);

  void KeepBOnServer();  // of every shape

  bool by_panels() const;  // any shape

  const std::vector<MixShape>& shapes() const { return shapes_; }
  double total_weight() const { return cumulative_.back(); }

  // An index into shapes().
  size_t Pick(Random& random) const;

 private:
  explicit ShapeMix(std::vector<MixShape> shapes);

  std::vector<MixShape> shapes_;    // at least one
  std::vector<double> cumulative_;  // weights, each with all before it
};

}  // namespace gemm::cli

#endif  // GEMMD_CLIENT_CLI_PERF_SHAPE_MIX_H_
