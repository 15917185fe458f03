// The calls about matrices that stay on the server: CreateMatrix, WriteRows, ReadRows, GetMatrix,
// ListMatrices, DeleteMatrix. None waits in the queue of products: rows go straight between gRPC's
// memory and the device.

#ifndef GEMMD_SERVER_RPC_MATRIX_CALL_H_
#define GEMMD_SERVER_RPC_MATRIX_CALL_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/rpc/call.h"

namespace gemm {

// What is a method's own.
struct MatrixMethod {
  RpcMethod method;
  std::string_view name;
  bool carries_rows;  // in its request
};

// In the order of the contract. Null: no such method.
const MatrixMethod* FindMatrixMethod(std::string_view name);

class MatrixCall final : public Call {
 public:
  // `method` is one that was found.
  MatrixCall(RpcContext& context, CallStream& stream, const MatrixMethod& method);

 private:
  ~MatrixCall() override = default;
  void OnStart() override { Open(place_); }
  void OnMessage() override;

  void Run();
  absl::StatusOr<grpc::ByteBuffer> Answer();
  absl::StatusOr<grpc::ByteBuffer> Create();
  absl::StatusOr<grpc::ByteBuffer> WriteRows();
  absl::StatusOr<grpc::ByteBuffer> ReadRows();
  absl::StatusOr<grpc::ByteBuffer> Get();
  absl::StatusOr<grpc::ByteBuffer> List();
  absl::StatusOr<grpc::ByteBuffer> Delete();
  void Log(const absl::Status& status) const;

  const MatrixMethod& method_;
  const InFlightPlace place_;
  std::string matrix_;  // its name, for the log, once it is known
  absl::Duration copy_ = absl::ZeroDuration();
};

}  // namespace gemm

#endif  // GEMMD_SERVER_RPC_MATRIX_CALL_H_
