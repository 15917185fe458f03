// Matrices for decoders to find; there is no memory behind them.

#ifndef GEMMD_TESTS_SERVER_RPC_KNOWN_MATRICES_H_
#define GEMMD_TESTS_SERVER_RPC_KNOWN_MATRICES_H_

#include <memory>
#include <string>

#include "server/reason.h"
#include "server/rpc/decode.h"

namespace gemm {

// "f32" is 10 x 6 and dense, "wide" 10 x 300 and padded to 320, "f64" 10 x 6, "open" not sealed.
inline absl::StatusOr<std::shared_ptr<const DeviceMatrix>> FindKnownMatrix(
    const std::string& name) {
  if (name == "f32") {
    return std::make_shared<DeviceMatrix>(0, MatrixSpec{DType::kF32, 10, 6}, nullptr);
  }
  if (name == "wide") {
    return std::make_shared<DeviceMatrix>(1, MatrixSpec{DType::kF32, 10, 300}, nullptr);
  }
  if (name == "f64") {
    return std::make_shared<DeviceMatrix>(0, MatrixSpec{DType::kF64, 10, 6}, nullptr);
  }
  if (name == "open") return ErrorWithReason(Reason::kMatrixNotSealed, "rows are missing");
  return ErrorWithReason(Reason::kMatrixNotFound, "there is none");
}

inline DecodeContext WithKnownMatrices(uint64_t reply_limit_bytes) {
  return {.reply_limit_bytes = reply_limit_bytes,
          .time_to_live_limit = absl::Hours(1),
          .find_matrix = FindKnownMatrix};
}

}  // namespace gemm

#endif  // GEMMD_TESTS_SERVER_RPC_KNOWN_MATRICES_H_
