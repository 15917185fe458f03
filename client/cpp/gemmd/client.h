// The client of a gemmd server. Start here.
//
//   absl::StatusOr<gemm::Client> client = gemm::Client::Connect({.address = "gpu7:50051"});
//   std::vector<float> a(m * k), b(k * n), d(m * n);
//   absl::StatusOr<gemm::MultiplyReport> report = client->Multiply<float>(
//       {.m = m, .n = n, .k = k, .a = {.data = a}, .b = {.data = b}, .d = {.data = d}});

#ifndef GEMMD_CLIENT_CPP_GEMMD_CLIENT_H_
#define GEMMD_CLIENT_CPP_GEMMD_CLIENT_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gemmd/error_detail.h"
#include "gemmd/multiply.h"
#include "gemmd/pending_call.h"
#include "gemmd/server_info.h"

namespace gemm {

struct ClientOptions {
  // "host:port", "[ipv6]:port", "dns:///host:port" or "unix:/path/of/socket".
  std::string address = "127.0.0.1:50051";

  // For a whole call: every attempt, the waits between them and both transfers. Sent to the server,
  // which drops work whose time is up. absl::InfiniteDuration() waits for ever.
  absl::Duration timeout = absl::Seconds(60);

  // Further attempts after UNAVAILABLE (the server is full, draining or not there). The server's
  // own retry delay is honoured; otherwise waits grow from backoff_initial by a factor of 2 up to
  // backoff_limit, each shortened at random by up to half so that callers do not return together.
  // A wait that would outlast the timeout is not begun.
  int max_retries = 3;
  absl::Duration backoff_initial = absl::Milliseconds(100);
  absl::Duration backoff_limit = absl::Seconds(5);

  // A TCP connection whose peer takes no byte for so long is given up. Until then a call that is
  // over may wait for the socket to let go of its operands: with a peer that hangs or is cut off, a
  // call returns up to this and some seconds after its timeout.
  absl::Duration stall_timeout = absl::Seconds(20);

  // Requests and replies beyond it are refused here, before a byte is sent. At most 2^31 - 1,
  // protobuf's own limit; the server may have a lower one.
  uint64_t message_limit_bytes = INT32_MAX;

  // Obey http_proxy and its kin. Off by default, since proxies rarely carry HTTP/2 and must never
  // swallow calls within a host.
  bool use_http_proxy = false;
};

// What became of a MultiplyAsync. May own what it needs: a lambda that has moved the operands into
// itself keeps them for exactly as long as the call needs them.
using MultiplyCallback = absl::AnyInvocable<void(absl::StatusOr<MultiplyReport>)>;

using MultiplyBatchCallback = absl::AnyInvocable<void(absl::StatusOr<MultiplyBatchReport>)>;

// One connection to one server. Thread-safe: calls may run at the same time and share the
// connection; several Clients have a connection each. Movable; a moved-from Client may only be
// destroyed or assigned to. Destroyed only when no call blocks in it; the destructor waits for
// the others and their callbacks.
//
// Every method blocks but those named Async. Errors are such that GetErrorDetail can read them; a
// mistake in the arguments is INVALID_ARGUMENT without a call.
class Client {
 public:
  // Checks the options and begins to connect, without waiting: a server that is not there is found
  // by the first call.
  static absl::StatusOr<Client> Connect(const ClientOptions& options = {});

  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();

  // Multiplies; T is float or double. The operands are read where they are, without a copy, and
  // nothing reads them once this has returned, however it ended.
  template <typename T>
  absl::StatusOr<MultiplyReport> Multiply(const MultiplyArgs<T>& args) const;

  // The same without waiting. The memory behind a, b, c and d must stay until `callback` is called
  // and is not touched from then on, however the call ended; `args` itself is not needed.
  //
  // The callback is called exactly once, never within MultiplyAsync, errors in the arguments
  // included. A Client's callbacks run one after another on a thread of its own: a slow one holds
  // up the next. One may begin further calls; it must not throw, and not destroy its Client.
  template <typename T>
  PendingCall MultiplyAsync(const MultiplyArgs<T>& args, MultiplyCallback callback) const;

  // Many products, of one shape or of many, in one message: for those so small that a call of their
  // own would cost more than their arithmetic. Operands that are the same memory are sent once.
  //
  // Each product succeeds or fails alone, and one that failed is not tried again. The call fails
  // for what concerns all of it: mistakes in any of the arguments ("products[3].a.data"), a request
  // or a reply over the limit, a server that is not there. At most 4096 products, whose own
  // request_id is empty; a D may be the memory of any operand, but not of another D.
  absl::StatusOr<MultiplyBatchReport> MultiplyBatch(std::span<const AnyMultiplyArgs> products,
                                                    const std::string& request_id = {}) const;

  // To MultiplyBatch as MultiplyAsync is to Multiply; `products` itself is not needed afterwards.
  PendingCall MultiplyBatchAsync(std::span<const AnyMultiplyArgs> products,
                                 MultiplyBatchCallback callback,
                                 const std::string& request_id = {}) const;

  // Which kernel would run a product, and why each other would not.
  absl::StatusOr<Explanation> Explain(const ExplainArgs& args) const;

  absl::StatusOr<ServerInfo> GetServerInfo() const;

  // `service` is "" for the whole server, or "gemm.v1.GemmService".
  absl::StatusOr<HealthState> CheckHealth(const std::string& service = {}) const;

 private:
  class Impl;
  explicit Client(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

extern template absl::StatusOr<MultiplyReport> Client::Multiply(const MultiplyArgs<float>&) const;
extern template absl::StatusOr<MultiplyReport> Client::Multiply(const MultiplyArgs<double>&) const;
extern template PendingCall Client::MultiplyAsync(const MultiplyArgs<float>&,
                                                  MultiplyCallback) const;
extern template PendingCall Client::MultiplyAsync(const MultiplyArgs<double>&,
                                                  MultiplyCallback) const;

}  // namespace gemm

#endif  // GEMMD_CLIENT_CPP_GEMMD_CLIENT_H_
