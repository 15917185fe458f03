// Products of matrices in the caller's memory that are larger than one message should be.

#ifndef GEMMD_CLIENT_CPP_INTERNAL_LARGE_PRODUCT_H_
#define GEMMD_CLIENT_CPP_INTERNAL_LARGE_PRODUCT_H_

#include "absl/status/statusor.h"
#include "client/cpp/internal/blocking_calls.h"
#include "client/cpp/internal/checked_product.h"
#include "client/cpp/internal/matrices.h"
#include "client/cpp/internal/panels.h"
#include "gemmd/multiply.h"

namespace gemm::client {

// Whether it is so large, and can be had in panels: rows of D from rows of A, and of C. Depends on
// the arguments alone, so that results do, too.
bool GoesByPanels(const CheckedProduct& product);

// B goes first, as a matrix of its own, unless it is on the server; the panels of A and D then go
// side by side.
absl::StatusOr<MultiplyReport> MultiplyByPanels(CheckedProduct product, BlockingCalls& calls,
                                                Matrices& matrices, Panels& panels);

}  // namespace gemm::client

#endif  // GEMMD_CLIENT_CPP_INTERNAL_LARGE_PRODUCT_H_
