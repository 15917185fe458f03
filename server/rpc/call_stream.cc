#include "server/rpc/call_stream.h"

namespace gemm {
namespace {

// How many calls may come to a queue before anybody has looked: others go to other queues' streams
// or wait in a line of gRPC's. They are made ready again when a call is over, which nobody waits
// for, or else when few are left.
constexpr int kMostPrepared = 64;
constexpr int kFewPrepared = 16;

}  // namespace

CallStream::CallStream(CallSource& source, CallQueue& queue) : source_(source), queue_(queue) {
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

void CallStream::AskForTurn() {
  ++refs_;
  turn_wanted_.Set(queue_.events, gpr_time_0(GPR_CLOCK_MONOTONIC), turn_.tag());  // long since due
}

void CallStream::WriteAndFinish(const grpc::ByteBuffer& message) {
  stream_.WriteAndFinish(message, grpc::WriteOptions(), grpc::Status::OK, finished_.tag());
}

void CallStream::Finish(const grpc::Status& status) { stream_.Finish(status, finished_.tag()); }

void CallStream::OnCame(bool ok) {
  source_.Came(queue_, ok);
  if (!ok) {  // there will be no more
    CallSource& source = source_;
    delete this;
    return source.Gone();
  }
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

void CallStream::OnTurn(bool /*ok*/) {
  reactor_->OnTurn();
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
  reactor_->OnDone();
  CallSource& source = source_;
  CallQueue& queue = queue_;
  delete this;
  source.Prepare(queue, kMostPrepared);
  source.Gone();
}

void CallSource::Open(const std::vector<grpc::ServerCompletionQueue*>& queues) {
  for (grpc::ServerCompletionQueue* queue : queues) queues_.emplace_back(queue);
  for (CallQueue& queue : queues_) Prepare(queue, kMostPrepared);
}

void CallSource::Prepare(CallQueue& queue, int least) {
  while (queue.prepared < least) {
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return;
      ++streams_;
      ++queue.prepared;
    }
    auto* const stream = new CallStream(*this, queue);
    service_.RequestCall(&stream->context_, &stream->stream_, queue.events, queue.events,
                         stream->came_.tag());
  }
}

void CallSource::Came(CallQueue& queue, bool ok) {
  --queue.prepared;
  if (ok) return Prepare(queue, kFewPrepared);
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
