#include "tests/client/fake_server.h"

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <cstring>
#include <utility>

#include "gemm/v1/error_details.pb.h"

namespace gemm::testing {
namespace {

std::unique_ptr<grpc::Server> Start(grpc::ServerBuilder& builder, int& port) {
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(-1);
  return builder.BuildAndStart();
}

// An operand's elements by the contract's words: [q][i][j] of op(X), rows x columns.
template <typename T>
class Reader {
 public:
  Reader(const v1::MultiplyRequest& request, const v1::Operand& operand, int64_t rows,
         int64_t columns)
      : data_(request.payloads(static_cast<int>(operand.payload()))),
        transposed_(operand.transposed()) {
    const int64_t stored_rows = transposed_ ? columns : rows;
    const int64_t stored_columns = transposed_ ? rows : columns;
    ld_ = operand.leading_dimension() != 0 ? operand.leading_dimension() : stored_columns;
    stride_ = operand.has_batch_stride() ? operand.batch_stride() : stored_rows * ld_;
    const int64_t batch = stride_ == 0 ? 1 : request.product().batch_count();
    const int64_t extent = rows * columns * batch == 0
                               ? 0
                               : (batch - 1) * stride_ + (stored_rows - 1) * ld_ + stored_columns;
    exact_ = data_.size() == extent * sizeof(T);
  }

  bool exact() const { return exact_; }

  T operator()(int64_t q, int64_t i, int64_t j) const {
    if (transposed_) std::swap(i, j);
    T value;
    std::memcpy(&value, data_.data() + (q * stride_ + i * ld_ + j) * sizeof(T), sizeof(T));
    return value;
  }

 private:
  const std::string& data_;
  bool transposed_;
  int64_t ld_ = 0;
  int64_t stride_ = 0;
  bool exact_ = false;
};

template <typename T>
grpc::Status Compute(const v1::MultiplyRequest& request, std::string& d) {
  const v1::Product& p = request.product();
  const Reader<T> a(request, p.a(), p.m(), p.k());
  const Reader<T> b(request, p.b(), p.k(), p.n());
  const bool has_c = p.beta() != 0;
  const Reader<T> c = has_c ? Reader<T>(request, p.c(), p.m(), p.n()) : a;
  if (!a.exact() || !b.exact() || !c.exact()) {
    return {grpc::StatusCode::INVALID_ARGUMENT, "a payload's length is not what its operand needs"};
  }
  d.resize(p.batch_count() * p.m() * p.n() * sizeof(T));
  char* out = d.data();
  for (int64_t q = 0; q < p.batch_count(); ++q) {
    for (int64_t i = 0; i < p.m(); ++i) {
      for (int64_t j = 0; j < p.n(); ++j, out += sizeof(T)) {
        T sum = 0;
        for (int64_t l = 0; l < p.k(); ++l) sum += a(q, i, l) * b(q, l, j);
        T value = static_cast<T>(p.alpha()) * sum;
        if (has_c) value += static_cast<T>(p.beta()) * c(q, i, j);
        std::memcpy(out, &value, sizeof(T));
      }
    }
  }
  return grpc::Status::OK;
}

grpc::Status Compute(const v1::MultiplyRequest& request, std::string& d) {
  return request.product().data_type() == v1::DATA_TYPE_F32 ? Compute<float>(request, d)
                                                            : Compute<double>(request, d);
}

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

grpc::Status FakeServer::Record(const grpc::ServerContext& context) {
  absl::MutexLock lock(&mutex_);
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
  if (grpc::Status status = Record(*context); !status.ok()) return status;
  grpc::Status status = Compute(*request, *reply->add_payloads());
  Fill(*reply->mutable_report());
  absl::MutexLock lock(&mutex_);
  last_request_ = *request;
  if (edit_) edit_(*reply);
  return status;
}

grpc::Status FakeServer::MultiplyBatch(grpc::ServerContext* context,
                                       const v1::MultiplyBatchRequest* request,
                                       v1::MultiplyBatchReply* reply) {
  if (grpc::Status status = Record(*context); !status.ok()) return status;
  v1::MultiplyRequest single;
  *single.mutable_payloads() = request->payloads();
  for (const v1::Product& product : request->products()) {
    *single.mutable_product() = product;
    if (grpc::Status status = Compute(single, *reply->add_payloads()); !status.ok()) return status;
    Fill(*reply->add_results()->mutable_report());
  }
  absl::MutexLock lock(&mutex_);
  last_batch_request_ = *request;
  if (edit_batch_) edit_batch_(*reply);
  return grpc::Status::OK;
}

grpc::Status FakeServer::Explain(grpc::ServerContext* context, const v1::ExplainRequest* request,
                                 v1::ExplainReply* reply) {
  if (grpc::Status status = Record(*context); !status.ok()) return status;
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
  return grpc::Status::OK;
}

grpc::Status FakeServer::GetServerInfo(grpc::ServerContext* context,
                                       const v1::GetServerInfoRequest* /*request*/,
                                       v1::GetServerInfoReply* reply) {
  if (grpc::Status status = Record(*context); !status.ok()) return status;
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
  reply->set_message_limit_bytes(123);
  reply->set_uptime_ns(1'500'000'000);
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
