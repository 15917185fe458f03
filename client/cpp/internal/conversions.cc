#include "client/cpp/internal/conversions.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "absl/time/time.h"

namespace gemm {

std::string_view NameOf(ElementType type) { return type == ElementType::kF32 ? "f32" : "f64"; }

std::string_view NameOf(Precision precision) {
  switch (precision) {
    case Precision::kStrict:
      return "strict";
  }
  return "unknown";
}

std::string_view NameOf(HealthState state) {
  switch (state) {
    case HealthState::kServing:
      return "SERVING";
    case HealthState::kNotServing:
      return "NOT_SERVING";
    case HealthState::kUnknown:
      break;
  }
  return "UNKNOWN";
}

namespace client {
namespace {

absl::Duration FromNs(uint64_t ns) {
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  return absl::Nanoseconds(static_cast<int64_t>(ns < kMax ? ns : kMax));
}

// At most 292 years, far beyond any limit.
uint64_t ToNs(absl::Duration duration) {
  return static_cast<uint64_t>(std::max<int64_t>(0, absl::ToInt64Nanoseconds(duration)));
}

std::optional<ElementType> FromProto(v1::DataType type) {
  if (type == v1::DATA_TYPE_F32) return ElementType::kF32;
  if (type == v1::DATA_TYPE_F64) return ElementType::kF64;
  return std::nullopt;
}

}  // namespace

v1::DataType ToProto(ElementType type) {
  return type == ElementType::kF32 ? v1::DATA_TYPE_F32 : v1::DATA_TYPE_F64;
}

v1::Precision ToProto(Precision precision) {
  switch (precision) {
    case Precision::kStrict:
      return v1::PRECISION_STRICT;
  }
  return v1::PRECISION_UNSPECIFIED;
}

v1::ExplainRequest ToProto(const ExplainArgs& args) {
  v1::ExplainRequest request;
  v1::Product& product = *request.mutable_product();
  product.set_m(args.m);
  product.set_n(args.n);
  product.set_k(args.k);
  product.set_data_type(ToProto(args.element_type));
  product.set_precision(ToProto(args.precision));
  product.set_batch_count(args.batch_count);
  if (args.transpose_a) product.mutable_a()->set_transposed(true);
  if (args.transpose_b) product.mutable_b()->set_transposed(true);
  return request;
}

v1::ResultMatrix ToProto(const ResultMatrix& result) {
  v1::ResultMatrix message;
  message.set_name(result.name);
  message.set_time_to_live_ns(ToNs(result.time_to_live));
  return message;
}

v1::CreateMatrixRequest ToProto(const CreateMatrixArgs& args) {
  v1::CreateMatrixRequest request;
  request.set_name(args.name);
  request.set_data_type(ToProto(args.element_type));
  request.set_rows(args.rows);
  request.set_columns(args.columns);
  request.set_time_to_live_ns(ToNs(args.time_to_live));
  return request;
}

MultiplyReport FromProto(const v1::ExecutionReport& report) {
  MultiplyReport result;
  result.kernel = report.kernel();
  result.device = report.device();
  result.device_index = report.device_index();
  result.batch_problems = report.batch_problems();
  result.admit = FromNs(report.admit_ns());
  result.receive = FromNs(report.receive_ns());
  result.decode = FromNs(report.decode_ns());
  result.queue = FromNs(report.queue_ns());
  result.copy_in = FromNs(report.copy_in_ns());
  result.compute = FromNs(report.compute_ns());
  result.copy_out = FromNs(report.copy_out_ns());
  return result;
}

Explanation FromProto(const v1::ExplainReply& reply) {
  Explanation result;
  result.chosen = reply.chosen();
  result.reason = reply.reason();
  result.device = reply.device();
  for (const v1::ExplainReply::Candidate& candidate : reply.candidates()) {
    result.candidates.push_back(
        {candidate.kernel(), candidate.why_not(), absl::Seconds(candidate.modelled_seconds())});
  }
  return result;
}

ServerInfo FromProto(const v1::GetServerInfoReply& reply) {
  ServerInfo result;
  result.version = reply.version();
  result.commit = reply.commit();
  for (const v1::GetServerInfoReply::Device& device : reply.devices()) {
    result.devices.push_back({.index = device.index(),
                              .name = device.name(),
                              .uuid = device.uuid(),
                              .kind = device.kind(),
                              .compute_capability = device.compute_capability(),
                              .multiprocessors = device.multiprocessors(),
                              .memory_bytes = device.memory_bytes(),
                              .healthy = device.healthy()});
  }
  result.kernels.assign(reply.kernels().begin(), reply.kernels().end());
  for (const int type : reply.data_types()) {
    const std::optional<ElementType> known = FromProto(static_cast<v1::DataType>(type));
    if (known) result.element_types.push_back(*known);
  }
  result.message_limit_bytes = reply.message_limit_bytes();
  result.uptime = FromNs(reply.uptime_ns());
  result.matrix_memory_bytes = reply.matrix_memory_bytes();
  result.matrix_memory_used_bytes = reply.matrix_memory_used_bytes();
  result.time_to_live_limit = FromNs(reply.time_to_live_limit_ns());
  return result;
}

MatrixInfo FromProto(const v1::Matrix& matrix) {
  return {.name = matrix.name(),
          .element_type = FromProto(matrix.data_type()),
          .rows = matrix.rows(),
          .columns = matrix.columns(),
          .rows_written = matrix.rows_written(),
          .sealed = matrix.sealed(),
          .time_to_live = FromNs(matrix.time_to_live_ns()),
          .expires_in = FromNs(matrix.expires_in_ns()),
          .memory_bytes = matrix.memory_bytes(),
          .device_index = matrix.device_index()};
}

}  // namespace client
}  // namespace gemm
