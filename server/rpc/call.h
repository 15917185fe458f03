// One call to the server, from its headers to its end.

#ifndef GEMMD_SERVER_RPC_CALL_H_
#define GEMMD_SERVER_RPC_CALL_H_

#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "google/protobuf/message_lite.h"
#include "proto/bulk_message.h"
#include "server/rpc/admission.h"
#include "server/rpc/call_stream.h"
#include "server/rpc/executor.h"
#include "server/rpc/in_flight.h"
#include "server/rpc/receiving.h"
#include "server/rpc/rpc_server.h"
#include "server/telemetry/logging.h"
#include "server/telemetry/metrics.h"

namespace gemm {

class HealthState;
class MatrixStore;

// Requests other than products are small. What is larger is refused.
inline constexpr uint64_t kControlMessageBytes = 64 << 10;

// What every call needs; owned by the RpcServer, outlives every call.
struct RpcContext {
  const RpcOptions& options;
  Engine& engine;
  MatrixStore& matrices;
  Metrics& metrics;
  HealthState& health;
  Executor& executor;
  Admission& product_admission;  // bulk calls
  Admission& control_admission;  // the rest, apart, so that probes are answered under load
  Receiving& receiving;
  std::atomic<bool>& refusing;
  InFlight& products_in_flight;
  absl::Time started;
};

// A message as gRPC holds it, seen as segments. Valid while the object lives.
class MessageSlices {
 public:
  explicit MessageSlices(grpc::ByteBuffer& message);

  absl::Span<const Segment> segments() const { return segments_; }

 private:
  std::vector<grpc::Slice> slices_;
  std::vector<Segment> segments_;
};

// The gate and the life that all calls share: made when the headers arrive, deleted by OnDone. A
// subclass gets its message in OnMessage and then calls Reply or Fail exactly
// once, from any thread; after that it must not be touched.
class Call : public CallStream::Reactor {
 public:
  // `message_limit_bytes`: the largest request of the method, and what one counts as until it says
  // that it is smaller.
  Call(RpcContext& context, CallStream& stream, RpcMethod method, Admission& admission,
       uint64_t message_limit_bytes);

  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void OnStart() override { Open(); }
  void OnReadDone(bool ok) final;
  void OnCancel() final;
  void OnDone() final;

 protected:
  virtual ~Call() = default;

  // Passes the gate, then reads the message. Until then its bytes stay with the caller.
  void Open();
  // As Open, unless a drain has refused the call its place.
  void Open(const InFlightPlace& place);

  // The whole message is in memory, on a thread that takes events: be quick or use the executor.
  virtual void OnMessage() = 0;
  // The caller has gone; the call still has to be finished.
  virtual void OnCallerGone() {}

  grpc::ByteBuffer& message() { return message_; }
  // For small requests. False: it was not one, and the call has failed.
  bool ParseMessage(google::protobuf::MessageLite& request);
  // Frees the message's memory. Its bytes stay counted against admission: by then they are in host
  // memory, and who waits in line must not upload what would find none.
  void FreeMessage() { message_.Clear(); }
  // Frees the message and lets the next in line in.
  void ReleaseMessage();

  void Reply(const grpc::ByteBuffer& reply);
  void Reply(const google::protobuf::MessageLite& reply);
  void Fail(const absl::Status& status);
  // For a call of which nothing is known yet but its headers: also writes its line in the log.
  void FailEarly(const absl::Status& status);
  // Writes the call's line in the log if it is one that is written; `fill` adds what the method
  // knows.
  void Log(const absl::Status& status, absl::FunctionRef<void(CallRecord&)> fill) const;

  RpcContext& context() { return context_; }
  CallStream& stream() { return stream_; }
  absl::Time deadline() const { return deadline_; }
  absl::Duration admit_duration() const { return admit_; }
  absl::Duration receive_duration() const { return receive_; }
  std::string peer() const { return stream_.context().peer(); }
  // The caller's W3C trace context (metadata traceparent), empty if there is none or not a valid
  // one.
  std::string traceparent() const;
  absl::Time started() const { return started_; }

 private:
  void StartReading(uint64_t charged_bytes);
  // Bytes to count for this call: what the caller announced, else the most a message can have.
  absl::StatusOr<uint64_t> BytesToAdmit() const;
  void CountHandled(const absl::Status& status);

  RpcContext& context_;
  CallStream& stream_;
  Admission& admission_;
  const uint64_t message_limit_bytes_;
  const RpcMethod method_;
  const absl::Time started_;
  const absl::Time deadline_;

  // Each is written before the next step of the call is started and read after it, so none needs a
  // lock.
  Admission::Ticket ticket_ = 0;  // 0: never stood in line
  uint64_t charged_bytes_ = 0;    // counted against admission now
  Receiving::Ticket receiving_ = 0;
  absl::Duration admit_ = absl::ZeroDuration();
  absl::Duration receive_ = absl::ZeroDuration();
  absl::Time reading_since_;
  absl::Time replied_at_ = absl::InfiniteFuture();
  grpc::ByteBuffer message_;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_RPC_CALL_H_
