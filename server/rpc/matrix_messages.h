// Between the messages of matrices that stay on the server and what they mean: pure.

#ifndef GEMMD_SERVER_RPC_MATRIX_MESSAGES_H_
#define GEMMD_SERVER_RPC_MATRIX_MESSAGES_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gemm/v1/gemm.pb.h"
#include "server/memory/matrix_store.h"

namespace gemm {

// Whose matrices are meant. There is one owner as long as callers do not prove who they are.
inline constexpr std::string_view kOwner = "default";

// Matrices of one reply to ListMatrices.
inline constexpr int kListPage = 1000;

v1::Matrix MessageOf(const MatrixState& state);

// The matrix that a CreateMatrix asks for.
absl::StatusOr<MatrixSpec> DecodeSpec(const v1::CreateMatrixRequest& request);

// Errors name `field`.
absl::Status CheckMatrixName(const std::string& name, const std::string& field);
absl::StatusOr<absl::Duration> DecodeTimeToLive(uint64_t time_to_live_ns, absl::Duration limit,
                                                const std::string& field);

}  // namespace gemm

#endif  // GEMMD_SERVER_RPC_MATRIX_MESSAGES_H_
