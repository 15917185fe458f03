#include "kernels/bench/operand_arena.h"

#include <algorithm>

#include "kernels/bench/device_fill.h"
#include "kernels/cuda_status.h"

namespace gemm {
namespace {

constexpr size_t kAlignment = 256;
// What is taken at first, so that most shapes find room without a new allocation.
constexpr size_t kFirstBytes = size_t{256} << 20;

size_t RoundUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

cudaError_t OperandArena::Create(const Problem& problem, const DeviceInfo& device, int max_sets,
                                 cudaStream_t stream, int min_sets) {
  const auto bytes = [&](MatrixShape shape, const MatrixLayout& layout) {
    return static_cast<size_t>(ExtentElements(shape, layout, problem.batch_count)) *
           SizeOf(problem.dtype);
  };
  const size_t a = RoundUp(bytes(StoredA(problem), problem.a));
  const size_t b = RoundUp(bytes(StoredB(problem), problem.b));
  const size_t d = RoundUp(bytes(StoredC(problem), problem.d));
  const size_t one = std::max<size_t>(1, a + b + d);
  const size_t rotated = 2 * device.l2_bytes;
  const size_t sets =
      std::clamp(rotated / one + 1, static_cast<size_t>(min_sets), static_cast<size_t>(max_sets));
  GEMM_RETURN_IF_CUDA_ERROR(Reserve(a * sets, b * sets, d * sets, problem.dtype, stream));
  sets_.clear();
  for (size_t s = 0; s < sets; ++s) {
    sets_.push_back({static_cast<char*>(a_.data()) + s * a, static_cast<char*>(b_.data()) + s * b,
                     nullptr, static_cast<char*>(d_.data()) + s * d});
  }
  result_bytes_ = bytes(StoredC(problem), problem.d);
  return cudaStreamSynchronize(stream);
}

cudaError_t OperandArena::Reserve(size_t a_bytes, size_t b_bytes, size_t d_bytes, DType dtype,
                                  cudaStream_t stream) {
  const auto fill = [&](size_t bytes, uint64_t seed, DeviceBuffer* buffer) {
    if (buffer->bytes() >= bytes && dtype == dtype_) return cudaSuccess;
    if (buffer->bytes() < bytes) {
      GEMM_RETURN_IF_CUDA_ERROR(buffer->Create(std::max(bytes, kFirstBytes)));
    }
    return DeviceFill(dtype, buffer->data(), static_cast<int64_t>(buffer->bytes() / SizeOf(dtype)),
                      filled_.fill, seed, stream);
  };
  GEMM_RETURN_IF_CUDA_ERROR(fill(a_bytes, filled_.seed_a, &a_));
  GEMM_RETURN_IF_CUDA_ERROR(fill(b_bytes, filled_.seed_b, &b_));
  dtype_ = dtype;
  if (d_.bytes() >= d_bytes) return cudaSuccess;
  return d_.Create(std::max(d_bytes, kFirstBytes));
}

}  // namespace gemm
