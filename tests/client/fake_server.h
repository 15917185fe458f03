// Servers for the client's tests, in this process and on ports of their own.

#ifndef GEMMD_TESTS_CLIENT_FAKE_SERVER_H_
#define GEMMD_TESTS_CLIENT_FAKE_SERVER_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "gemm/v1/gemm.grpc.pb.h"

namespace gemm::testing {

// Multiplies with three loops, and keeps matrices, through the stock generated service, so that
// what the client writes by hand is read by protobuf itself.
class FakeServer final : public v1::GemmService::Service {
 public:
  FakeServer();
  ~FakeServer() override;

  int port() const { return port_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  // Answers given before a call is served, first to last.
  void FailNext(std::vector<grpc::Status> statuses);
  // Changes every reply to Multiply.
  void EditReplies(std::function<void(v1::MultiplyReply&)> edit);
  void EditBatchReplies(std::function<void(v1::MultiplyBatchReply&)> edit);
  void EditRows(std::function<void(v1::ReadRowsReply&)> edit);
  void SetHealth(bool serving);
  void SetMessageLimit(uint64_t bytes);

  // Of the calls whose method has this name, the `number`th from now on (1 is the next): `edit` is
  // called first, and what it returns is the answer unless it is OK.
  void OnCall(const std::string& method, int number, std::function<grpc::Status()> edit);

  // As a server that has restarted.
  void ForgetMatrices();
  // Of a matrix: row begin and count of each WriteRows and ReadRows that was answered.
  std::vector<std::pair<int64_t, int64_t>> panels(const std::string& name) const;
  std::string matrix_bytes(const std::string& name) const;  // empty if there is none
  std::set<std::string> peers() const;                      // that have called

  int calls() const;
  v1::MultiplyRequest last_request() const;
  v1::MultiplyBatchRequest last_batch_request() const;
  std::string last_announced_bytes() const;  // metadata gemmd-request-bytes
  std::string last_user_agent() const;

 private:
  grpc::Status Multiply(grpc::ServerContext* context, const v1::MultiplyRequest* request,
                        v1::MultiplyReply* reply) override;
  grpc::Status MultiplyBatch(grpc::ServerContext* context, const v1::MultiplyBatchRequest* request,
                             v1::MultiplyBatchReply* reply) override;
  grpc::Status CreateMatrix(grpc::ServerContext* context, const v1::CreateMatrixRequest* request,
                            v1::CreateMatrixReply* reply) override;
  grpc::Status WriteRows(grpc::ServerContext* context, const v1::WriteRowsRequest* request,
                         v1::WriteRowsReply* reply) override;
  grpc::Status ReadRows(grpc::ServerContext* context, const v1::ReadRowsRequest* request,
                        v1::ReadRowsReply* reply) override;
  grpc::Status GetMatrix(grpc::ServerContext* context, const v1::GetMatrixRequest* request,
                         v1::GetMatrixReply* reply) override;
  grpc::Status ListMatrices(grpc::ServerContext* context, const v1::ListMatricesRequest* request,
                            v1::ListMatricesReply* reply) override;
  grpc::Status DeleteMatrix(grpc::ServerContext* context, const v1::DeleteMatrixRequest* request,
                            v1::DeleteMatrixReply* reply) override;
  grpc::Status Explain(grpc::ServerContext* context, const v1::ExplainRequest* request,
                       v1::ExplainReply* reply) override;
  grpc::Status GetServerInfo(grpc::ServerContext* context, const v1::GetServerInfoRequest* request,
                             v1::GetServerInfoReply* reply) override;

  struct StoredMatrix {
    v1::Matrix state;
    std::string bytes;
    std::vector<bool> written;  // by row
    std::vector<std::pair<int64_t, int64_t>> panels;

    int64_t row_bytes() const;
  };

  grpc::Status Record(const grpc::ServerContext& context, const char* method);
  grpc::Status Find(const std::string& name, StoredMatrix*& matrix)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The rows that an operand names, as one more payload.
  grpc::Status Resolve(v1::Operand* operand, v1::MultiplyRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Multiplies a request of one product; D becomes a matrix where it is to.
  grpc::Status Compute(v1::MultiplyRequest request, std::string& d, v1::Matrix* result);

  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;

  mutable absl::Mutex mutex_;
  std::vector<grpc::Status> failures_ ABSL_GUARDED_BY(mutex_);
  std::function<void(v1::MultiplyReply&)> edit_ ABSL_GUARDED_BY(mutex_);
  std::function<void(v1::MultiplyBatchReply&)> edit_batch_ ABSL_GUARDED_BY(mutex_);
  std::function<void(v1::ReadRowsReply&)> edit_rows_ ABSL_GUARDED_BY(mutex_);
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
  v1::MultiplyRequest last_request_ ABSL_GUARDED_BY(mutex_);
  v1::MultiplyBatchRequest last_batch_request_ ABSL_GUARDED_BY(mutex_);
  std::string last_announced_bytes_ ABSL_GUARDED_BY(mutex_);
  std::string last_user_agent_ ABSL_GUARDED_BY(mutex_);
  uint64_t message_limit_bytes_ ABSL_GUARDED_BY(mutex_) = 64 << 20;
  std::map<std::string, std::map<int, std::function<grpc::Status()>>> on_call_
      ABSL_GUARDED_BY(mutex_);
  std::map<std::string, StoredMatrix> matrices_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> peers_ ABSL_GUARDED_BY(mutex_);
};

// Takes calls and never reads their messages, as a server does that is out of memory.
class StallingServer final : public grpc::CallbackGenericService {
 public:
  // refusal: what to answer at the headers; OK is no answer until the caller gives up.
  explicit StallingServer(grpc::Status refusal = grpc::Status::OK);
  ~StallingServer() override;

  int port() const { return port_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override;

  const grpc::Status refusal_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// A status with google.rpc details as the server sends them.
grpc::Status DetailedStatus(grpc::StatusCode code, const std::string& message,
                            const std::string& reason, const std::string& field,
                            int retry_delay_ms);

}  // namespace gemm::testing

#endif  // GEMMD_TESTS_CLIENT_FAKE_SERVER_H_
