#include "client/cpp/internal/unary_call.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/internal/error.h"

namespace gemm::client {
namespace {

absl::Status Cancelled() { return absl::CancelledError("the caller cancelled the call"); }

// A call's last error, as its caller sees it.
absl::Status Final(const absl::Status& status, int attempts, absl::Duration elapsed) {
  if (attempts <= 1) return status;
  return Reword(
      status, absl::StrCat(std::string(status.message()), " [", attempts, " attempts in ",
                           absl::FormatDuration(absl::Trunc(elapsed, absl::Milliseconds(1))), "]"));
}

}  // namespace

UnaryCall::UnaryCall(const Connection& connection, const ClientOptions& options, std::string method,
                     const grpc::ByteBuffer& request)
    : connection_(connection),
      method_(std::move(method)),
      start_(absl::Now()),
      deadline_(start_ + options.timeout),
      request_(request),
      backoff_(options) {}

void UnaryCall::Start(Done done) {
  done_ = std::move(done);
  Attempt();
}

void UnaryCall::Cancel() {
  std::shared_ptr<grpc::ClientContext> context;
  {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    context = context_;
    if (alarm_ != nullptr) alarm_->Cancel();
  }
  if (context != nullptr) context->TryCancel();  // unlocked: it may end the attempt on this thread
}

void UnaryCall::Attempt() {
  const auto context = std::make_shared<grpc::ClientContext>();
  if (deadline_ != absl::InfiniteFuture()) context->set_deadline(absl::ToChronoTime(deadline_));
  bool cancelled = false;
  {
    absl::MutexLock lock(&mutex_);
    alarm_.reset();
    cancelled = cancelled_;
    if (!cancelled) context_ = context;
  }
  if (cancelled) return Finish(Cancelled());
  ++attempts_;
  reply_.Clear();
  connection_.Call(
      *context, method_, request_, reply_,
      [self = shared_from_this()](const absl::Status& status) { self->OnAttemptDone(status); },
      queue_);
}

void UnaryCall::OnAttemptDone(const absl::Status& status) {
  bool cancelled = false;
  {
    absl::MutexLock lock(&mutex_);
    context_.reset();  // nobody looks at it again but a Cancel that is under way
    cancelled = cancelled_;
  }
  if (cancelled && absl::IsCancelled(status)) return Finish(Cancelled());
  if (status.ok()) {
    grpc::ByteBuffer reply;
    reply.Swap(&reply_);  // a ByteBuffer's move is a copy, which would stay here
    return Finish(std::move(reply));
  }
  const std::optional<absl::Duration> wait = backoff_.NextWait(status, deadline_ - absl::Now());
  if (!wait) return Finish(Final(status, attempts_, absl::Now() - start_));
  if (!WaitForNextAttempt(*wait)) Finish(Cancelled());
}

bool UnaryCall::WaitForNextAttempt(absl::Duration wait) {
  absl::MutexLock lock(&mutex_);
  if (cancelled_) return false;
  // It never calls back on this thread, so it may be set under the lock.
  alarm_ = std::make_unique<grpc::Alarm>();
  const auto expiry = absl::ToChronoTime(absl::Now() + wait);
  if (queue_ != nullptr) {
    alarm_->Set(queue_->queue(), expiry,
                queue_->Tag([self = shared_from_this()] { self->Attempt(); }));
  } else {
    alarm_->Set(expiry, [self = shared_from_this()](bool /*expired*/) { self->Attempt(); });
  }
  return true;
}

void UnaryCall::Finish(absl::StatusOr<grpc::ByteBuffer> reply) {
  request_.Clear();
  Done done = std::move(done_);
  done({std::move(reply), attempts_});
}

}  // namespace gemm::client
