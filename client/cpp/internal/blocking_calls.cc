#include "client/cpp/internal/blocking_calls.h"

#include <vector>

#include "absl/strings/str_cat.h"

namespace gemm::client {

BlockingCalls::Membership::Membership(BlockingCalls& calls, UnaryCall& call)
    : calls_(calls), call_(call) {
  absl::MutexLock lock(&calls_.mutex_);
  calls_.under_way_.insert(&call_);
}

BlockingCalls::Membership::~Membership() {
  absl::MutexLock lock(&calls_.mutex_);
  calls_.under_way_.erase(&call_);
}

absl::StatusOr<std::string> BlockingCalls::CallText(const Connection& connection,
                                                    const std::string& method,
                                                    const std::string& request) {
  const grpc::Slice slice(request);
  const auto call =
      std::make_shared<UnaryCall>(connection, options_, method, grpc::ByteBuffer(&slice, 1));
  PolledQueue queue;
  const Membership membership(*this, *call);
  bool over = false;
  absl::StatusOr<grpc::ByteBuffer> bytes;
  call->PollOn(queue);
  call->Start([&](UnaryCall::Outcome outcome) {
    bytes = std::move(outcome.reply);
    over = true;
  });
  queue.RunUntil([&over] { return over; });
  if (!bytes.ok()) return bytes.status();
  std::vector<grpc::Slice> slices;
  if (!bytes->Dump(&slices).ok()) return CannotParse(method);
  std::string text;
  for (const grpc::Slice& part : slices) {
    text.append(reinterpret_cast<const char*>(part.begin()), part.size());
  }
  return text;
}

absl::Status BlockingCalls::CannotParse(const std::string& method) {
  return absl::InternalError(absl::StrCat("the server's reply to ", method, " cannot be parsed"));
}

void BlockingCalls::Cancel() {
  std::vector<std::shared_ptr<UnaryCall>> calls;
  ++cancels_;
  {
    absl::MutexLock lock(&mutex_);
    for (UnaryCall* call : under_way_) calls.push_back(call->shared_from_this());
  }
  for (const auto& call : calls) call->Cancel();  // unlocked: it may end calls on this thread
}

}  // namespace gemm::client
