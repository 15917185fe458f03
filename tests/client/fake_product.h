// A product by the contract's words and three loops.

#ifndef GEMMD_TESTS_CLIENT_FAKE_PRODUCT_H_
#define GEMMD_TESTS_CLIENT_FAKE_PRODUCT_H_

#include <grpcpp/support/status.h>

#include <string>

#include "gemm/v1/gemm.pb.h"

namespace gemm::testing {

// D of a request whose operands are payloads. INVALID_ARGUMENT when one has not just the bytes that
// its operand needs.
grpc::Status ComputeProduct(const v1::MultiplyRequest& request, std::string& d);

}  // namespace gemm::testing

#endif  // GEMMD_TESTS_CLIENT_FAKE_PRODUCT_H_
