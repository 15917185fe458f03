#include "server/rpc/call_stream.h"

namespace gemm {
namespace {

// How many calls may come before anybody has looked: gRPC keeps more in a line of its own. They are
// made ready again when a call is over, which nobody waits for, or else when few are left.
constexpr int kMostPrepared = 64;
constexpr int kFewPrepared = 16;

}  // namespace

CallStream::CallStream(CallSource& source) : source_(source) {
  context_.AsyncNotifyWhenDone(over_.tag());
}

void CallStream::Read(grpc::ByteBuffer* message) {
  ++refs_;
  stream_.Read(message, read_.tag());
}

void CallStream::Write(const grpc::ByteBuffer& message) {
  ++refs_;
  stream_.Write(message, written_.tag());
}

void CallStream::WriteAndFinish(const grpc::ByteBuffer& message) {
  stream_.WriteAndFinish(message, grpc::WriteOptions(), grpc::Status::OK, finished_.tag());
}

void CallStream::Finish(const grpc::Status& status) { stream_.Finish(status, finished_.tag()); }

void CallStream::Rest() {
  if (at_work_.exchange(false)) source_.pollers_->CallWent();
}

void CallStream::OnCame(bool ok) {
  source_.Came(ok);
  if (!ok) {  // there will be no more
    CallSource& source = source_;
    delete this;
    return source.Gone();
  }
  source_.pollers_->CallCame(context_.peer());
  reactor_ = source_.answer_(*this);
  reactor_->OnStart();
  CancelOnce();
  Unref();
}

void CallStream::OnRead(bool ok) {
  reactor_->OnReadDone(ok);
  Unref();
}

void CallStream::OnWritten(bool ok) {
  reactor_->OnWriteDone(ok);
  Unref();
}

void CallStream::OnFinished(bool /*ok*/) { Unref(); }

void CallStream::OnOver(bool /*ok*/) {
  if (context_.IsCancelled()) CancelOnce();
  Unref();
}

void CallStream::CancelOnce() {
  if (++ready_to_cancel_ == 2) reactor_->OnCancel();
}

void CallStream::Unref() {
  if (--refs_ > 0) return;
  Rest();
  reactor_->OnDone();
  CallSource& source = source_;
  delete this;
  source.Prepare(kMostPrepared);
  source.Gone();
}

void CallSource::Open(grpc::ServerCompletionQueue& queue, Pollers& pollers) {
  queue_ = &queue;
  pollers_ = &pollers;
  Prepare(kMostPrepared);
}

void CallSource::Prepare(int least) {
  while (prepared_ < least) {
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return;
      ++streams_;
      ++prepared_;
    }
    auto* const stream = new CallStream(*this);
    service_.RequestCall(&stream->context_, &stream->stream_, queue_, queue_, stream->came_.tag());
  }
}

void CallSource::Came(bool ok) {
  --prepared_;
  if (ok) return Prepare(kFewPrepared);
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

void CallSource::Gone() {
  const std::lock_guard lock(mutex_);
  if (--streams_ == 0) none_.notify_all();
}

void CallSource::WaitForNone() {
  std::unique_lock lock(mutex_);
  closed_ = true;
  none_.wait(lock, [this] { return streams_ == 0; });
}

}  // namespace gemm
