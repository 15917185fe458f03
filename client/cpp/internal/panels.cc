#include "client/cpp/internal/panels.h"

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "client/cpp/internal/error.h"
#include "gemm/v1/gemm.pb.h"

namespace gemm::client {
namespace {

// More than all of a message of rows but the rows.
constexpr uint64_t kDescriptionBytes = 4096;

// Less than any server's message limit; not worth a question.
constexpr int64_t kSurelyFits = 1 << 20;

absl::Status Cancelled() { return absl::CancelledError("the caller cancelled the call"); }

}  // namespace

Panels::Panels(const ClientOptions& options, const Connection& first, BlockingCalls& calls)
    : options_(options), first_(first), calls_(calls) {}

const Connection& Panels::Channel(int index) {
  if (index == 0) return first_;
  absl::MutexLock lock(&mutex_);
  while (more_.size() < static_cast<size_t>(index)) {
    more_.push_back(std::make_unique<Connection>(options_));
  }
  return *more_[index - 1];
}

absl::StatusOr<int64_t> Panels::RowsOfPanel(const Rows& rows) {
  uint64_t limit_bytes = options_.message_limit_bytes;
  if (rows.count * rows.bytes > kSurelyFits) {
    if (server_limit_bytes_ == 0) {
      const auto info = calls_.CallMessage<v1::GetServerInfoReply>(
          first_, "/gemm.v1.GemmService/GetServerInfo", v1::GetServerInfoRequest());
      if (!info.ok()) return info.status();
      server_limit_bytes_ = info->message_limit_bytes();
    }
    if (server_limit_bytes_ > 0) limit_bytes = std::min(limit_bytes, server_limit_bytes_.load());
  }
  limit_bytes -= std::min(limit_bytes, kDescriptionBytes);
  if (static_cast<uint64_t>(rows.bytes) > limit_bytes) {
    return ErrorWithReason(absl::StatusCode::kResourceExhausted, "MESSAGE_TOO_LARGE",
                           absl::StrCat("one row has ", rows.bytes,
                                        " bytes, over what fits a message, ", limit_bytes));
  }
  const int64_t panel_bytes =
      std::min<int64_t>(rows.panel_bytes, static_cast<int64_t>(limit_bytes));
  return std::clamp<int64_t>(panel_bytes / std::max<int64_t>(rows.bytes, 1), 1,
                             std::max<int64_t>(rows.count, 1));
}

absl::Status Panels::Move(const Rows& rows, const OnTransfer& on_transfer, MovePanel move) {
  const absl::StatusOr<int64_t> step = RowsOfPanel(rows);
  if (!step.ok()) return step.status();
  const int64_t panels = (rows.count + *step - 1) / *step;
  const int64_t cancels = calls_.cancels();

  struct {
    absl::Mutex mutex;
    int64_t begun ABSL_GUARDED_BY(mutex) = 0;
    absl::Status status ABSL_GUARDED_BY(mutex);
    absl::Mutex telling;
    uint64_t done_bytes ABSL_GUARDED_BY(telling) = 0;
  } shared;
  const auto drain = [&](const Connection& connection) {
    for (;;) {
      int64_t begin = 0;
      {
        absl::MutexLock lock(&shared.mutex);
        if (shared.begun == panels || !shared.status.ok()) return;
        begin = *step * shared.begun++;
      }
      const int64_t count = std::min(*step, rows.count - begin);
      const absl::Status status =
          calls_.cancels() == cancels ? move(connection, begin, count) : Cancelled();
      if (!status.ok()) {
        absl::MutexLock lock(&shared.mutex);
        shared.status.Update(status);
        return;
      }
      if (!on_transfer) continue;
      absl::MutexLock lock(&shared.telling);
      shared.done_bytes += static_cast<uint64_t>(count * rows.bytes);
      on_transfer(shared.done_bytes, static_cast<uint64_t>(rows.count * rows.bytes));
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < std::min<int64_t>(options_.channels, panels); ++i) {
    threads.emplace_back([&drain, &channel = Channel(i)] { drain(channel); });
  }
  drain(first_);
  for (std::thread& thread : threads) thread.join();
  absl::MutexLock lock(&shared.mutex);
  if (absl::IsResourceExhausted(shared.status)) server_limit_bytes_ = 0;  // perhaps another server
  return shared.status;
}

}  // namespace gemm::client
