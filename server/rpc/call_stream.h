// A call as gRPC has it, from before it comes until everything about it is over.

#ifndef GEMMD_SERVER_RPC_CALL_STREAM_H_
#define GEMMD_SERVER_RPC_CALL_STREAM_H_

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "server/rpc/pollers.h"

namespace gemm {

class CallSource;

// A queue, and how many streams wait there for a call to come.
struct CallQueue {
  explicit CallQueue(grpc::ServerCompletionQueue* queue) : events(queue) {}

  grpc::ServerCompletionQueue* const events;
  std::atomic<int> prepared{0};
};

// Made when the headers of a call have come, before any of its message is read, and gone when all
// that was started has ended. One read and one write may be under way at a time, and one end.
class CallStream {
 public:
  // What answers the call. Called by the pollers, some at the same time.
  class Reactor {
   public:
    // First; until it has returned the call is not done.
    virtual void OnStart() = 0;
    virtual void OnReadDone(bool ok) = 0;
    virtual void OnWriteDone(bool /*ok*/) {}
    virtual void OnTurn() {}
    // The caller has gone, or its deadline has passed; the call still has to be finished.
    virtual void OnCancel() = 0;
    // Last. To delete itself.
    virtual void OnDone() = 0;

   protected:
    ~Reactor() = default;
  };

  CallStream(const CallStream&) = delete;
  CallStream& operator=(const CallStream&) = delete;

  const grpc::GenericServerContext& context() const { return context_; }

  void Read(grpc::ByteBuffer* message);
  void Write(const grpc::ByteBuffer& message);
  // From any thread: has OnTurn called by the thread of the call's queue, as soon as that is free.
  void AskForTurn();
  // Once, either of them. The reactor may be gone when they return.
  void WriteAndFinish(const grpc::ByteBuffer& message);
  void Finish(const grpc::Status& status);

 private:
  friend class CallSource;

  template <void (CallStream::*kStep)(bool)>
  class Step final : public Event {
   public:
    explicit Step(CallStream& stream) : stream_(stream) {}
    void Happen(bool ok) override { (stream_.*kStep)(ok); }
    void* tag() { return static_cast<Event*>(this); }

   private:
    CallStream& stream_;
  };

  CallStream(CallSource& source, CallQueue& queue);
  ~CallStream() = default;

  void OnCame(bool ok);
  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnTurn(bool ok);
  void OnFinished(bool ok);
  void OnOver(bool ok);
  void CancelOnce();  // the second of two that call it cancels
  void Unref();

  CallSource& source_;
  CallQueue& queue_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
  Step<&CallStream::OnCame> came_{*this};
  Step<&CallStream::OnRead> read_{*this};
  Step<&CallStream::OnWritten> written_{*this};
  Step<&CallStream::OnTurn> turn_{*this};
  Step<&CallStream::OnFinished> finished_{*this};
  Step<&CallStream::OnOver> over_{*this};

  grpc::Alarm turn_wanted_;
  Reactor* reactor_ = nullptr;
  std::atomic<int> refs_{3};  // OnCame, OnFinished, OnOver, and each read, write and turn
  std::atomic<int> ready_to_cancel_{0};
};

// Takes every call to a server. Thread-safe.
class CallSource {
 public:
  // Makes what answers a call.
  using Answer = absl::AnyInvocable<CallStream::Reactor*(CallStream&) const>;

  explicit CallSource(Answer answer) : answer_(std::move(answer)) {}

  grpc::AsyncGenericService& service() { return service_; }

  // When the server has started. The queues outlive the calls; gRPC gives a call to the queue of
  // its connection, as long as a stream is prepared there.
  void Open(const std::vector<grpc::ServerCompletionQueue*>& queues);
  // The server has been shut down: waits until no call is left.
  void WaitForNone();

 private:
  friend class CallStream;

  // So that `least` are ready for calls to come.
  void Prepare(CallQueue& queue, int least);
  void Came(CallQueue& queue, bool ok);
  void Gone();

  const Answer answer_;
  grpc::AsyncGenericService service_;
  std::deque<CallQueue> queues_;

  std::mutex mutex_;
  // State below is protected by mutex_.
  std::condition_variable none_;
  int streams_ = 0;
  bool closed_ = false;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_RPC_CALL_STREAM_H_
