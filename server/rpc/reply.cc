#include "server/rpc/reply.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gemm/v1/gemm.pb.h"
#include "google/protobuf/arena.h"
#include "proto/bulk_message.h"
#include "server/rpc/buffer_slice.h"
#include "server/rpc/error_status.h"
#include "server/rpc/matrix_messages.h"

namespace gemm {
namespace {

// A result up to this size is copied to where the headers are: that costs less than two more slices
// on their way through gRPC.
constexpr size_t kCopiedResultBytes = 4 << 10;

uint64_t ToNs(absl::Duration duration) {
  return static_cast<uint64_t>(std::max<int64_t>(0, absl::ToInt64Nanoseconds(duration)));
}

void Fill(const Job& job, const ExecutionReport& ran, const CallTimes& times,
          v1::ExecutionReport& report) {
  report.set_kernel(ran.kernel.data(), ran.kernel.size());
  report.set_device(ran.device.data(), ran.device.size());
  report.set_device_index(ran.device_index);
  report.set_batch_problems(job.batch_problems);
  report.set_admit_ns(ToNs(times.admit));
  report.set_receive_ns(ToNs(times.receive));
  report.set_decode_ns(ToNs(times.decode));
  report.set_queue_ns(ToNs(job.queue));
  report.set_copy_in_ns(ToNs(ran.copy_in));
  report.set_compute_ns(ToNs(ran.compute));
  report.set_copy_out_ns(ToNs(ran.copy_out));
}

// The description, then one payload for each product: its result, empty if it failed.
grpc::ByteBuffer Assemble(std::string description, Job& job) {
  const std::byte* const results = job.output.data();
  const grpc::Slice output = SliceOver(std::move(job.output));
  std::vector<grpc::Slice> slices;
  std::string text = std::move(description);  // what has not become a slice yet
  for (const JobProduct& product : job.products) {
    const size_t bytes = product.status.ok() ? product.output_bytes : 0;
    const size_t offset = product.output_offset_bytes;
    text += PayloadHeader(bytes);
    if (bytes > kCopiedResultBytes) {
      slices.emplace_back(text);
      slices.push_back(output.sub(offset, offset + bytes));
      text.clear();
    } else if (bytes > 0) {
      text.append(reinterpret_cast<const char*>(results) + offset, bytes);
    }
  }
  if (!text.empty()) slices.emplace_back(text);
  return grpc::ByteBuffer(slices.data(), slices.size());
}

}  // namespace

absl::StatusOr<grpc::ByteBuffer> MakeMultiplyReply(Job& job, const CallTimes& times,
                                                   const KeptResults& kept) {
  const JobProduct& product = job.products.front();
  if (!product.status.ok()) return product.status;
  v1::MultiplyReply reply;
  Fill(job, product.report, times, *reply.mutable_report());
  for (const auto& [index, state] : kept) *reply.mutable_result() = MessageOf(state);
  return Assemble(reply.SerializeAsString(), job);
}

absl::StatusOr<grpc::ByteBuffer> MakeMultiplyBatchReply(Job& job, const CallTimes& times,
                                                        const KeptResults& kept) {
  google::protobuf::Arena arena;
  auto& reply = *google::protobuf::Arena::CreateMessage<v1::MultiplyBatchReply>(&arena);
  reply.mutable_results()->Reserve(static_cast<int>(job.products.size()));
  for (const JobProduct& product : job.products) {
    v1::MultiplyBatchReply::Result& result = *reply.add_results();
    if (product.status.ok()) {
      Fill(job, product.report, times, *result.mutable_report());
    } else {
      *result.mutable_error() = ToStatusDetails(product.status);
    }
  }
  for (const auto& [index, state] : kept) {
    *reply.mutable_results(static_cast<int>(index))->mutable_result() = MessageOf(state);
  }
  return Assemble(reply.SerializeAsString(), job);
}

}  // namespace gemm
