// Products of matrices in the caller's memory that are larger than one message should be.

#ifndef GEMMD_CLIENT_CPP_INTERNAL_LARGE_PRODUCT_H_
#define GEMMD_CLIENT_CPP_INTERNAL_LARGE_PRODUCT_H_

#include "absl/status/statusor.h"
#include "client/cpp/internal/blocking_calls.h"
#include "client/cpp/internal/checked_product.h"
#include "client/cpp/internal/connection.h"
#include "client/cpp/internal/matrices.h"
#include "client/cpp/internal/panels.h"
#include "gemmd/multiply.h"

namespace gemm::client {

// What the longer of its two ways takes of one message.
uint64_t MessageBytes(const CheckedProduct& product);

// Whether it can be had in panels: rows of D from rows of A, and of C.
bool CanGoByPanels(const CheckedProduct& product);

// Whether it can, and is so large that it does. Depends on the arguments alone, so that results do,
// too, where one message of kOneMessageBytes is not too large for the server.
bool GoesByPanels(const CheckedProduct& product);

// Whether a message, of the request or of the reply, was refused for its size.
bool IsTooLarge(const absl::Status& status);

// Thread-safe.
class LargeProducts {
 public:
  // All must outlive this.
  LargeProducts(const Connection& first, BlockingCalls& calls, Matrices& matrices, Panels& panels)
      : first_(first), calls_(calls), matrices_(matrices), panels_(panels) {}

  // Of one that goes by panels. B goes first, as a matrix of its own, unless it is on the server;
  // the panels of A and D then go side by side.
  absl::StatusOr<MultiplyReport> Multiply(const CheckedProduct& product);

 private:
  absl::StatusOr<MultiplyReport> PutB(CheckedProduct product);
  absl::StatusOr<MultiplyReport> ByPanels(const CheckedProduct& product);

  const Connection& first_;
  BlockingCalls& calls_;
  Matrices& matrices_;
  Panels& panels_;
};

}  // namespace gemm::client

#endif  // GEMMD_CLIENT_CPP_INTERNAL_LARGE_PRODUCT_H_
