// gemv: a matrix and up to 4 vectors, f32: m <= 4 or n <= 4. Memory-bound: the matrix is read once,
// and everything else serves to have enough of it under way.
//
//   D^T = B^T A^T, so both cases are one: `x` has up to 4 rows (of A, or columns of B), the matrix
//   has many (columns of B, or rows of A). Result (r, j) = sum over l of x[r][l] * matrix[j][l].
//
// k goes in chunks of 4096; in a chunk, product l belongs to lane (l / 4) % 32; sum_order.h says in
// which order they are added. Two kernels, by what is contiguous in memory:
//
//   Across  j contiguous. A block of 256 threads has 32 of j; a thread has 4 of j and one lane of
//   k.
//           A warp reads 4 rows of 128 bytes. Lanes meet in shared memory.
//   Along   k contiguous. A warp has 4 of j, and its threads are the lanes; a thread reads 16 bytes
//           of each of the 4. Lanes meet by shuffles. 8 warps a block.
//
// In both a thread has 4 to 16 loads of 16 bytes on their way while it computes with others. x lies
// in shared memory as [row][l], zero-padded to the kernel's 1, 2 or 4 rows (at most 64 KiB). Rows
// that are not 16-byte aligned are read 4 bytes at a time (kVector = 0).
//
// More than one chunk: their sums go to the workspace and a second pass adds them.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

#include "kernels/cuda_status.h"
#include "kernels/families/add_chunks.h"
#include "kernels/families/families.h"
#include "kernels/families/strided_gemm.cuh"
#include "kernels/families/sum_order.h"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace gemm {
namespace {

constexpr KernelConfig kKernelConfigs[] = {
    {"gemv_f32_lanes", DType::kF32, NumericsClass::kChunkedLanes},
};

constexpr int kThreads = 256;
constexpr int kChunk = 4096;
constexpr int kStep = kLanes * kLaneGranule;  // 128 products: 4 a lane
constexpr int kAcrossColumns = 32;            // of j, a block
constexpr int kAlongRows = 4;                 // of j, a warp
constexpr int kAlongBlockRows = kAlongRows * kThreads / kLanes;
// A share of the memory's rate by its clocks, and what a launch takes before the first bytes come:
// H200, 2026-11-29.
constexpr double kMemoryFraction = 0.72;
constexpr double kStartSeconds = 2.5e-6;
constexpr double kSecondPassSeconds = 2e-6;
constexpr int64_t kMaxGridX = (int64_t{1} << 31) - 1;
constexpr int64_t kMaxGridYZ = 65535;
constexpr int64_t kRoundBytes = int64_t{64} << 20;  // chunk sums at a time

struct GemvArgs {
  StridedGemm<float> p;
  int64_t rows;    // of x
  int64_t length;  // of j
  const float* x;
  int64_t x_row;
  int64_t x_column;
  int64_t x_batch;
  const float* matrix;  // element (j, l) at j * matrix_row + l * matrix_column
  int64_t matrix_row;
  int64_t matrix_column;
  int64_t matrix_batch;
  bool x_is_a;
  int chunks;
  float* partial;  // [chunk][batch][m][pitch]
  int64_t pitch;
};

// Brings rows of x of [begin, begin + count) to shared memory, zeros behind, without waiting.
template <int kRows>
__device__ __forceinline__ void StageX(const GemvArgs& g, int64_t batch, int64_t begin, int count,
                                       float* x) {
  const float* from = g.x + batch * g.x_batch + begin * g.x_column;
  const int padded = (count + kStep - 1) / kStep * kStep;
  const uint32_t to = SharedAddress(x);
#pragma unroll 4
  for (int l = static_cast<int>(threadIdx.x); l < padded; l += kThreads) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const bool inside = r < g.rows && l < count;
      CopyAsync4(to + (r * kChunk + l) * 4, inside ? from + r * g.x_row + l * g.x_column : g.x,
                 inside ? 4 : 0);
    }
  }
}

__device__ __forceinline__ void StoreResult(const GemvArgs& g, int64_t batch, int chunk, int r,
                                            int64_t j, float sum) {
  const int64_t row = g.x_is_a ? r : j;
  const int64_t column = g.x_is_a ? j : r;
  if (g.chunks > 1) {
    g.partial[((chunk * g.p.batch_count + batch) * g.p.m + row) * g.pitch + column] = sum;
  } else {
    StoreElement(g.p, batch, row, column, sum);
  }
}

template <int kVector>
__device__ __forceinline__ void LoadFour(const float* from, int inside, float (&to)[4]) {
  if constexpr (kVector != 0) {
    if (inside >= 4) {
      const float4 v = __ldcs(reinterpret_cast<const float4*>(from));
      to[0] = v.x;
      to[1] = v.y;
      to[2] = v.z;
      to[3] = v.w;
      return;
    }
  }
#pragma unroll
  for (int e = 0; e < 4; ++e) to[e] = e < inside ? __ldcs(from + e) : 0;
}

template <int kRows, int kVector>
__global__ void __launch_bounds__(kThreads, 1) Across(const __grid_constant__ GemvArgs g) {
  constexpr int kTogether = 4;  // steps of k that are loaded together
  extern __shared__ __align__(16) float shared[];
  const int thread = static_cast<int>(threadIdx.x);
  const int part = thread / 8;  // the lane of k
  const int column = thread % 8 * 4;
  const int64_t j0 = int64_t{blockIdx.x} * kAcrossColumns;
  const int inside = static_cast<int>(max(int64_t{0}, min(g.length - j0 - column, int64_t{4})));
  const int chunk = static_cast<int>(blockIdx.y);
  const int64_t begin = int64_t{chunk} * kChunk;
  const int count = static_cast<int>(max(int64_t{0}, min(g.p.k - begin, int64_t{kChunk})));
  const int steps = (count + kStep - 1) / kStep;
  for (int64_t batch = blockIdx.z; batch < g.p.batch_count; batch += gridDim.z) {
    const float* matrix = g.matrix + batch * g.matrix_batch + j0 + column;
    // Element e of load [u][i] is (j0 + column + e, 4 part + i) of step t + u.
    float now[kTogether][4][4];
    float next[kTogether][4][4];
    const auto fetch = [&](int t, float(&to)[kTogether][4][4]) {
#pragma unroll
      for (int u = 0; u < kTogether; ++u) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int l = (t + u) * kStep + part * 4 + i;
          LoadFour<kVector>(matrix + (begin + l) * g.matrix_column, l < count ? inside : 0,
                            to[u][i]);
        }
      }
    };
    fetch(0, now);
    StageX<kRows>(g, batch, begin, count, shared);
    WaitForCopies();
    __syncthreads();
    float sum[kRows][4] = {};
    for (int t = 0; t < steps; t += kTogether) {
      fetch(t + kTogether, next);
#pragma unroll
      for (int u = 0; u < kTogether; ++u) {
        const int l = (t + u) * kStep + part * 4;
        if (l < count) {
#pragma unroll
          for (int r = 0; r < kRows; ++r) {
            const float4 x = *reinterpret_cast<const float4*>(&shared[r * kChunk + l]);
            const float xs[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              if (l + i < count) {  // adding 0 * 0 could change the sign of a 0
#pragma unroll
                for (int e = 0; e < 4; ++e) sum[r][e] = MultiplyAdd(xs[i], now[u][i][e], sum[r][e]);
              }
            }
          }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
          for (int e = 0; e < 4; ++e) now[u][i][e] = next[u][i][e];
        }
      }
    }
    // [row][lane][column]: lanes are added in halves.
    __syncthreads();
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        shared[(r * kLanes + part) * kAcrossColumns + column + e] = sum[r][e];
      }
    }
    __syncthreads();
#pragma unroll
    for (int half = kLanes / 2; half > 0; half /= 2) {
      for (int e = thread; e < kRows * half * kAcrossColumns; e += kThreads) {
        float* to = &shared[e / (half * kAcrossColumns) * kLanes * kAcrossColumns +
                            e % (half * kAcrossColumns)];
        *to = __fadd_rn(*to, to[half * kAcrossColumns]);
      }
      __syncthreads();
    }
    for (int e = thread; e < kRows * kAcrossColumns; e += kThreads) {
      const int r = e / kAcrossColumns;
      const int64_t j = j0 + e % kAcrossColumns;
      if (r < g.rows && j < g.length) {
        StoreResult(g, batch, chunk, r, j,
                    shared[r * kLanes * kAcrossColumns + e % kAcrossColumns]);
      }
    }
    __syncthreads();
  }
}

template <int kRows, int kVector>
__global__ void __launch_bounds__(kThreads, 2) Along(const __grid_constant__ GemvArgs g) {
  constexpr int kTogether = kRows == 4 || kVector == 0 ? 1 : 2;  // steps that are loaded together
  extern __shared__ __align__(16) float shared[];
  const int warp = static_cast<int>(threadIdx.x) / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int64_t j0 = int64_t{blockIdx.x} * kAlongBlockRows + warp * kAlongRows;
  const int chunk = static_cast<int>(blockIdx.y);
  const int64_t begin = int64_t{chunk} * kChunk;
  const int count = static_cast<int>(max(int64_t{0}, min(g.p.k - begin, int64_t{kChunk})));
  const int steps = (count + kStep - 1) / kStep;
  for (int64_t batch = blockIdx.z; batch < g.p.batch_count; batch += gridDim.z) {
    const float* matrix = g.matrix + batch * g.matrix_batch + j0 * g.matrix_row + begin;
    // Element i of load [u][s] is (j0 + s, 4 lane + i) of step t + u.
    float now[kTogether][kAlongRows][4];
    float next[kTogether][kAlongRows][4];
    const auto fetch = [&](int t, float(&to)[kTogether][kAlongRows][4]) {
#pragma unroll
      for (int u = 0; u < kTogether; ++u) {
        const int l = (t + u) * kStep + lane * 4;
#pragma unroll
        for (int s = 0; s < kAlongRows; ++s) {
          LoadFour<kVector>(matrix + s * g.matrix_row + l, j0 + s < g.length ? count - l : 0,
                            to[u][s]);
        }
      }
    };
    fetch(0, now);
    StageX<kRows>(g, batch, begin, count, shared);
    WaitForCopies();
    __syncthreads();
    float sum[kRows][kAlongRows] = {};
    for (int t = 0; t < steps; t += kTogether) {
      fetch(t + kTogether, next);
#pragma unroll
      for (int u = 0; u < kTogether; ++u) {
        const int l = (t + u) * kStep + lane * 4;
        if (l < count) {
#pragma unroll
          for (int r = 0; r < kRows; ++r) {
            const float4 x = *reinterpret_cast<const float4*>(&shared[r * kChunk + l]);
            const float xs[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              if (l + i < count) {
#pragma unroll
                for (int s = 0; s < kAlongRows; ++s) {
                  sum[r][s] = MultiplyAdd(xs[i], now[u][s][i], sum[r][s]);
                }
              }
            }
          }
        }
#pragma unroll
        for (int s = 0; s < kAlongRows; ++s) {
#pragma unroll
          for (int i = 0; i < 4; ++i) now[u][s][i] = next[u][s][i];
        }
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int s = 0; s < kAlongRows; ++s) {
        float total = sum[r][s];
#pragma unroll
        for (int half = kLanes / 2; half > 0; half /= 2) {
          total = __fadd_rn(total, __shfl_down_sync(0xffffffff, total, half));
        }
        if (lane == 0 && r < g.rows && j0 + s < g.length) {
          StoreResult(g, batch, chunk, r, j0 + s, total);
        }
      }
    }
    __syncthreads();
  }
}

// By [along][log2 rows][vector].
using Kernel = void (*)(GemvArgs);
constexpr Kernel kKernels[2][3][2] = {
    {{Across<1, 0>, Across<1, 1>}, {Across<2, 0>, Across<2, 1>}, {Across<4, 0>, Across<4, 1>}},
    {{Along<1, 0>, Along<1, 1>}, {Along<2, 0>, Along<2, 1>}, {Along<4, 0>, Along<4, 1>}},
};

int64_t CeilDiv(int64_t value, int64_t divisor) {
  return value / divisor + (value % divisor != 0 ? 1 : 0);
}

// Which operand is x, and how the launch is cut.
struct Cut {
  bool x_is_a;
  bool along;
  int64_t rows;
  int64_t length;
  int64_t chunks;
  int64_t blocks;
  int64_t pitch;
  int64_t partial_elements;  // of one matrix; 0 with one chunk
  int64_t round;             // matrices of the batch that go together
};

Cut CutOf(const Problem& problem) {
  Cut cut;
  cut.x_is_a = problem.m <= problem.n;
  cut.rows = std::min(problem.m, problem.n);
  cut.length = std::max(problem.m, problem.n);
  const MatrixLayout& matrix = cut.x_is_a ? problem.b : problem.a;
  // k is contiguous in a transposed B and in an A that is not; in one column or row it is both.
  cut.along = matrix.transposed == cut.x_is_a || (cut.length == 1 && matrix.ld == 1);
  cut.chunks = ReadsAB(problem) ? ChunkCount(NumericsClass::kChunkedLanes, problem) : 1;
  cut.blocks = CeilDiv(cut.length, cut.along ? kAlongBlockRows : kAcrossColumns);
  cut.pitch = problem.n;
  cut.partial_elements = cut.chunks > 1 ? cut.chunks * problem.m * cut.pitch : 0;
  cut.round = std::max<int64_t>(1, problem.batch_count);
  if (cut.partial_elements > 0) {
    cut.round = std::clamp<int64_t>(
        kRoundBytes / static_cast<int64_t>(sizeof(float)) / cut.partial_elements, 1, cut.round);
  }
  return cut;
}

struct LaunchRecord {
  GemvArgs args;
  unsigned blocks;
  unsigned planes;
  bool along;
  int rows_log2;
  bool vector;
};
static_assert(std::is_trivially_copyable_v<LaunchRecord> && alignof(LaunchRecord) <= 16);

size_t SharedBytes(int rows_log2) { return sizeof(float) * kChunk << rows_log2; }

class Family final : public KernelFamily {
 public:
  std::string_view name() const override { return "gemv"; }
  std::span<const KernelConfig> configs() const override { return kKernelConfigs; }

  std::string WhyNot(const Problem& problem, const DeviceInfo& /*device*/,
                     int /*config*/) const override {
    if (problem.dtype != DType::kF32) {
      return "computes f32, not " + std::string(NameOf(problem.dtype));
    }
    if (NumericsOf(problem) != NumericsClass::kChunkedLanes) {
      return "sums in chunked_lanes, this product in " + std::string(NameOf(NumericsOf(problem)));
    }
    const Cut cut = CutOf(problem);
    if (cut.blocks > kMaxGridX) return "n or m needs more than 2^31 - 1 blocks";
    if (cut.chunks > kMaxGridYZ) return "k needs more than 65535 chunks of 4096";
    return {};
  }

  double ModelSeconds(const Problem& problem, const DeviceInfo& device,
                      int /*config*/) const override {
    const Cut cut = CutOf(problem);
    const auto length = static_cast<double>(cut.length);
    const auto batch = static_cast<double>(problem.batch_count);
    const auto k = static_cast<double>(ReadsAB(problem) ? problem.k : 0);
    const double blocks = static_cast<double>(cut.blocks) * static_cast<double>(cut.chunks) * batch;
    // A block alone on a multiprocessor draws twice that one's share of the memory's rate.
    const double busy = std::min(1.0, 2 * blocks / std::max(1, device.multiprocessors));
    const double rows = static_cast<double>(cut.rows);
    const double bytes =
        4 * batch * (length * k + rows * k + rows * length * (ReadsC(problem) ? 2 : 1));
    const double sums = 8 * batch * static_cast<double>(cut.partial_elements);
    return kStartSeconds + (cut.chunks > 1 ? kSecondPassSeconds : 0) +
           (bytes / busy + sums) / std::max(1.0, kMemoryFraction * device.memory_bytes_per_second);
  }

  cudaError_t Prepare(const DeviceInfo& /*device*/) const override {
    for (const auto& by_rows : kKernels) {
      for (int rows_log2 = 0; rows_log2 < 3; ++rows_log2) {
        for (Kernel kernel : by_rows[rows_log2]) {
          cudaFuncAttributes attributes;
          GEMM_RETURN_IF_CUDA_ERROR(cudaFuncGetAttributes(&attributes, kernel));
          GEMM_RETURN_IF_CUDA_ERROR(
              cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(SharedBytes(rows_log2))));
        }
      }
    }
    return PrepareAddChunks();
  }

  Plan MakePlan(std::span<const Problem> problems, const DeviceInfo& /*device*/,
                int config) const override {
    Plan plan;
    plan.config = config;
    int64_t rounds = 0;
    for (const Problem& problem : problems) {
      if (IsEmpty(problem)) continue;
      const Cut cut = CutOf(problem);
      const int64_t here = CeilDiv(problem.batch_count, cut.round);
      rounds += here;
      plan.launches += static_cast<int>(here) * (cut.chunks > 1 ? 2 : 1);
      plan.workspace_bytes =
          std::max(plan.workspace_bytes,
                   static_cast<size_t>(cut.partial_elements * cut.round) * sizeof(float));
    }
    plan.args_bytes = static_cast<size_t>(rounds) * sizeof(LaunchRecord);
    return plan;
  }

  void Encode(const Plan& /*plan*/, std::span<const Problem> problems,
              std::span<const Operands> operands, void* args) const override {
    auto* out = static_cast<unsigned char*>(args);
    for (size_t i = 0; i < problems.size(); ++i) {
      const Problem& problem = problems[i];
      if (IsEmpty(problem)) continue;
      const Cut cut = CutOf(problem);
      LaunchRecord record;
      std::memset(&record, 0, sizeof(record));
      GemvArgs& g = record.args;
      g.p = MakeStridedGemm<float>(problem, operands[i]);
      g.rows = cut.rows;
      g.length = cut.length;
      g.x_is_a = cut.x_is_a;
      g.chunks = static_cast<int>(cut.chunks);
      g.pitch = cut.pitch;
      if (cut.x_is_a) {
        g.x = g.p.a;
        g.x_row = g.p.a_row;
        g.x_column = g.p.a_column;
        g.x_batch = g.p.a_batch;
        g.matrix = g.p.b;
        g.matrix_row = g.p.b_column;
        g.matrix_column = g.p.b_row;
        g.matrix_batch = g.p.b_batch;
      } else {
        g.x = g.p.b;
        g.x_row = g.p.b_column;
        g.x_column = g.p.b_row;
        g.x_batch = g.p.b_batch;
        g.matrix = g.p.a;
        g.matrix_row = g.p.a_row;
        g.matrix_column = g.p.a_column;
        g.matrix_batch = g.p.a_batch;
      }
      const MatrixLayout& matrix = cut.x_is_a ? problem.b : problem.a;
      record.along = cut.along;
      record.rows_log2 = cut.rows > 2 ? 2 : static_cast<int>(cut.rows) - 1;
      record.vector = reinterpret_cast<uintptr_t>(g.matrix) % 16 == 0 &&
                      (matrix.ld % 4 == 0 || cut.length == 1) &&
                      (problem.batch_count == 1 || matrix.batch_stride % 4 == 0);
      record.blocks = static_cast<unsigned>(cut.blocks);
      const StridedGemm<float> whole = g.p;
      const float* x = g.x;
      const float* from = g.matrix;
      for (int64_t first = 0; first < problem.batch_count; first += cut.round) {
        g.p.batch_count = std::min(cut.round, problem.batch_count - first);
        g.p.c = whole.c + first * whole.c_batch;
        g.p.d = whole.d + first * whole.d_batch;
        g.x = x + first * g.x_batch;
        g.matrix = from + first * g.matrix_batch;
        record.planes = static_cast<unsigned>(std::min(g.p.batch_count, kMaxGridYZ));
        std::memcpy(out, &record, sizeof(record));
        out += sizeof(record);
      }
    }
  }

  cudaError_t Launch(const Plan& plan, const void* args, const void* /*device_args*/,
                     void* workspace, cudaStream_t stream) const override {
    const auto* in = static_cast<const unsigned char*>(args);
    for (size_t at = 0; at < plan.args_bytes; at += sizeof(LaunchRecord)) {
      LaunchRecord record;
      std::memcpy(&record, in + at, sizeof(record));
      GemvArgs& g = record.args;
      g.partial = static_cast<float*>(workspace);
      const Kernel kernel = kKernels[record.along ? 1 : 0][record.rows_log2][record.vector ? 1 : 0];
      const dim3 grid(record.blocks, static_cast<unsigned>(g.chunks), record.planes);
      void* parameters[] = {&g};
      GEMM_RETURN_IF_CUDA_ERROR(cudaLaunchKernel(kernel, grid, dim3(kThreads), parameters,
                                                 SharedBytes(record.rows_log2), stream));
      if (g.chunks > 1) {
        GEMM_RETURN_IF_CUDA_ERROR(LaunchAddChunks(g.p, {g.partial, g.pitch, g.chunks}, stream));
      }
    }
    return cudaGetLastError();
  }
};

}  // namespace

const KernelFamily& GemvFamily() {
  static const Family family;
  return family;
}

}  // namespace gemm
