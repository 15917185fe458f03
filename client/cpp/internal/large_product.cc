#include "client/cpp/internal/large_product.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "client/cpp/internal/matrix_name.h"
#include "client/cpp/internal/multiply_message.h"
#include "gemmd/error_detail.h"

namespace gemm::client {
namespace {

// Of a message each way. The less, the sooner the device begins, and the more of a panel is still
// in a cache when it is copied; the more, the better the device is used. A server decodes it on the
// thread that has read it.
constexpr int64_t kPanelBytes = 4 << 20;

constexpr int kUploads = 3;  // of one B, to a server that restarts meanwhile

bool OnServer(const CheckedProduct::Input& input) { return !input.matrix.name.empty(); }

// D is written while operands are still read.
bool Overlap(const MatrixBytes& x, const MatrixBytes& y) {
  const std::less<> before;
  return before(x.data, y.data + y.extent_bytes()) && before(y.data, x.data + x.extent_bytes());
}

// `count` rows from `begin` on, of what has the rows of D.
void TakeRows(CheckedProduct::Input& input, int64_t begin, int64_t count) {
  if (OnServer(input)) {
    input.matrix.row_begin += begin;
    input.matrix.row_count = count;
  } else {
    input.data += begin * input.row_stride_bytes;
    input.rows = count;
  }
}

CheckedProduct PanelOf(const CheckedProduct& product, int64_t begin, int64_t count) {
  CheckedProduct panel = product;
  panel.m = count;
  TakeRows(panel.a, begin, count);
  if (panel.has_c) TakeRows(panel.c, begin, count);
  panel.d.data += begin * panel.d.row_stride_bytes;
  panel.d.rows = count;
  return panel;
}

// Of one row of D, on the way that has more.
int64_t RowBytes(const CheckedProduct& product) {
  const uint64_t sent_bytes = PayloadBytes(product.a) + PayloadBytes(product.c);
  return std::max<int64_t>(static_cast<int64_t>(sent_bytes) / product.m, product.d.row_bytes);
}

void Add(const MultiplyReport& panel, MultiplyReport& whole) {
  whole.batch_problems = std::max(whole.batch_problems, panel.batch_problems);
  whole.admit += panel.admit;
  whole.receive += panel.receive;
  whole.decode += panel.decode;
  whole.queue += panel.queue;
  whole.copy_in += panel.copy_in;
  whole.compute += panel.compute;
  whole.copy_out += panel.copy_out;
  whole.attempts = std::max(whole.attempts, panel.attempts);
  whole.request_bytes += panel.request_bytes;
  whole.reply_bytes += panel.reply_bytes;
}

}  // namespace

uint64_t MessageBytes(const CheckedProduct& product) {
  return std::max(PayloadBytes(product.a) + PayloadBytes(product.b) + PayloadBytes(product.c),
                  static_cast<uint64_t>(product.d.dense_bytes()));
}

bool CanGoByPanels(const CheckedProduct& product) {
  const MatrixBytes& d = product.d;
  if (product.batch_count != 1 || product.result || d.dense_bytes() == 0 || product.k == 0)
    return false;
  return !product.a.transposed && !Overlap(product.a, d) && !Overlap(product.b, d) &&
         !Overlap(product.c, d);
}

bool GoesByPanels(const CheckedProduct& product) {
  return MessageBytes(product) > kOneMessageBytes && CanGoByPanels(product);
}

bool IsTooLarge(const absl::Status& status) {
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  return detail && (detail->reason == "MESSAGE_TOO_LARGE" || detail->reason == "RESULT_TOO_LARGE");
}

absl::StatusOr<MultiplyReport> LargeProducts::Multiply(const CheckedProduct& product) {
  const absl::Time start = absl::Now();
  absl::StatusOr<MultiplyReport> report;
  if (OnServer(product.b)) {
    report = ByPanels(product);
  } else {
    const bool all_here = !OnServer(product.a) && !OnServer(product.c);
    report = PutB(product);
    // A server that has restarted in the middle of it knows nothing of B.
    for (int upload = 1; upload < kUploads && all_here && absl::IsNotFound(report.status());
         ++upload) {
      report = PutB(product);
    }
  }
  if (report.ok()) report->wall = absl::Now() - start;
  return report;
}

absl::StatusOr<MultiplyReport> LargeProducts::PutB(CheckedProduct product) {
  const absl::StatusOr<absl::Duration> life = panels_.TemporaryLife();
  if (!life.ok()) return life.status();
  const CheckedPut put{.matrix = {.name = NewMatrixName(),
                                  .element_type = product.element_type,
                                  .rows = product.b.rows,
                                  .columns = product.b.row_bytes / product.element_bytes,
                                  .time_to_live = *life},
                       .source = product.b,
                       .name_is_new = true};
  const absl::Status there = matrices_.Put(put, /*exist_ok=*/false, {}).status();
  if (absl::IsResourceExhausted(there) || absl::IsUnavailable(there)) {
    // No room for it at present; what fits a message needs none.
    absl::StatusOr<MultiplyReport> report = calls_.Call(first_, std::move(product));
    if (absl::IsResourceExhausted(report.status())) return there;
    return report;
  }
  if (!there.ok()) return there;
  const bool transposed = product.b.transposed;
  product.b = {};
  product.b.matrix.name = put.matrix.name;
  product.b.transposed = transposed;
  absl::StatusOr<MultiplyReport> report = ByPanels(product);
  matrices_.Delete(put.matrix.name).IgnoreError();  // what is left expires
  return report;
}

absl::StatusOr<MultiplyReport> LargeProducts::ByPanels(const CheckedProduct& product) {
  absl::Mutex mutex;
  MultiplyReport whole;
  const absl::Status status =
      panels_.Move({.count = product.m, .bytes = RowBytes(product), .panel_bytes = kPanelBytes}, {},
                   [&](const Connection& connection, int64_t begin, int64_t count) {
                     const absl::StatusOr<MultiplyReport> report =
                         calls_.Call(connection, PanelOf(product, begin, count));
                     if (!report.ok()) return report.status();
                     absl::MutexLock lock(&mutex);
                     if (begin == 0) {
                       whole.kernel = report->kernel;
                       whole.device = report->device;
                       whole.device_index = report->device_index;
                     }
                     Add(*report, whole);
                     return absl::OkStatus();
                   });
  if (!status.ok()) return status;
  return whole;
}

}  // namespace gemm::client
