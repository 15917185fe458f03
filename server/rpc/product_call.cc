#include "server/rpc/product_call.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "server/engine/clock.h"
#include "server/reason.h"
#include "server/rpc/matrix_messages.h"
#include "server/telemetry/logging.h"

namespace gemm {
namespace {

// Up to here a reply is written by the thread that ran its job, if no other of the same batch waits
// for the socket meanwhile; else by that of its connection, which would go on with it anyway.
constexpr uint64_t kReplyInlineBytes = 128 << 10;

// "ipv4:10.0.0.7:41234" -> "ipv4:10.0.0.7": one machine is one caller, however many connections.
std::string HostOf(const std::string& peer) { return peer.substr(0, peer.rfind(':')); }

// Where the largest operand that stays on the server is: the others are brought to it.
std::optional<int> DeviceOf(const Job& job) {
  std::optional<int> device;
  size_t most_bytes = 0;
  for (const JobProduct& product : job.products) {
    for (const InputSpan* span : {&product.a, &product.b, &product.c}) {
      if (span->matrix == nullptr || span->size_bytes <= most_bytes) continue;
      most_bytes = span->size_bytes;
      device = span->matrix->device();
    }
  }
  return device;
}

// One core copies cold memory at 8 to 12 GB/s, so idle ones take parts of what is large.
void CopyPayloads(absl::Span<const Segment> message, absl::Span<const PayloadCopy> copies,
                  std::byte* to, Executor& executor) {
  constexpr uint64_t kLeastPartBytes = 4 << 20;
  constexpr uint64_t kMostParts = 4;
  PayloadReader payloads(message);
  for (const PayloadCopy& copy : copies) {
    const uint64_t size_bytes = copy.source.size_bytes;
    std::byte* const place = to + copy.offset_bytes;
    const uint64_t parts = std::min(kMostParts, size_bytes / kLeastPartBytes);
    if (parts < 2) {
      payloads.Copy(copy.source, place);
      continue;
    }
    executor.RunInParts(static_cast<int>(parts), [&](int part) {
      const uint64_t begin = size_bytes * static_cast<uint64_t>(part) / parts;
      const uint64_t end = size_bytes * (static_cast<uint64_t>(part) + 1) / parts;
      PayloadReader reader(message);
      reader.Copy({copy.source.offset_bytes + begin, end - begin}, place + begin);
    });
  }
}

}  // namespace

ProductCall::ProductCall(RpcContext& context, CallStream& stream, const ProductMethod& method)
    : Call(context, stream, method.method, context.product_admission,
           context.options.message_limit_bytes),
      method_(method),
      place_(context.products_in_flight, context.refusing) {}

void ProductCall::OnMessage() {
  if (message().Length() <= method_.decode_inline_bytes) {
    Decode();
  } else {
    context().executor.Post([this] { Decode(); });
  }
}

void ProductCall::Decode() {
  const absl::Time start = SteadyNow();
  absl::StatusOr<std::unique_ptr<Job>> job = MakeJob();
  decode_ = SteadyNow() - start;
  FreeMessage();
  if (!job.ok()) return OnJobDone(job.status(), nullptr);
  Metrics& metrics = context().metrics;
  metrics.ObservePhase(Phase::kAdmit, admit_duration());
  metrics.ObservePhase(Phase::kReceive, receive_duration());
  metrics.ObservePhase(Phase::kDecode, decode_);
  metrics.AddBytes(Direction::kIn, (*job)->input.size_bytes());
  context().engine.Submit(*std::move(job));
}

absl::StatusOr<std::unique_ptr<Job>> ProductCall::MakeJob() {
  if (cancel_->cancelled()) return ErrorWithReason(Reason::kCallerGone, "the caller has gone");
  const MessageSlices slices(message());
  const auto find_matrix = [this](const std::string& name) {
    return context().matrices.Use(kOwner, name);
  };
  const DecodeContext decode_context{.reply_limit_bytes = context().options.message_limit_bytes,
                                     .time_to_live_limit = context().options.matrix_ttl_limit,
                                     .find_matrix = find_matrix};
  absl::StatusOr<DecodedProducts> decoded =
      method_.decode(slices.segments(), decode_context, request_id_);
  if (!decoded.ok()) return decoded.status();

  auto job = std::make_unique<Job>();
  job->products = std::move(decoded->products);
  job->device = DeviceOf(*job);
  MakeResults(decoded->results, *job);
  absl::StatusOr<HostBuffer> input = context().engine.AllocateHost(decoded->input_bytes);
  if (!input.ok()) return input.status();
  absl::StatusOr<HostBuffer> output = context().engine.AllocateHost(decoded->output_bytes, *input);
  if (!output.ok()) return output.status();
  CopyPayloads(slices.segments(), decoded->copies, input->data(), context().executor);

  job->input = *std::move(input);
  job->output = *std::move(output);
  job->caller = HostOf(peer());
  job->deadline = deadline();
  job->cancel = cancel_;
  job->done = [this](absl::Status status, std::unique_ptr<Job> done) {
    // Replying writes to the socket, up to milliseconds: not on the thread of a lane.
    if (done->last_of_batch && done->output.size_bytes() <= kReplyInlineBytes) {
      return OnJobDone(std::move(status), std::move(done));
    }
    ended_ = {std::move(status), std::move(done)};
    stream().AskForTurn();
  };
  return job;
}

void ProductCall::MakeResults(const std::vector<DecodedResult>& results, Job& job) {
  for (const DecodedResult& result : results) {
    JobProduct& product = job.products[result.product];
    absl::StatusOr<MatrixWrite> write = context().matrices.BeginResult(
        kOwner, result.name, result.spec, result.time_to_live, job.device.value_or(-1));
    if (!write.ok()) {
      product.status = write.status();
      continue;
    }
    if (write->missing().empty()) {
      product.result_exists = true;
    } else {
      product.result = write->matrix();
      product.problem.d.ld = product.result->leading_dimension();
      product.problem.d.batch_stride = product.problem.m * product.problem.d.ld;
      job.device = product.result->device();
    }
    results_.emplace_back(result.product, *std::move(write));
  }
}

KeptResults ProductCall::KeepResults(Job& job) {
  KeptResults kept;
  for (auto& [index, write] : results_) {
    JobProduct& product = job.products[index];
    if (!product.status.ok()) continue;
    absl::StatusOr<MatrixState> state = write.Commit();
    if (state.ok()) {
      kept.emplace(index, *std::move(state));
    } else {
      product.status = state.status();
    }
  }
  results_.clear();
  return kept;
}

void ProductCall::OnJobDone(absl::Status status, std::unique_ptr<Job> job) {
  ReleaseMessage();
  KeptResults kept;
  if (status.ok()) kept = KeepResults(*job);
  absl::StatusOr<grpc::ByteBuffer> reply =
      status.ok() ? method_.make_reply(*job, {admit_duration(), receive_duration(), decode_}, kept)
                  : absl::StatusOr<grpc::ByteBuffer>(std::move(status));
  results_.clear();  // before the caller can ask again
  Log(reply.status(), job.get());
  if (!reply.ok()) return Fail(reply.status());
  CountBytes(*job);
  Reply(*reply);
}

void ProductCall::CountBytes(const Job& job) {
  uint64_t inline_out = 0;
  uint64_t resident_in = 0;
  uint64_t resident_out = 0;
  for (const JobProduct& product : job.products) {
    if (!product.status.ok() || product.result_exists) continue;
    inline_out += product.output_bytes;
    for (const InputSpan* span : {&product.a, &product.b, &product.c}) {
      if (span->matrix != nullptr) resident_in += span->size_bytes;
    }
    if (product.result != nullptr) resident_out += MemoryBytes(product.result->spec());
  }
  Metrics& metrics = context().metrics;
  metrics.AddBytes(Direction::kOut, inline_out);
  metrics.AddBytes(Direction::kIn, resident_in, Road::kResident);
  metrics.AddBytes(Direction::kOut, resident_out, Road::kResident);
}

void ProductCall::Log(const absl::Status& status, const Job* job) const {
  Call::Log(status, [this, job](CallRecord& record) { Describe(job, record); });
}

void ProductCall::Describe(const Job* job, CallRecord& record) const {
  record.request_id = request_id_;
  record.phases[static_cast<int>(Phase::kDecode)] = decode_;
  if (job == nullptr) return;
  record.phases[static_cast<int>(Phase::kQueue)] = job->queue;
  const auto at_least = [&record](Phase phase, absl::Duration duration) {
    absl::Duration& logged = record.phases[static_cast<int>(phase)];
    logged = std::max(logged, duration);
  };
  for (const JobProduct& product : job->products) {
    record.products_failed += !product.status.ok();
    at_least(Phase::kCopyIn, product.report.copy_in);
    at_least(Phase::kCompute, product.report.compute);
    at_least(Phase::kCopyOut, product.report.copy_out);
  }
  if (method_.method == RpcMethod::kMultiplyBatch) {
    record.products = static_cast<int64_t>(job->products.size());
  } else {
    const JobProduct& product = job->products.front();
    record.m = product.problem.m;
    record.n = product.problem.n;
    record.k = product.problem.k;
    record.batch_count = product.problem.batch_count;
    record.dtype = NameOf(product.problem.dtype);
    record.kernel = product.report.kernel;
  }
}

}  // namespace gemm
