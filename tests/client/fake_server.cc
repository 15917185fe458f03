#include "tests/client/fake_server.h"

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <utility>

#include "gemm/v1/error_details.pb.h"
#include "tests/client/fake_product.h"

namespace gemm::testing {
namespace {

std::unique_ptr<grpc::Server> Start(grpc::ServerBuilder& builder, int& port) {
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(-1);
  return builder.BuildAndStart();
}

int64_t ElementBytes(v1::DataType type) { return type == v1::DATA_TYPE_F32 ? 4 : 8; }

void Fill(v1::ExecutionReport& report) {
  report.set_kernel("fake_f32_1x1x1");
  report.set_device("fake");
  report.set_device_index(3);
  report.set_batch_problems(2);
  report.set_admit_ns(1);
  report.set_receive_ns(2);
  report.set_decode_ns(3);
  report.set_queue_ns(4);
  report.set_copy_in_ns(5);
  report.set_compute_ns(6);
  report.set_copy_out_ns(7);
}

std::string MetadataValue(const grpc::ServerContext& context, const char* key) {
  const auto found = context.client_metadata().find(key);
  if (found == context.client_metadata().end()) return {};
  return {found->second.data(), found->second.size()};
}

}  // namespace

FakeServer::FakeServer() {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  builder.RegisterService(this);
  server_ = Start(builder, port_);
}

FakeServer::~FakeServer() { server_->Shutdown(std::chrono::system_clock::now()); }

void FakeServer::FailNext(std::vector<grpc::Status> statuses) {
  absl::MutexLock lock(&mutex_);
  failures_ = std::move(statuses);
}

void FakeServer::EditReplies(std::function<void(v1::MultiplyReply&)> edit) {
  absl::MutexLock lock(&mutex_);
  edit_ = std::move(edit);
}

void FakeServer::EditBatchReplies(std::function<void(v1::MultiplyBatchReply&)> edit) {
  absl::MutexLock lock(&mutex_);
  edit_batch_ = std::move(edit);
}

void FakeServer::EditRows(std::function<void(v1::ReadRowsReply&)> edit) {
  absl::MutexLock lock(&mutex_);
  edit_rows_ = std::move(edit);
}

void FakeServer::SetHealth(bool serving) {
  server_->GetHealthCheckService()->SetServingStatus(serving);
}

int FakeServer::calls() const {
  absl::MutexLock lock(&mutex_);
  return calls_;
}

v1::MultiplyRequest FakeServer::last_request() const {
  absl::MutexLock lock(&mutex_);
  return last_request_;
}

v1::MultiplyBatchRequest FakeServer::last_batch_request() const {
  absl::MutexLock lock(&mutex_);
  return last_batch_request_;
}

std::string FakeServer::last_announced_bytes() const {
  absl::MutexLock lock(&mutex_);
  return last_announced_bytes_;
}

std::string FakeServer::last_user_agent() const {
  absl::MutexLock lock(&mutex_);
  return last_user_agent_;
}

void FakeServer::SetMessageLimit(uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  message_limit_bytes_ = bytes;
}

void FakeServer::OnCall(const std::string& method, int number, std::function<grpc::Status()> edit) {
  absl::MutexLock lock(&mutex_);
  on_call_[method][number] = std::move(edit);
}

void FakeServer::ForgetMatrices() {
  absl::MutexLock lock(&mutex_);
  matrices_.clear();
}

std::vector<std::pair<int64_t, int64_t>> FakeServer::panels(const std::string& name) const {
  absl::MutexLock lock(&mutex_);
  const auto found = matrices_.find(name);
  if (found == matrices_.end()) return {};
  return found->second.panels;
}

std::string FakeServer::matrix_bytes(const std::string& name) const {
  absl::MutexLock lock(&mutex_);
  const auto found = matrices_.find(name);
  return found == matrices_.end() ? std::string() : found->second.bytes;
}

std::set<std::string> FakeServer::peers() const {
  absl::MutexLock lock(&mutex_);
  return peers_;
}

grpc::Status FakeServer::Record(const grpc::ServerContext& context, const char* method) {
  std::function<grpc::Status()> edit;
  {
    absl::MutexLock lock(&mutex_);
    std::map<int, std::function<grpc::Status()>> later;
    for (auto& [number, each] : on_call_[method]) {
      if (number == 1) {
        edit = std::move(each);
      } else {
        later[number - 1] = std::move(each);
      }
    }
    on_call_[method] = std::move(later);
  }
  if (edit) {
    if (grpc::Status status = edit(); !status.ok()) return status;
  }
  absl::MutexLock lock(&mutex_);
  peers_.insert(context.peer());
  ++calls_;
  last_announced_bytes_ = MetadataValue(context, "gemmd-request-bytes");
  last_user_agent_ = MetadataValue(context, "user-agent");
  if (failures_.empty()) return grpc::Status::OK;
  grpc::Status status = failures_.front();
  failures_.erase(failures_.begin());
  return status;
}

grpc::Status FakeServer::Multiply(grpc::ServerContext* context, const v1::MultiplyRequest* request,
                                  v1::MultiplyReply* reply) {
  if (grpc::Status status = Record(*context, "Multiply"); !status.ok()) return status;
  grpc::Status status =
      Compute(*request, *reply->add_payloads(),
              request->product().has_result() ? reply->mutable_result() : nullptr);
  Fill(*reply->mutable_report());
  absl::MutexLock lock(&mutex_);
  last_request_ = *request;
  if (edit_) edit_(*reply);
  return status;
}

grpc::Status FakeServer::MultiplyBatch(grpc::ServerContext* context,
                                       const v1::MultiplyBatchRequest* request,
                                       v1::MultiplyBatchReply* reply) {
  if (grpc::Status status = Record(*context, "MultiplyBatch"); !status.ok()) return status;
  v1::MultiplyRequest single;
  *single.mutable_payloads() = request->payloads();
  for (const v1::Product& product : request->products()) {
    *single.mutable_product() = product;
    v1::MultiplyBatchReply::Result& result = *reply->add_results();
    grpc::Status status = Compute(single, *reply->add_payloads(),
                                  product.has_result() ? result.mutable_result() : nullptr);
    if (!status.ok()) return status;
    Fill(*result.mutable_report());
  }
  absl::MutexLock lock(&mutex_);
  last_batch_request_ = *request;
  if (edit_batch_) edit_batch_(*reply);
  return grpc::Status::OK;
}

int64_t FakeServer::StoredMatrix::row_bytes() const {
  return state.columns() * ElementBytes(state.data_type());
}

grpc::Status FakeServer::Find(const std::string& name, StoredMatrix*& matrix) {
  const auto found = matrices_.find(name);
  if (found == matrices_.end()) {
    return DetailedStatus(grpc::StatusCode::NOT_FOUND, "name: there is no matrix \"" + name + "\"",
                          "MATRIX_NOT_FOUND", "name", 0);
  }
  matrix = &found->second;
  return grpc::Status::OK;
}

grpc::Status FakeServer::Resolve(v1::Operand* operand, v1::MultiplyRequest& request) {
  if (operand->source_case() != v1::Operand::kMatrix) return grpc::Status::OK;
  StoredMatrix* matrix = nullptr;
  const v1::MatrixRows rows = operand->matrix();
  if (grpc::Status status = Find(rows.name(), matrix); !status.ok()) return status;
  if (!matrix->state.sealed()) {
    return DetailedStatus(grpc::StatusCode::FAILED_PRECONDITION, "rows are missing",
                          "MATRIX_NOT_SEALED", "", 0);
  }
  const int64_t count =
      rows.row_count() != 0 ? rows.row_count() : matrix->state.rows() - rows.row_begin();
  operand->set_payload(request.payloads_size());
  request.add_payloads(
      matrix->bytes.substr(rows.row_begin() * matrix->row_bytes(), count * matrix->row_bytes()));
  return grpc::Status::OK;
}

grpc::Status FakeServer::Compute(v1::MultiplyRequest request, std::string& d, v1::Matrix* result) {
  v1::Product& product = *request.mutable_product();
  {
    absl::MutexLock lock(&mutex_);
    for (v1::Operand* operand : {product.mutable_a(), product.mutable_b(), product.mutable_c()}) {
      if (grpc::Status status = Resolve(operand, request); !status.ok()) return status;
    }
  }
  grpc::Status status = ComputeProduct(request, d);
  if (!status.ok() || result == nullptr) return status;
  absl::MutexLock lock(&mutex_);
  StoredMatrix& matrix = matrices_[product.result().name()];
  matrix.state.set_name(product.result().name());
  matrix.state.set_data_type(product.data_type());
  matrix.state.set_rows(product.batch_count() * product.m());
  matrix.state.set_columns(product.n());
  matrix.state.set_rows_written(matrix.state.rows());
  matrix.state.set_time_to_live_ns(product.result().time_to_live_ns());
  matrix.state.set_sealed(true);
  matrix.bytes = std::move(d);
  d.clear();
  *result = matrix.state;
  return grpc::Status::OK;
}

grpc::Status FakeServer::CreateMatrix(grpc::ServerContext* context,
                                      const v1::CreateMatrixRequest* request,
                                      v1::CreateMatrixReply* reply) {
  if (grpc::Status status = Record(*context, "CreateMatrix"); !status.ok()) return status;
  absl::MutexLock lock(&mutex_);
  const auto [found, added] = matrices_.try_emplace(request->name());
  StoredMatrix& matrix = found->second;
  v1::Matrix& state = matrix.state;
  if (added) {
    state.set_name(request->name());
    state.set_data_type(request->data_type());
    state.set_rows(request->rows());
    state.set_columns(request->columns());
    state.set_time_to_live_ns(request->time_to_live_ns());
    state.set_expires_in_ns(request->time_to_live_ns());
    matrix.bytes.resize(state.rows() * matrix.row_bytes());
    matrix.written.resize(state.rows());
    state.set_memory_bytes(matrix.bytes.size());
    state.set_sealed(matrix.bytes.empty());
  } else if (state.data_type() != request->data_type() || state.rows() != request->rows() ||
             state.columns() != request->columns()) {
    return DetailedStatus(grpc::StatusCode::ALREADY_EXISTS, "name: is in use", "MATRIX_EXISTS",
                          "name", 0);
  }
  *reply->mutable_matrix() = state;
  return grpc::Status::OK;
}

grpc::Status FakeServer::WriteRows(grpc::ServerContext* context,
                                   const v1::WriteRowsRequest* request, v1::WriteRowsReply* reply) {
  if (grpc::Status status = Record(*context, "WriteRows"); !status.ok()) return status;
  absl::MutexLock lock(&mutex_);
  StoredMatrix* matrix = nullptr;
  if (grpc::Status status = Find(request->name(), matrix); !status.ok()) return status;
  v1::Matrix& state = matrix->state;
  const int64_t begin = request->row_begin();
  const int64_t count = request->row_count() != 0 ? request->row_count() : state.rows() - begin;
  if (begin + count > state.rows() || request->payloads_size() != 1 ||
      static_cast<int64_t>(request->payloads(0).size()) != count * matrix->row_bytes()) {
    return DetailedStatus(grpc::StatusCode::INVALID_ARGUMENT, "payloads[0]: has another size",
                          "INVALID_REQUEST", "payloads[0]", 0);
  }
  for (int64_t row = begin; row < begin + count; ++row) {
    if (matrix->written[row]) continue;
    matrix->written[row] = true;
    state.set_rows_written(state.rows_written() + 1);
    matrix->bytes.replace(row * matrix->row_bytes(), matrix->row_bytes(), request->payloads(0),
                          (row - begin) * matrix->row_bytes(), matrix->row_bytes());
  }
  matrix->panels.emplace_back(begin, count);
  state.set_sealed(state.rows_written() == state.rows());
  *reply->mutable_matrix() = state;
  return grpc::Status::OK;
}

grpc::Status FakeServer::ReadRows(grpc::ServerContext* context, const v1::ReadRowsRequest* request,
                                  v1::ReadRowsReply* reply) {
  if (grpc::Status status = Record(*context, "ReadRows"); !status.ok()) return status;
  absl::MutexLock lock(&mutex_);
  StoredMatrix* matrix = nullptr;
  if (grpc::Status status = Find(request->name(), matrix); !status.ok()) return status;
  if (!matrix->state.sealed()) {
    return DetailedStatus(grpc::StatusCode::FAILED_PRECONDITION, "rows are missing",
                          "MATRIX_NOT_SEALED", "", 0);
  }
  const int64_t begin = request->row_begin();
  const int64_t count =
      request->row_count() != 0 ? request->row_count() : matrix->state.rows() - begin;
  matrix->panels.emplace_back(begin, count);
  reply->add_payloads(
      matrix->bytes.substr(begin * matrix->row_bytes(), count * matrix->row_bytes()));
  *reply->mutable_matrix() = matrix->state;
  if (edit_rows_) edit_rows_(*reply);
  return grpc::Status::OK;
}

grpc::Status FakeServer::GetMatrix(grpc::ServerContext* context,
                                   const v1::GetMatrixRequest* request, v1::GetMatrixReply* reply) {
  if (grpc::Status status = Record(*context, "GetMatrix"); !status.ok()) return status;
  absl::MutexLock lock(&mutex_);
  StoredMatrix* matrix = nullptr;
  if (grpc::Status status = Find(request->name(), matrix); !status.ok()) return status;
  *reply->mutable_matrix() = matrix->state;
  return grpc::Status::OK;
}

// Two a page.
grpc::Status FakeServer::ListMatrices(grpc::ServerContext* context,
                                      const v1::ListMatricesRequest* request,
                                      v1::ListMatricesReply* reply) {
  if (grpc::Status status = Record(*context, "ListMatrices"); !status.ok()) return status;
  absl::MutexLock lock(&mutex_);
  auto at = matrices_.upper_bound(request->page_token());
  for (; at != matrices_.end() && reply->matrices_size() < 2; ++at) {
    *reply->add_matrices() = at->second.state;
  }
  if (at != matrices_.end()) {
    reply->set_next_page_token(reply->matrices(reply->matrices_size() - 1).name());
  }
  return grpc::Status::OK;
}

grpc::Status FakeServer::DeleteMatrix(grpc::ServerContext* context,
                                      const v1::DeleteMatrixRequest* request,
                                      v1::DeleteMatrixReply* /*reply*/) {
  if (grpc::Status status = Record(*context, "DeleteMatrix"); !status.ok()) return status;
  absl::MutexLock lock(&mutex_);
  StoredMatrix* matrix = nullptr;
  if (grpc::Status status = Find(request->name(), matrix); !status.ok()) return status;
  matrices_.erase(request->name());
  return grpc::Status::OK;
}

grpc::Status FakeServer::Explain(grpc::ServerContext* context, const v1::ExplainRequest* request,
                                 v1::ExplainReply* reply) {
  if (grpc::Status status = Record(*context, "Explain"); !status.ok()) return status;
  const v1::Product& product = request->product();
  reply->set_chosen("first");
  reply->set_reason(product.a().transposed() ? "a transposed" : "measured");
  reply->set_device(std::to_string(product.m() * product.n() * product.k()));
  v1::ExplainReply::Candidate* first = reply->add_candidates();
  first->set_kernel("first");
  first->set_modelled_seconds(0.25);
  v1::ExplainReply::Candidate* second = reply->add_candidates();
  second->set_kernel("second");
  second->set_why_not("k is odd");
  reply->add_candidates()->set_kernel("without a model");
  return grpc::Status::OK;
}

grpc::Status FakeServer::GetServerInfo(grpc::ServerContext* context,
                                       const v1::GetServerInfoRequest* /*request*/,
                                       v1::GetServerInfoReply* reply) {
  if (grpc::Status status = Record(*context, "GetServerInfo"); !status.ok()) return status;
  reply->set_version("1.2.3");
  reply->set_commit("abc");
  v1::GetServerInfoReply::Device* device = reply->add_devices();
  device->set_index(1);
  device->set_name("fake");
  device->set_kind("cpu");
  device->set_memory_bytes(1 << 20);
  device->set_healthy(true);
  reply->add_kernels("first");
  reply->add_data_types(v1::DATA_TYPE_F32);
  reply->add_data_types(v1::DATA_TYPE_F64);
  reply->add_data_types(static_cast<v1::DataType>(99));  // of a newer server
  reply->set_matrix_memory_bytes(1000);
  reply->set_matrix_memory_used_bytes(100);
  reply->set_time_to_live_limit_ns(3'600'000'000'000);
  reply->set_uptime_ns(1'500'000'000);
  absl::MutexLock lock(&mutex_);
  reply->set_message_limit_bytes(message_limit_bytes_);
  return grpc::Status::OK;
}

StallingServer::StallingServer(grpc::Status refusal) : refusal_(std::move(refusal)) {
  grpc::ServerBuilder builder;
  builder.RegisterCallbackGenericService(this);
  server_ = Start(builder, port_);
}

StallingServer::~StallingServer() { server_->Shutdown(std::chrono::system_clock::now()); }

grpc::ServerGenericBidiReactor* StallingServer::CreateReactor(
    grpc::GenericCallbackServerContext* /*context*/) {
  class Reactor final : public grpc::ServerGenericBidiReactor {
   public:
    explicit Reactor(const grpc::Status& refusal) : refused_(!refusal.ok()) {
      if (refused_) Finish(refusal);
    }
    void OnCancel() override {
      if (!refused_) Finish(grpc::Status::CANCELLED);
    }
    void OnDone() override { delete this; }

   private:
    const bool refused_;
  };
  return new Reactor(refusal_);
}

grpc::Status DetailedStatus(grpc::StatusCode code, const std::string& message,
                            const std::string& reason, const std::string& field,
                            int retry_delay_ms) {
  v1::StatusDetails details;
  details.set_code(code);
  details.set_message(message);
  const auto add = [&details](const char* name, const google::protobuf::Message& detail) {
    google::protobuf::Any* any = details.add_details();
    any->set_type_url(std::string("type.googleapis.com/google.rpc.") + name);
    any->set_value(detail.SerializeAsString());
  };
  v1::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("gemmd");
  add("ErrorInfo", info);
  if (!field.empty()) {
    v1::BadRequest bad_request;
    bad_request.add_field_violations()->set_field(field);
    add("BadRequest", bad_request);
  }
  if (retry_delay_ms > 0) {
    v1::RetryInfo retry;
    retry.mutable_retry_delay()->set_seconds(retry_delay_ms / 1000);
    retry.mutable_retry_delay()->set_nanos(retry_delay_ms % 1000 * 1'000'000);
    add("RetryInfo", retry);
  }
  return {code, message, details.SerializeAsString()};
}

}  // namespace gemm::testing
