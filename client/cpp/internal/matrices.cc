#include "client/cpp/internal/matrices.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/internal/address.h"
#include "client/cpp/internal/conversions.h"
#include "client/cpp/internal/error.h"
#include "client/cpp/internal/matrix_name.h"
#include "gemm/v1/gemm.pb.h"

namespace gemm::client {
namespace {

// Of one message. Over a link each costs its connection a round trip, and from here on larger ones
// are no faster; within a host they are copied while something of them is still in a cache.
constexpr int64_t kPanelBytes = 16 << 20;
constexpr int64_t kPanelBytesWithinHost = 4 << 20;

constexpr int kUploads = 3;  // of one matrix, to a server that restarts meanwhile

std::string Method(const char* name) { return absl::StrCat("/gemm.v1.GemmService/", name); }

absl::Status Exists(const std::string& name) {
  return ErrorWithReason(
      absl::StatusCode::kAlreadyExists, "MATRIX_EXISTS",
      absl::StrCat("name: there is a matrix '", name, "' on this server already"));
}

}  // namespace

Matrices::Matrices(const std::string& address, const Connection& first, BlockingCalls& calls,
                   Panels& panels)
    : panel_bytes_(IsWithinHost(address) ? kPanelBytesWithinHost : kPanelBytes),
      first_(first),
      calls_(calls),
      panels_(panels) {}

absl::StatusOr<MatrixInfo> Matrices::Create(CreateMatrixArgs args) {
  if (absl::Status status = CheckMatrixArgs(args); !status.ok()) return status;
  const auto reply =
      calls_.CallMessage<v1::CreateMatrixReply>(first_, Method("CreateMatrix"), ToProto(args));
  if (!reply.ok()) return reply.status();
  return FromProto(reply->matrix());
}

absl::StatusOr<MatrixInfo> Matrices::Info(const std::string& name) {
  if (absl::Status status = CheckMatrixName("name", name); !status.ok()) return status;
  v1::GetMatrixRequest request;
  request.set_name(name);
  const auto reply = calls_.CallMessage<v1::GetMatrixReply>(first_, Method("GetMatrix"), request);
  if (!reply.ok()) return reply.status();
  return FromProto(reply->matrix());
}

absl::StatusOr<std::vector<MatrixInfo>> Matrices::List() {
  std::vector<MatrixInfo> matrices;
  v1::ListMatricesRequest request;
  for (;;) {
    const auto page =
        calls_.CallMessage<v1::ListMatricesReply>(first_, Method("ListMatrices"), request);
    if (!page.ok()) return page.status();
    for (const v1::Matrix& matrix : page->matrices()) matrices.push_back(FromProto(matrix));
    if (page->next_page_token().empty()) return matrices;
    request.set_page_token(page->next_page_token());
  }
}

absl::Status Matrices::Delete(const std::string& name) {
  if (absl::Status status = CheckMatrixName("name", name); !status.ok()) return status;
  v1::DeleteMatrixRequest request;
  request.set_name(name);
  return calls_.CallMessage<v1::DeleteMatrixReply>(first_, Method("DeleteMatrix"), request)
      .status();
}

absl::StatusOr<MatrixInfo> Matrices::PutOnce(const CheckedPut& put, bool exist_ok,
                                             const OnTransfer& on_transfer) {
  absl::StatusOr<MatrixInfo> created = Create(put.matrix);
  if (!created.ok()) return created;
  const bool empty = put.source.dense_bytes() == 0;
  // One without elements is complete from the start, whoever made it.
  if (created->rows_written > 0 && !empty && !exist_ok) return Exists(put.matrix.name);
  if (created->sealed) {
    if (on_transfer) on_transfer(put.source.dense_bytes(), put.source.dense_bytes());
    return created;
  }
  if (empty) {
    return calls_.Call(first_, CheckedWrite{.rows = {.name = put.matrix.name},
                                            .source = {},
                                            .type = put.matrix.element_type});
  }
  absl::Mutex mutex;
  MatrixInfo last = *std::move(created);
  const absl::Status status =
      panels_.Move({put.matrix.rows, put.source.row_bytes, panel_bytes_}, on_transfer,
                   [&](const Connection& connection, int64_t begin, int64_t count) {
                     CheckedWrite write{.rows = {put.matrix.name, begin, count},
                                        .source = put.source,
                                        .type = put.matrix.element_type};
                     write.source.data += begin * put.source.row_stride_bytes;
                     write.source.rows = count;
                     absl::StatusOr<MatrixInfo> written = calls_.Call(connection, std::move(write));
                     if (!written.ok()) return written.status();
                     absl::MutexLock lock(&mutex);
                     if (written->rows_written >= last.rows_written) last = *std::move(written);
                     return absl::OkStatus();
                   });
  if (!status.ok()) return status;
  return last;
}

absl::StatusOr<MatrixInfo> Matrices::Put(const CheckedPut& put, bool exist_ok,
                                         const OnTransfer& on_transfer) {
  absl::StatusOr<MatrixInfo> matrix = PutOnce(put, exist_ok, on_transfer);
  // A server that has restarted in the middle of it knows nothing of the matrix.
  for (int upload = 1; upload < kUploads && absl::IsNotFound(matrix.status()); ++upload) {
    matrix = PutOnce(put, /*exist_ok=*/true, on_transfer);
  }
  // What nobody else can name is in the way until it expires.
  if (!matrix.ok() && put.name_is_new) Delete(put.matrix.name).IgnoreError();
  return matrix;
}

absl::StatusOr<MatrixInfo> Matrices::Get(const MatrixRows& rows, ElementSpan target,
                                         const OnTransfer& on_transfer) {
  absl::StatusOr<CheckedRead> whole = CheckRead(rows, target);
  if (!whole.ok()) return whole.status();
  absl::StatusOr<MatrixInfo> info = Info(rows.name);
  if (!info.ok()) return info;
  if (info->element_type != target.type) {
    return InvalidField(
        "data", absl::StrCat("is to be ", std::string(NameOf(target.type)), ", but \"", rows.name,
                             "\" is a matrix of another type"));
  }
  if (rows.row_begin > info->rows || rows.row_count > info->rows - rows.row_begin) {
    return InvalidField("row_count", absl::StrCat("with row_begin ends behind the ", info->rows,
                                                  " rows of \"", rows.name, "\""));
  }
  const int64_t count = rows.row_count != 0 ? rows.row_count : info->rows - rows.row_begin;
  const int64_t row_bytes = info->columns * BytesOf(target.type);
  if (target.size_bytes != count * row_bytes) {
    return InvalidField("data",
                        absl::StrCat("has ", target.size_bytes / BytesOf(target.type),
                                     " elements, but the rows have ", count * info->columns));
  }
  if (target.size_bytes == 0) return info;
  const absl::Status status = panels_.Move(
      {count, row_bytes, panel_bytes_}, on_transfer,
      [&](const Connection& connection, int64_t begin, int64_t panel_rows) {
        return calls_
            .Call(connection, CheckedRead{.rows = {rows.name, rows.row_begin + begin, panel_rows},
                                          .target = {.data = target.data + begin * row_bytes,
                                                     .rows = panel_rows,
                                                     .row_bytes = row_bytes,
                                                     .row_stride_bytes = row_bytes,
                                                     .matrices = 1},
                                          .type = target.type})
            .status();
      });
  if (!status.ok()) return status;
  return info;
}

}  // namespace gemm::client
