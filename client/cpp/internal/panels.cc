#include "client/cpp/internal/panels.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/internal/conversions.h"
#include "client/cpp/internal/error.h"
#include "gemm/v1/gemm.pb.h"
#include "gemmd/error_detail.h"

namespace gemm::client {
namespace {

// More than all of a message of rows but the rows.
constexpr uint64_t kDescriptionBytes = 4096;

// Less than any server's message limit; not worth a question.
constexpr int64_t kSurelyFits = 1 << 20;

// In addition to the time that a call may take.
constexpr absl::Duration kTemporaryLife = absl::Minutes(5);

absl::Status Cancelled() { return absl::CancelledError("the caller cancelled the call"); }

// Whether the server said to come back: it has no room for so many calls at once.
bool IsFull(const absl::Status& status) {
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  return absl::IsUnavailable(status) && detail && detail->retry_delay;
}

// Hands the panels of one Move out to the threads that work on it. Thread-safe.
class PanelLine {
 public:
  PanelLine(int64_t panels, int64_t threads) : panels_(panels), at_work_(threads) {}

  struct Turn {
    int64_t panel = 0;
    bool alone = false;  // no other thread was at work any more when it began
  };

  // The next one, or nothing: the thread is not at work any more.
  std::optional<Turn> Take();

  // Its call has failed, after its own retries. False: the thread is not at work any more. One that
  // found the server full leaves its panel to the others, and the last one tries it alone.
  bool GiveUp(const Turn& turn, const absl::Status& status);

  absl::Status status() const;

 private:
  const int64_t panels_;
  mutable absl::Mutex mutex_;
  int64_t begun_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<int64_t> left_ ABSL_GUARDED_BY(mutex_);  // of those begun, for another turn
  int64_t at_work_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

std::optional<PanelLine::Turn> PanelLine::Take() {
  absl::MutexLock lock(&mutex_);
  Turn turn{.alone = at_work_ == 1};
  if (status_.ok() && !left_.empty()) {
    turn.panel = left_.back();
    left_.pop_back();
    return turn;
  }
  if (status_.ok() && begun_ < panels_) {
    turn.panel = begun_++;
    return turn;
  }
  --at_work_;
  return std::nullopt;
}

bool PanelLine::GiveUp(const Turn& turn, const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (IsFull(status) && !turn.alone) {
    left_.push_back(turn.panel);
    if (at_work_ == 1) return true;
  } else {
    status_.Update(status);
  }
  --at_work_;
  return false;
}

absl::Status PanelLine::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

}  // namespace

Panels::Panels(const ClientOptions& options, const Connection& first, BlockingCalls& calls)
    : options_(options), first_(first), calls_(calls), idle_({&first}) {}

// A connection, for one panel. Two calls at a time on one would be read by their threads in turns,
// which wake each other.
class Panels::Borrowed {
 public:
  explicit Borrowed(Panels& panels) : panels_(panels) {
    absl::MutexLock lock(&panels_.mutex_);
    if (panels_.idle_.empty() &&
        std::cmp_less(1 + panels_.more_.size(), panels_.options_.channels)) {
      connection_ =
          panels_.more_.emplace_back(std::make_unique<Connection>(panels_.options_)).get();
      return;
    }
    const auto is_any_idle = [this]() ABSL_SHARED_LOCKS_REQUIRED(panels_.mutex_) {
      return !panels_.idle_.empty();
    };
    panels_.mutex_.Await(absl::Condition(&is_any_idle));
    connection_ = panels_.idle_.back();
    panels_.idle_.pop_back();
  }
  ~Borrowed() {
    absl::MutexLock lock(&panels_.mutex_);
    panels_.idle_.push_back(connection_);
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

  const Connection& operator*() const { return *connection_; }

 private:
  Panels& panels_;
  const Connection* connection_;
};

absl::StatusOr<ServerInfo> Panels::AskServer() {
  {
    absl::MutexLock lock(&mutex_);
    if (server_) return *server_;
  }
  const auto info = calls_.CallMessage<v1::GetServerInfoReply>(
      first_, "/gemm.v1.GemmService/GetServerInfo", v1::GetServerInfoRequest());
  if (!info.ok()) return info.status();
  absl::MutexLock lock(&mutex_);
  server_ = FromProto(*info);
  return *server_;
}

absl::StatusOr<absl::Duration> Panels::TemporaryLife() {
  const absl::StatusOr<ServerInfo> server = AskServer();
  if (!server.ok()) return server.status();
  return std::min(options_.timeout + kTemporaryLife, server->time_to_live_limit);
}

absl::StatusOr<int64_t> Panels::RowsOfPanel(const Rows& rows) {
  uint64_t limit_bytes = options_.message_limit_bytes;
  if (rows.count * rows.bytes > kSurelyFits) {
    const absl::StatusOr<ServerInfo> server = AskServer();
    if (!server.ok()) return server.status();
    // 0: it does not say.
    if (server->message_limit_bytes > 0) {
      limit_bytes = std::min(limit_bytes, server->message_limit_bytes);
    }
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

  const int64_t threads_at_work =
      std::max<int64_t>(std::min<int64_t>(options_.channels, panels), 1);
  PanelLine line(panels, threads_at_work);
  absl::Mutex telling;
  uint64_t done_bytes = 0;  // guarded by telling
  const auto send = [&](int64_t begin, int64_t count) {
    const Borrowed connection(*this);  // which may have taken a while
    return calls_.cancels() == cancels ? move(*connection, begin, count) : Cancelled();
  };
  const auto drain = [&] {
    while (const std::optional<PanelLine::Turn> turn = line.Take()) {
      const int64_t begin = *step * turn->panel;
      const int64_t count = std::min(*step, rows.count - begin);
      const absl::Status status = send(begin, count);
      if (!status.ok()) {
        if (line.GiveUp(*turn, status)) continue;
        return;
      }
      if (!on_transfer) continue;
      absl::MutexLock lock(&telling);
      done_bytes += static_cast<uint64_t>(count * rows.bytes);
      on_transfer(done_bytes, static_cast<uint64_t>(rows.count * rows.bytes));
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < threads_at_work; ++i) threads.emplace_back(drain);
  drain();
  for (std::thread& thread : threads) thread.join();
  absl::Status status = line.status();
  if (absl::IsResourceExhausted(status)) {  // perhaps another server
    absl::MutexLock lock(&mutex_);
    server_.reset();
  }
  return status;
}

}  // namespace gemm::client
