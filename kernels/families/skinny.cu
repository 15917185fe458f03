// skinny: f32 products of which one side is at most 40 long. Up to 8 the time is that
// of reading the large operand once, and everything serves to have enough of it under way; beyond,
// it is that of the multiply-adds and of what they read from shared memory.
//
//   D^T = B^T A^T, so both cases are one: `x` has the few rows (of A, or columns of B), the matrix
//   has many (columns of B, or rows of A). Result (r, j) = sum over l of x[r][l] * matrix[j][l].
//
//   A stage:  64 of k x 64 of j of the matrix, and 64 of k of every row of x
//
//             +---- 64 of j ----+       A block of 256 threads has 64 of j: half of a warp has 4 of
//       64    | 4 x 4 a thread  |       them, and its threads are the 16 lanes of k (sum_order.h),
//     of k    |                 |       each with 4 x 4 of the stage against every row of x.
//             +-----------------+
//
// Stages come by cp.async into a ring of 5 or 6, 16 bytes at a time, or 4 where rows are not
// aligned, and lie as in memory, j or k contiguous, swizzled so that the 16-byte loads of a quarter
// warp meet no bank twice: the two instantiations of a kernel differ in how they index the 4 x 4.
// Lanes are added by shuffles.
//
// k is cut into chunks where strips of 64 do not fill the device. They are summed
//   one by one     by the same block, where the batch fills the device;
//   in a cluster   of up to 8 blocks, which write their sums to each other's shared memory;
//   on their own   leaving their sums in the workspace to a second pass, elsewhere.
// All add them in order, so they agree.
//
// Lost (H200, 2026-11-30, 4096 x 4096): lanes next to each other in a warp, so that no two threads
// share their 16 bytes of x, 43 us against 28 at 16 rows; clusters of 4 where 256 blocks have to
// fit at once, 26 us against 20 at 1 row. Not done: x without k contiguous costs 10 us at 16 rows,
// since it is transposed 4 bytes at a time.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "kernels/cuda_status.h"
#include "kernels/families/add_chunks.h"
#include "kernels/families/families.h"
#include "kernels/families/skinny.cuh"

namespace gemm {
namespace {

// Without and with clusters.
constexpr KernelConfig kConfigs[] = {
    {"skinny_f32_sm90_clusters", DType::kF32, NumericsClass::kChunkedLanes},
    {"skinny_f32_lanes", DType::kF32, NumericsClass::kChunkedLanes},
};
constexpr int kClusters = 0;

constexpr int kRows[] = {1, 2, 4, 8, 16, 24, 32, 40};
constexpr int kRowCounts = static_cast<int>(std::size(kRows));
static_assert(kRows[kRowCounts - 1] == kMostSkinny);
constexpr auto kSharedBytes = []<int... I>(std::integer_sequence<int, I...>) {
  return std::array{SkinnyShape<kRows[I]>::kSharedBytes...};
}
(std::make_integer_sequence<int, kRowCounts>());

// For the cost model: NVIDIA H200, 2026-11-30. Fractions are of the memory's rate by its clocks and
// of the arithmetic peak.
constexpr double kMemoryFraction = 0.82;
constexpr double kMathFraction = 0.37;
constexpr double kBegin = 48;  // beginning and ending a block, in products
constexpr double kStartSeconds = 3.1e-6;
constexpr double kClusterSeconds = 0.5e-6;
// Clusters of 4 and 8 fit onto so much of the device at once: they do not straddle its parts.
constexpr double kClusterFraction = 0.9;
constexpr double kSecondPassSeconds = 2.1e-6;
constexpr double kPartialBytesPerSecond = 2.5e12;
// Of an element that is copied by itself: of x, and of the matrix with j or k contiguous.
constexpr double kCopyXSeconds = 0.24e-9;
constexpr double kCopyAcrossSeconds = 0.09e-9;
constexpr double kCopyAlongSeconds = 0.16e-9;

constexpr int64_t kMaxGridX = (int64_t{1} << 31) - 1;
constexpr int64_t kMaxGridZ = 65535;
constexpr int64_t kMostTogether = 8;     // blocks of a cluster
constexpr int64_t kEnoughBlocks = 1024;  // fill any device without a cut of k
constexpr int64_t kMaxPartialBytes = int64_t{64} << 20;

template <int I, bool kAlong>
__global__ void __launch_bounds__(kSkinnyThreads, SkinnyShape<kRows[I]>::kBlocks)
    Skinny(const __grid_constant__ SkinnyGemm g) {
  SkinnyMultiply<kRows[I], kAlong>(g);
}

// By [along][index of kRows].
using Kernel = void (*)(SkinnyGemm);
constexpr Kernel kKernels[2][kRowCounts] = {
    {Skinny<0, false>, Skinny<1, false>, Skinny<2, false>, Skinny<3, false>, Skinny<4, false>,
     Skinny<5, false>, Skinny<6, false>, Skinny<7, false>},
    {Skinny<0, true>, Skinny<1, true>, Skinny<2, true>, Skinny<3, true>, Skinny<4, true>,
     Skinny<5, true>, Skinny<6, true>, Skinny<7, true>},
};

enum class Way { kOneByOne, kCluster, kSecondPass };

// Which operand is x, and how the launch is cut.
struct Cut {
  bool x_is_a;
  int64_t rows;
  int64_t length;
  int rows_index;
  int64_t strips;
  int64_t chunk_length;
  int64_t chunks;
  Way way;
  int64_t partial_elements;  // 0 but for a second pass
};

Cut CutOf(const Problem& problem, int config) {
  Cut cut;
  cut.x_is_a = problem.m <= problem.n;
  cut.rows = std::min(problem.m, problem.n);
  cut.length = std::max(problem.m, problem.n);
  cut.rows_index = 0;
  while (cut.rows_index + 1 < kRowCounts && kRows[cut.rows_index] < cut.rows) ++cut.rows_index;
  cut.strips = (cut.length - 1) / kSkinnyStrip + 1;
  cut.chunk_length = ChunkLength(NumericsClass::kChunkedLanes, problem);
  cut.chunks = ReadsAB(problem) ? ChunkCount(NumericsClass::kChunkedLanes, problem) : 1;
  cut.partial_elements = 0;
  cut.way = Way::kOneByOne;
  if (cut.chunks == 1 || cut.strips > kEnoughBlocks / std::max<int64_t>(1, problem.batch_count)) {
    return cut;
  }
  // Fits: few strips and few matrices.
  const int64_t elements = cut.chunks * problem.m * problem.n * problem.batch_count;
  if (config == kClusters && cut.chunks <= kMostTogether) {
    cut.way = Way::kCluster;
  } else if (elements <= kMaxPartialBytes / static_cast<int64_t>(sizeof(float))) {
    cut.way = Way::kSecondPass;
    cut.partial_elements = elements;
  }
  return cut;
}

struct LaunchRecord {
  SkinnyGemm args;
  unsigned strips;
  unsigned chunk_blocks;
  unsigned planes;
  bool cluster;
  bool second_pass;
  bool along;
  int rows_index;
};
static_assert(std::is_trivially_copyable_v<LaunchRecord> && alignof(LaunchRecord) <= 16);

// Four elements that begin at a multiple of four along k, or of j, are 16-byte aligned.
bool Aligned16(bool base, const MatrixLayout& layout, bool one_line, int64_t batch_count) {
  return base && (one_line || layout.ld % 4 == 0) &&
         (batch_count == 1 || layout.batch_stride % 4 == 0);
}

LaunchRecord Record(const Problem& problem, const Operands& operands, int config) {
  const Cut cut = CutOf(problem, config);
  LaunchRecord record;
  std::memset(&record, 0, sizeof(record));
  SkinnyGemm& g = record.args;
  g.p = MakeStridedGemm<float>(problem, operands);
  g.rows = cut.rows;
  g.length = cut.length;
  g.x_is_a = cut.x_is_a;
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
  const MatrixLayout& x = cut.x_is_a ? problem.a : problem.b;
  const MatrixLayout& matrix = cut.x_is_a ? problem.b : problem.a;
  g.x_16 = g.x_column == 1 && Aligned16(reinterpret_cast<uintptr_t>(g.x) % 16 == 0, x,
                                        cut.rows == 1, problem.batch_count);
  record.along = g.matrix_column == 1;
  g.matrix_16 = Aligned16(reinterpret_cast<uintptr_t>(g.matrix) % 16 == 0, matrix,
                          record.along && cut.length == 1, problem.batch_count);
  g.chunks = static_cast<int>(cut.chunks);
  g.chunk_length = cut.chunk_length;
  g.pitch = problem.n;
  record.strips = static_cast<unsigned>(cut.strips);
  record.planes = static_cast<unsigned>(std::min(problem.batch_count, kMaxGridZ));
  record.cluster = cut.way == Way::kCluster;
  record.second_pass = cut.way == Way::kSecondPass;
  const auto chunks = static_cast<unsigned>(cut.chunks);
  record.chunk_blocks = record.cluster ? std::bit_ceil(chunks) : record.second_pass ? chunks : 1;
  record.rows_index = cut.rows_index;
  return record;
}

class Family final : public KernelFamily {
 public:
  std::string_view name() const override { return "skinny"; }
  std::span<const KernelConfig> configs() const override { return kConfigs; }

  std::string WhyNot(const Problem& problem, const DeviceInfo& device, int config) const override {
    if (problem.dtype != DType::kF32) {
      return "computes f32, not " + std::string(NameOf(problem.dtype));
    }
    if (config == kClusters && device.compute_capability != 90) {
      return "needs a device of compute capability 9.0";
    }
    if (NumericsOf(problem) != NumericsClass::kChunkedLanes) {
      return "sums in chunked_lanes, this product in " + std::string(NameOf(NumericsOf(problem)));
    }
    const Cut cut = CutOf(problem, config);
    if (cut.strips > kMaxGridX) return "n or m needs more than 2^31 - 1 blocks";
    if (cut.chunk_length > kMaxGridX - kSkinnyDepth) return "k has chunks of 2^31 or more";
    const size_t shared_bytes = kSharedBytes[cut.rows_index];
    if (shared_bytes > device.shared_bytes_per_block) {
      return "needs " + std::to_string(shared_bytes) + " bytes of shared memory a block";
    }
    return {};
  }

  double ModelSeconds(const Problem& problem, const DeviceInfo& device, int config) const override {
    const Cut cut = CutOf(problem, config);
    const double multiprocessors = std::max(1, device.multiprocessors);
    const auto length = static_cast<double>(cut.length);
    const auto rows = static_cast<double>(cut.rows);
    const auto batch = static_cast<double>(problem.batch_count);
    const auto k = static_cast<double>(ReadsAB(problem) ? problem.k : 0);
    const bool cut_up = cut.way != Way::kOneByOne;
    const double blocks =
        static_cast<double>(cut.strips) * batch * static_cast<double>(cut_up ? cut.chunks : 1);
    const double block_k =
        kBegin + (cut_up ? std::min(k, static_cast<double>(cut.chunk_length)) : k);
    const MatrixLayout& x = cut.x_is_a ? problem.a : problem.b;
    const MatrixLayout& matrix = cut.x_is_a ? problem.b : problem.a;
    const bool along = cut.x_is_a == matrix.transposed || matrix.ld == 1;
    const bool x_16 = cut.x_is_a != x.transposed &&
                      Aligned16(x.alignment_bytes % 16 == 0, x, cut.rows == 1, problem.batch_count);
    const bool matrix_16 = Aligned16(matrix.alignment_bytes % 16 == 0, matrix,
                                     along && cut.length == 1, problem.batch_count);
    const double math_rate =
        kMathFraction * std::max(1.0, device.f32_flops_per_second) / multiprocessors;
    const double product_seconds =
        2.0 * kRows[cut.rows_index] * kSkinnyStrip / math_rate +
        (x_16 ? 0 : kRows[cut.rows_index] * kCopyXSeconds) +
        (matrix_16 ? 0 : kSkinnyStrip * (along ? kCopyAlongSeconds : kCopyAcrossSeconds));
    // A block alone on a multiprocessor draws 1.5 times that one's share of the memory's rate.
    const double busy = std::min(1.0, 1.5 * blocks / multiprocessors);
    const double bytes =
        4 * batch * (length * k + rows * k + rows * length * (ReadsC(problem) ? 2 : 1));
    const double memory =
        bytes / busy / std::max(1.0, kMemoryFraction * device.memory_bytes_per_second);
    const double partial_bytes = 2.0 * sizeof(float) * static_cast<double>(cut.partial_elements);
    const double at_once = cut.way == Way::kCluster && cut.chunks > 2
                               ? kClusterFraction * multiprocessors
                               : multiprocessors;
    return kStartSeconds +
           std::max(std::ceil(blocks / at_once) * block_k * product_seconds, memory) +
           (cut.way == Way::kCluster ? kClusterSeconds : 0) +
           (cut.way == Way::kSecondPass
                ? kSecondPassSeconds + partial_bytes / kPartialBytesPerSecond
                : 0);
  }

  cudaError_t Prepare(const DeviceInfo& device) const override {
    for (const auto& by_rows : kKernels) {
      for (int i = 0; i < kRowCounts; ++i) {
        cudaFuncAttributes attributes;
        GEMM_RETURN_IF_CUDA_ERROR(cudaFuncGetAttributes(&attributes, by_rows[i]));
        const size_t shared_bytes = kSharedBytes[i];
        if (shared_bytes > device.shared_bytes_per_block) continue;  // WhyNot refuses it
        GEMM_RETURN_IF_CUDA_ERROR(cudaFuncSetAttribute(by_rows[i],
                                                       cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                       static_cast<int>(shared_bytes)));
      }
    }
    return PrepareAddChunks();
  }

  Plan MakePlan(std::span<const Problem> problems, const DeviceInfo& /*device*/,
                int config) const override {
    Plan plan;
    plan.config = config;
    for (const Problem& problem : problems) {
      if (IsEmpty(problem)) continue;
      const Cut cut = CutOf(problem, config);
      plan.launches += cut.way == Way::kSecondPass ? 2 : 1;
      plan.args_bytes += sizeof(LaunchRecord);
      plan.workspace_bytes =
          std::max(plan.workspace_bytes, static_cast<size_t>(cut.partial_elements) * sizeof(float));
    }
    return plan;
  }

  void Encode(const Plan& plan, std::span<const Problem> problems,
              std::span<const Operands> operands, void* args) const override {
    auto* out = static_cast<unsigned char*>(args);
    for (size_t i = 0; i < problems.size(); ++i) {
      if (IsEmpty(problems[i])) continue;
      const LaunchRecord record = Record(problems[i], operands[i], plan.config);
      std::memcpy(out, &record, sizeof(record));
      out += sizeof(record);
    }
  }

  cudaError_t Launch(const Plan& plan, const void* args, const void* /*device_args*/,
                     void* workspace, cudaStream_t stream) const override {
    const auto* in = static_cast<const unsigned char*>(args);
    for (size_t at = 0; at < plan.args_bytes; at += sizeof(LaunchRecord)) {
      LaunchRecord record;
      std::memcpy(&record, in + at, sizeof(record));
      SkinnyGemm& g = record.args;
      if (record.second_pass) g.partial = static_cast<float*>(workspace);
      cudaLaunchAttribute cluster;
      cluster.id = cudaLaunchAttributeClusterDimension;
      cluster.val.clusterDim.x = 1;
      cluster.val.clusterDim.y = record.chunk_blocks;
      cluster.val.clusterDim.z = 1;
      cudaLaunchConfig_t launch = {};
      launch.gridDim = dim3(record.strips, record.chunk_blocks, record.planes);
      launch.blockDim = dim3(kSkinnyThreads);
      launch.dynamicSmemBytes = kSharedBytes[record.rows_index];
      launch.stream = stream;
      launch.attrs = &cluster;
      launch.numAttrs = record.cluster ? 1 : 0;
      GEMM_RETURN_IF_CUDA_ERROR(
          cudaLaunchKernelEx(&launch, kKernels[record.along ? 1 : 0][record.rows_index], g));
      if (record.second_pass) {
        GEMM_RETURN_IF_CUDA_ERROR(LaunchAddChunks(g.p, {g.partial, g.pitch, g.chunks}, stream));
      }
    }
    return cudaGetLastError();
  }
};

}  // namespace

const KernelFamily& SkinnyFamily() {
  static const Family family;
  return family;
}

}  // namespace gemm
