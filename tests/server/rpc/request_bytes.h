// Requests in wire format, as a caller would send them, and cut into segments as a transport would.

#ifndef GEMMD_TESTS_SERVER_RPC_REQUEST_BYTES_H_
#define GEMMD_TESTS_SERVER_RPC_REQUEST_BYTES_H_

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gemm/v1/gemm.pb.h"
#include "proto/bulk_message.h"

namespace gemm {

// A valid f32 product with beta = 0.
inline v1::MultiplyRequest MakeRequest(int64_t m, int64_t n, int64_t k) {
  v1::MultiplyRequest request;
  v1::Product& product = *request.mutable_product();
  product.set_m(m);
  product.set_n(n);
  product.set_k(k);
  product.set_data_type(v1::DATA_TYPE_F32);
  product.mutable_a()->set_payload(0);
  product.mutable_b()->set_payload(1);
  request.add_payloads(std::string(m * k * 4, 'a'));
  request.add_payloads(std::string(k * n * 4, 'b'));
  return request;
}

// Appends the same product, with payloads of its own.
inline void AddProduct(int64_t m, int64_t n, int64_t k, v1::MultiplyBatchRequest& request) {
  v1::MultiplyRequest one = MakeRequest(m, n, k);
  v1::Product& product = *request.add_products();
  product = one.product();
  product.mutable_a()->set_payload(request.payloads_size());
  product.mutable_b()->set_payload(request.payloads_size() + 1);
  for (std::string& payload : *one.mutable_payloads()) request.add_payloads(std::move(payload));
}

// The message in pieces of `segment_bytes` (the last one shorter); it must outlive them.
inline std::vector<Segment> Cut(const std::string& message, size_t segment_bytes) {
  std::vector<Segment> segments;
  for (size_t at = 0; at < message.size(); at += segment_bytes) {
    segments.push_back({reinterpret_cast<const uint8_t*>(message.data()) + at,
                        std::min(segment_bytes, message.size() - at)});
  }
  return segments;
}

}  // namespace gemm

#endif  // GEMMD_TESTS_SERVER_RPC_REQUEST_BYTES_H_
