#include "server/rpc/multiply_call.h"

#include <string>
#include <utility>

#include "gemm/v1/gemm.pb.h"
#include "server/reason.h"
#include "server/rpc/decode.h"
#include "server/telemetry/logging.h"

namespace gemm {
namespace {

// Up to here decoding costs less than handing the call to another thread.
constexpr size_t kDecodeInlineBytes = 32 << 10;

uint64_t ToNs(absl::Duration duration) {
  return static_cast<uint64_t>(std::max<int64_t>(0, absl::ToInt64Nanoseconds(duration)));
}

// "ipv4:10.0.0.7:41234" -> "ipv4:10.0.0.7": one machine is one caller, however many connections.
std::string HostOf(const std::string& peer) { return peer.substr(0, peer.rfind(':')); }

// The reply's slice over the result: gRPC sends from page-locked memory itself and gives the buffer
// back to the pool when it lets go of it.
grpc::Slice SliceOver(HostBuffer buffer) {
  auto* held = new HostBuffer(std::move(buffer));
  return grpc::Slice(
      held->data(), held->size_bytes(), [](void* owner) { delete static_cast<HostBuffer*>(owner); },
      held);
}

}  // namespace

MultiplyCall::MultiplyCall(RpcContext& context, grpc::GenericCallbackServerContext& grpc_context)
    : Call(context, grpc_context, RpcMethod::kMultiply, context.product_admission,
           context.options.message_limit_bytes) {
  // First counted, then asked, so that a drain either sees this call or has it refused.
  context.products_in_flight.Add();
  refused_ = context.refusing;
  if (refused_) {
    context.products_in_flight.Remove();
    Fail(ErrorWithReason(Reason::kDraining, "the server is shutting down"));
  } else {
    Open();
  }
}

MultiplyCall::~MultiplyCall() {
  if (!refused_) context().products_in_flight.Remove();
}

void MultiplyCall::OnMessage() {
  if (message().Length() <= kDecodeInlineBytes) {
    Decode();
  } else {
    context().executor.Post([this] { Decode(); });
  }
}

void MultiplyCall::Decode() {
  const absl::Time start = absl::Now();
  absl::StatusOr<std::unique_ptr<Job>> job = MakeJob();
  decode_ = absl::Now() - start;
  FreeMessage();
  if (!job.ok()) return OnProduct(job.status(), nullptr);
  Metrics& metrics = context().metrics;
  metrics.ObservePhase(Phase::kAdmit, admit_duration());
  metrics.ObservePhase(Phase::kReceive, receive_duration());
  metrics.ObservePhase(Phase::kDecode, decode_);
  metrics.AddBytes(Direction::kIn, (*job)->input.size_bytes());
  context().engine.Submit(*std::move(job));
}

absl::StatusOr<std::unique_ptr<Job>> MultiplyCall::MakeJob() {
  if (cancel_->cancelled()) return ErrorWithReason(Reason::kCallerGone, "the caller has gone");
  const MessageSlices slices(message());
  absl::StatusOr<DecodedMultiply> decoded =
      DecodeMultiply(slices.segments(), context().options.message_limit_bytes, request_id_);
  if (!decoded.ok()) return decoded.status();

  auto job = std::make_unique<Job>();
  absl::StatusOr<HostBuffer> input = context().engine.AllocateHost(decoded->input_bytes);
  if (!input.ok()) return input.status();
  absl::StatusOr<HostBuffer> output = context().engine.AllocateHost(decoded->output_bytes, *input);
  if (!output.ok()) return output.status();
  for (const PayloadCopy& copy : decoded->copies) {
    CopyPayload(slices.segments(), copy.source, input->data() + copy.offset_bytes);
  }

  JobProduct& product = job->products.emplace_back();
  product.problem = decoded->problem;
  product.a = decoded->a;
  product.b = decoded->b;
  product.c = decoded->c;
  product.output_bytes = decoded->output_bytes;
  job->input = *std::move(input);
  job->output = *std::move(output);
  job->caller = HostOf(peer());
  job->deadline = deadline();
  job->cancel = cancel_;
  job->done = [this](absl::Status status, std::unique_ptr<Job> done) {
    // Replying writes to the socket, up to milliseconds: not on the thread that runs the device.
    context().executor.Post([this, status = std::move(status), done = std::move(done)]() mutable {
      status.Update(done->products.front().status);
      OnProduct(status, std::move(done));
    });
  };
  return job;
}

void MultiplyCall::OnProduct(const absl::Status& status, std::unique_ptr<Job> job) {
  ReleaseMessage();
  Log(status, job.get());
  if (!status.ok()) return Fail(status);
  context().metrics.AddBytes(Direction::kOut, job->output.size_bytes());
  Reply(MakeReply(*job));
}

grpc::ByteBuffer MultiplyCall::MakeReply(Job& job) {
  const ExecutionReport& ran = job.products.front().report;
  v1::MultiplyReply reply;
  v1::ExecutionReport& report = *reply.mutable_report();
  report.set_kernel(ran.kernel.data(), ran.kernel.size());
  report.set_device(ran.device.data(), ran.device.size());
  report.set_device_index(ran.device_index);
  report.set_batch_problems(job.batch_problems);
  report.set_admit_ns(ToNs(admit_duration()));
  report.set_receive_ns(ToNs(receive_duration()));
  report.set_decode_ns(ToNs(decode_));
  report.set_queue_ns(ToNs(job.queue));
  report.set_copy_in_ns(ToNs(ran.copy_in));
  report.set_compute_ns(ToNs(ran.compute));
  report.set_copy_out_ns(ToNs(ran.copy_out));

  const size_t output_bytes = job.output.size_bytes();
  const grpc::Slice description(reply.SerializeAsString() + PayloadHeader(output_bytes));
  if (output_bytes == 0) return grpc::ByteBuffer(&description, 1);
  const grpc::Slice slices[] = {description, SliceOver(std::move(job.output))};
  return grpc::ByteBuffer(slices, 2);
}

void MultiplyCall::Log(const absl::Status& status, const Job* job) const {
  const absl::Duration total = absl::Now() - started();
  if (!CallIsLogged(static_cast<int>(status.code()), total)) return;
  CallRecord record;
  const std::string caller = peer();
  const std::string trace = traceparent();
  record.method = "Multiply";
  record.peer = caller;
  record.request_id = request_id_;
  record.traceparent = trace;
  record.phases[static_cast<int>(Phase::kAdmit)] = admit_duration();
  record.phases[static_cast<int>(Phase::kReceive)] = receive_duration();
  record.phases[static_cast<int>(Phase::kDecode)] = decode_;
  if (job != nullptr) {
    const Problem& problem = job->products.front().problem;
    const ExecutionReport& report = job->products.front().report;
    record.m = problem.m;
    record.n = problem.n;
    record.k = problem.k;
    record.batch_count = problem.batch_count;
    record.dtype = NameOf(problem.dtype);
    record.kernel = report.kernel;
    record.phases[static_cast<int>(Phase::kQueue)] = job->queue;
    record.phases[static_cast<int>(Phase::kCopyIn)] = report.copy_in;
    record.phases[static_cast<int>(Phase::kCompute)] = report.compute;
    record.phases[static_cast<int>(Phase::kCopyOut)] = report.copy_out;
  }
  record.total = total;
  record.grpc_code = static_cast<int>(status.code());
  record.message = std::string_view(status.message().data(), status.message().size());
  LogCall(record);
}

}  // namespace gemm
