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
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gemmd/error_detail.h"
#include "gemmd/matrix.h"
#include "gemmd/multiply.h"
#include "gemmd/pending_call.h"
#include "gemmd/server_info.h"

namespace gemm {

struct ClientOptions {
  // "host:port", "[ipv6]:port", "dns:///host:port" or "unix:/path/of/socket".
  std::string address = "127.0.0.1:50051";

  // For a whole call: every attempt, the waits between them and both transfers. Sent to the server,
  // which drops work whose time is up. absl::InfiniteDuration() waits for ever. Put, Get and a
  // large Multiply take many calls: it is for each.
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
  // call returns up to this and some seconds after its timeout. There is no such limit over a UNIX
  // socket: with a server that hangs, a call returns when that goes on or ends.
  absl::Duration stall_timeout = absl::Seconds(20);

  // Requests and replies beyond it are refused here, before a byte is sent. At most 2^31 - 1,
  // protobuf's own limit; the server may have a lower one.
  uint64_t message_limit_bytes = INT32_MAX;

  // Connections over which the panels of a Put, Get or large Multiply go side by side, one on each
  // at a time, whoever's it is; fewer where the server has no room for so many. They are made when
  // they are first needed.
  int channels = 8;

  // Obey http_proxy and its kin. Off by default, since proxies rarely carry HTTP/2 and must never
  // swallow calls within a host.
  bool use_http_proxy = false;
};

// What became of a MultiplyAsync. May own what it needs: a lambda that has moved the operands into
// itself keeps them for exactly as long as the call needs them.
using MultiplyCallback = absl::AnyInvocable<void(absl::StatusOr<MultiplyReport>)>;

using MultiplyBatchCallback = absl::AnyInvocable<void(absl::StatusOr<MultiplyBatchReport>)>;

// What became of a WriteRowsAsync or ReadRowsAsync.
using MatrixCallback = absl::AnyInvocable<void(absl::StatusOr<MatrixInfo>)>;

// One connection to one server, and some more for what goes in panels. Thread-safe: calls may run
// at the same time and share the connection; several Clients have a connection each. Movable; a
// moved-from Client may only be destroyed or assigned to. Destroyed only when no call blocks in it;
// the destructor waits for the others and their callbacks.
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
  //
  // A product with more than kOneMessageBytes to send or to receive, or with more than the server
  // takes in a message, goes in panels: rows of D from rows of A and of C, as many calls over
  // several connections at once, after B, which is put on the server and deleted again if it is not
  // there. So it may be of any size. Its report has sums over all panels, which overlap; after a
  // failure some rows of D may be written. In one message, and refused if that is too large, go
  // those of which rows cannot be had so (a batch, a transposed A), those whose result stays on the
  // server, those whose D lies in the memory of an operand, and those for whose B the server has no
  // room at present. Of a process that dies meanwhile B stays on the server until nothing has used
  // it for the timeout and five minutes.
  template <typename T>
  absl::StatusOr<MultiplyReport> Multiply(const MultiplyArgs<T>& args) const;

  // The same without waiting, and always in one message. The memory behind a, b, c and d must stay
  // until `callback` is called and is not touched from then on, however the call ended; `args`
  // itself is not needed.
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

  // Puts a matrix on the server, to be an operand as often as wanted. It goes in panels of rows of
  // some MiB over several connections at once, whatever its size, and sealed it is there. Rows
  // leave from where they are, without a copy; nothing reads them once this has returned.
  //
  // Panels are retried like any call; when the server restarts in the middle of it, all is sent
  // again. After a failure what has arrived stays until it expires, and a Put with exist_ok
  // completes it, unless the name was made up here: then it is deleted.
  //
  // Errors: MATRIX_EXISTS, the name is in use; QUOTA_EXCEEDED, your share of the server's memory is
  // used up; MEMORY_TOO_SMALL, no device can hold it; MEMORY_FULL, not now; MESSAGE_TOO_LARGE, one
  // row does not fit a message.
  template <typename T>
  absl::StatusOr<MatrixInfo> Put(const PutArgs<T>& args) const;

  // Reads a matrix, or rows of one, into `data`, which has exactly their size: in panels as Put,
  // with one copy. After a failure some of the rows may be there.
  //
  // Errors: MATRIX_NOT_FOUND, it has expired, was deleted, or the server has restarted;
  // MATRIX_NOT_SEALED, rows are missing.
  template <typename T>
  absl::StatusOr<MatrixInfo> Get(const MatrixRows& rows, std::span<T> data,
                                 const OnTransfer& on_transfer = {}) const;

  // What the server says of a matrix. MATRIX_NOT_FOUND when it is not there.
  absl::StatusOr<MatrixInfo> GetMatrix(const std::string& name) const;

  // Yours, ordered by name.
  absl::StatusOr<std::vector<MatrixInfo>> ListMatrices() const;

  // Frees the name at once; calls that use the matrix finish with it. MATRIX_NOT_FOUND when it was
  // gone, which may also be because an attempt whose answer was lost has deleted it.
  absl::Status DeleteMatrix(const std::string& name) const;

  // The parts of Put, for matrices that are nowhere as a whole. Makes a matrix without rows; also
  // OK when one of this name, type and shape is there already, with the state that it is in.
  absl::StatusOr<MatrixInfo> CreateMatrix(const CreateMatrixArgs& args) const;

  // Writes rows, in any order and any number of calls at once. `data` holds them dense; all of it
  // fits a message. Rows that are there already stay as they are. T must be the matrix's type: the
  // server sees bytes, so that another type of the same size is found, as INVALID_ARGUMENT, only
  // after it was written.
  template <typename T>
  absl::StatusOr<MatrixInfo> WriteRows(const MatrixRows& rows, std::span<const T> data) const;

  // Reads rows of a sealed matrix into `data`, which has exactly their size.
  template <typename T>
  absl::StatusOr<MatrixInfo> ReadRows(const MatrixRows& rows, std::span<T> data) const;

  // To WriteRows and ReadRows as MultiplyAsync is to Multiply: `data` must stay until `callback` is
  // called.
  template <typename T>
  PendingCall WriteRowsAsync(const MatrixRows& rows, std::span<const T> data,
                             MatrixCallback callback) const;
  template <typename T>
  PendingCall ReadRowsAsync(const MatrixRows& rows, std::span<T> data,
                            MatrixCallback callback) const;

  // Ends the calls that block, on whatever threads, early and with CANCELLED, unless they were over
  // before. Later calls are not concerned.
  void CancelCalls() const;

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
extern template absl::StatusOr<MatrixInfo> Client::Put(const PutArgs<float>&) const;
extern template absl::StatusOr<MatrixInfo> Client::Put(const PutArgs<double>&) const;
extern template absl::StatusOr<MatrixInfo> Client::Get(const MatrixRows&, std::span<float>,
                                                       const OnTransfer&) const;
extern template absl::StatusOr<MatrixInfo> Client::Get(const MatrixRows&, std::span<double>,
                                                       const OnTransfer&) const;
extern template absl::StatusOr<MatrixInfo> Client::WriteRows(const MatrixRows&,
                                                             std::span<const float>) const;
extern template absl::StatusOr<MatrixInfo> Client::WriteRows(const MatrixRows&,
                                                             std::span<const double>) const;
extern template PendingCall Client::WriteRowsAsync(const MatrixRows&, std::span<const float>,
                                                   MatrixCallback) const;
extern template PendingCall Client::WriteRowsAsync(const MatrixRows&, std::span<const double>,
                                                   MatrixCallback) const;
extern template absl::StatusOr<MatrixInfo> Client::ReadRows(const MatrixRows&,
                                                            std::span<float>) const;
extern template absl::StatusOr<MatrixInfo> Client::ReadRows(const MatrixRows&,
                                                            std::span<double>) const;
extern template PendingCall Client::ReadRowsAsync(const MatrixRows&, std::span<float>,
                                                  MatrixCallback) const;
extern template PendingCall Client::ReadRowsAsync(const MatrixRows&, std::span<double>,
                                                  MatrixCallback) const;

}  // namespace gemm

#endif  // GEMMD_CLIENT_CPP_GEMMD_CLIENT_H_
