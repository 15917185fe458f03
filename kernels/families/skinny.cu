// skinny: f32 products of which one side is at most 40 long, or both 64 if k is long. Up to 16 the
// time is that of reading the large operand once, and everything serves to have enough of it under
// way; beyond, it is that of the multiply-adds.
//
//   D^T = B^T A^T, so both cases are one: `x` has the few rows (of A, or columns of B), the matrix
//   has many (columns of B, or rows of A). Result (r, j) = sum over l of x[r][l] * matrix[j][l].
//
//          k: 32 for warp 0 | 32 for warp 1 | ... warp 7 | 32 for warp 0 | ...
//
//             +---- 32 or 64 of j ----+    Each of a block's 8 warps has all results of the block,
//    a step   | 4 or 8 of j a thread, |    of its own products: every 8th block of 32 of k. So no
//   of a warp | 8 threads, of a lane  |    warp waits for another before the end. A thread has up
//             | of k                  |    to 16 of x's rows, and of k four in turn with the lanes
//             +-----------------------+    of its warp (sum_order.h).
//
//   Up to 16 rows: 4 lanes, 32 of j, 2 or 3 stages of 33 to 48 KiB, two blocks a multiprocessor.
//   Up to 32: 2 lanes, 64 of j; up to 64: 1 lane. One block, 2 or 3 stages of up to 96 KiB.
//
// A warp has a ring of its own, of steps of the matrix and of x, which lie as in memory, k
// contiguous or not: 16 bytes are four products of a line, or four lines of a product. From 8 rows
// on steps come by boxes of the copy engine, one thread asking, since other copies take as many
// issue slots as the arithmetic. Below, and where rows are not 16-byte aligned or no engine is,
// they come by cp.async, 16 bytes or 4 at a time. The same bits either way.
//
// Lanes are added by shuffles, warps through shared memory. k is cut into chunks where strips of j
// do not fill the device. They are summed
//   one by one     by the same block, where the batch fills the device;
//   in a cluster   of two blocks, which write their sums to each other's shared memory;
//   on their own   leaving their sums in the workspace to a second pass, elsewhere.
// All add them in order, so they agree.
//
// Why so (H200, 2026-11-30, 4096 x 4096, us): a ring shared by the block, its warps meeting at
// every stage, 28 at 16 rows; a ring a warp, copied by its 32 threads, 23, of which half of the
// instructions were addresses; by boxes 20.9 with 16 warps and 19.8 with 8, the rest of the shared
// memory left alone. With 64 bytes of k in a row instead of 128 the memory gives what has k
// contiguous a third slower, 24.3 against 19.8 at 8 rows; contiguous parts of k for each warp
// instead of blocks in turn, 20.6. Reading x costs half as much where neighbouring threads ask for
// the same 16 bytes (2.1 cycles of 4), and no other sharing helps. Lost: clusters of 4, 30 us
// against 21 with a second pass at 2048 x 32 x 2048, since they do not all fit at once; 8 of j
// a thread up to 16 rows, 22 us at 16.

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
#include "kernels/families/tensor_boxes.h"

namespace gemm {
namespace {

// With clusters and boxes, and without.
constexpr KernelConfig kConfigs[] = {
    {"skinny_f32_sm90_clusters", DType::kF32, NumericsClass::kChunkedLanes},
    {"skinny_f32_lanes", DType::kF32, NumericsClass::kChunkedLanes},
};
constexpr int kHopper = 0;

constexpr int kRows[] = {1, 2, 4, 8, 16, 24, 32, 48, 64};
constexpr int kRowCounts = static_cast<int>(std::size(kRows));
static_assert(kRows[kRowCounts - 1] >= kMostSkinnyTile);
constexpr int kRowsByBoxes = 8;  // and more
constexpr auto kSharedBytes = []<int... I>(std::integer_sequence<int, I...>) {
  return std::array{SkinnyShape<kRows[I]>::kSharedBytes...};
}
(std::make_integer_sequence<int, kRowCounts>());

// For the cost model: NVIDIA H200, 2026-11-30. Fractions are of the memory's rate by its clocks and
// of the arithmetic peak.
constexpr double kMemoryFraction = 0.87;
constexpr double kMathFraction = 0.62;
constexpr double kCopiedMathFraction = 0.4;  // where boxes would be, but cannot be
constexpr double kBegin = 100;               // beginning and ending a block, in products
constexpr double kStartSeconds = 2.6e-6;
constexpr double kClusterSeconds = 1.0e-6;
constexpr double kSecondPassSeconds = 2.1e-6;
constexpr double kPartialBytesPerSecond = 2.5e12;
// Of an element that is copied by itself: of x, and of the matrix with j or k contiguous.
constexpr double kCopyXSeconds = 0.24e-9;
constexpr double kCopyAcrossSeconds = 0.09e-9;
constexpr double kCopyAlongSeconds = 0.16e-9;

constexpr int64_t kMaxGridX = (int64_t{1} << 31) - 1;
constexpr int64_t kMaxGridZ = 65535;
constexpr int64_t kTogether = 2;         // blocks of a cluster
constexpr int64_t kEnoughBlocks = 1024;  // fill any device without a cut of k
constexpr int64_t kMaxPartialBytes = int64_t{64} << 20;

template <int I, bool kXAlong, bool kAlong, bool kBoxes>
__global__ void __launch_bounds__(kSkinnyThreads, SkinnyShape<kRows[I]>::kBlocks)
    Skinny(const __grid_constant__ CUtensorMap map_x,
           const __grid_constant__ CUtensorMap map_matrix, const __grid_constant__ SkinnyGemm g) {
  if constexpr (!kBoxes) {
    SkinnyMultiply<kRows[I], kXAlong, kAlong, false>(g, nullptr, nullptr);
  } else {
#if __CUDA_ARCH__ >= 900
    SkinnyMultiply<kRows[I], kXAlong, kAlong, true>(g, &map_x, &map_matrix);
#endif
  }
}

using Kernel = void (*)(CUtensorMap, CUtensorMap, SkinnyGemm);

// Fewer than four rows are lines with k contiguous, whatever they are in memory.
template <int I, bool kXAlong, bool kAlong, bool kBoxes>
constexpr Kernel KernelOf() {
  if constexpr (kBoxes && kRows[I] < kRowsByBoxes) {
    return nullptr;
  } else {
    return Skinny < I, kXAlong || (kRows[I] < 4), kAlong, kBoxes > ;
  }
}

// By index of kRows, [x with k contiguous][the matrix with k contiguous][boxes].
struct KernelsOfRows {
  Kernel by_feed[2][2][2];
};
template <int I>
constexpr KernelsOfRows kKernelsOfRows = {
    {{{KernelOf<I, false, false, false>(), KernelOf<I, false, false, true>()},
      {KernelOf<I, false, true, false>(), KernelOf<I, false, true, true>()}},
     {{KernelOf<I, true, false, false>(), KernelOf<I, true, false, true>()},
      {KernelOf<I, true, true, false>(), KernelOf<I, true, true, true>()}}}};
constexpr auto kKernels = []<int... I>(std::integer_sequence<int, I...>) {
  return std::array{kKernelsOfRows<I>...};
}
(std::make_integer_sequence<int, kRowCounts>());

Kernel KernelAt(int rows_index, bool x_along, bool along, bool boxes) {
  return kKernels[static_cast<size_t>(rows_index)]
      .by_feed[x_along ? 1 : 0][along ? 1 : 0][boxes ? 1 : 0];
}

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
  cut.strips = TilesOf(cut.length, SkinnyStrip(cut.rows));
  cut.chunk_length = ChunkLength(NumericsClass::kChunkedLanes, problem);
  cut.chunks = ReadsAB(problem) ? ChunkCount(NumericsClass::kChunkedLanes, problem) : 1;
  cut.partial_elements = 0;
  cut.way = Way::kOneByOne;
  if (cut.chunks == 1 || cut.strips > kEnoughBlocks / std::max<int64_t>(1, problem.batch_count)) {
    return cut;
  }
  // Fits: few strips and few matrices.
  const int64_t elements = cut.chunks * problem.m * problem.n * problem.batch_count;
  if (config == kHopper && cut.chunks == kTogether) {
    cut.way = Way::kCluster;
  } else if (elements <= kMaxPartialBytes / static_cast<int64_t>(sizeof(float))) {
    cut.way = Way::kSecondPass;
    cut.partial_elements = elements;
  }
  return cut;
}

struct LaunchRecord {
  SkinnyGemm args;
  TensorBoxes boxes_x;
  TensorBoxes boxes_matrix;
  unsigned strips;
  unsigned chunk_blocks;
  unsigned planes;
  bool cluster;
  bool second_pass;
  bool boxes;
  bool x_along;
  bool along;
  int rows_index;
};
static_assert(std::is_trivially_copyable_v<LaunchRecord> && alignof(LaunchRecord) <= 16);

// One operand: `lines` rows of x, or of j, and how they lie.
struct Side {
  int64_t lines;
  int64_t line_stride;
  int64_t k_stride;
  int64_t batch_stride;
  bool along;       // k is contiguous
  bool aligned_16;  // so are four elements in a row, along what is contiguous

  // `base_16`: it begins at a multiple of 16 bytes. Few lines are taken for lines with k
  // contiguous.
  Side(const Problem& problem, bool of_a, int64_t line_count, bool few, bool base_16)
      : lines(line_count) {
    const MatrixLayout& layout = of_a ? problem.a : problem.b;
    const bool k_first = of_a != layout.transposed;
    line_stride = k_first ? layout.ld : 1;
    k_stride = k_first ? 1 : layout.ld;
    batch_stride = layout.batch_stride;
    along = few || k_stride == 1;
    const int64_t stride = along ? line_stride : k_stride;
    aligned_16 = base_16 && (along ? k_stride == 1 : line_stride == 1) &&
                 ((along && lines == 1) || stride % 4 == 0) &&
                 (problem.batch_count == 1 || batch_stride % 4 == 0);
  }

  // Whether the copy engine can count it.
  bool Boxable(const Problem& problem) const {
    constexpr int64_t kMost = (int64_t{1} << 31) - 1;
    constexpr int64_t kMostStride = (int64_t{1} << 38) - 1;  // elements
    return aligned_16 && lines <= kMost && problem.k <= kMost && problem.batch_count <= kMost &&
           std::max(line_stride, k_stride) <= kMostStride && batch_stride <= kMostStride;
  }

  bool OneForAll(const Problem& problem) const {
    return problem.batch_count == 1 || batch_stride == 0;
  }

  TensorBoxes Boxes(const Problem& problem, const float* base, int box_lines, int step,
                    int swizzle_bytes) const {
    TensorBoxes boxes;
    boxes.base = base;
    boxes.outer = along ? problem.k : lines;
    boxes.depth = along ? lines : problem.k;
    boxes.matrices = OneForAll(problem) ? 1 : problem.batch_count;
    // Of one line any multiple of 16 bytes will do.
    boxes.depth_stride = along && lines == 1 ? 4 : along ? line_stride : k_stride;
    boxes.matrix_stride = batch_stride;
    boxes.box_outer = along ? step : box_lines;
    boxes.box_depth = along ? box_lines : step;
    boxes.swizzle_bytes = swizzle_bytes;
    return boxes;
  }
};

// The patterns of SkinnySide::UnitAt.
int SwizzleOfX(int rows, bool along) { return along ? 0 : rows == 8 ? 32 : rows == 16 ? 64 : 0; }
int SwizzleOfMatrix(int step, bool along) { return along ? 4 * step : 0; }

LaunchRecord Record(const Problem& problem, const Operands& operands, int config) {
  const Cut cut = CutOf(problem, config);
  LaunchRecord record;
  std::memset(static_cast<void*>(&record), 0, sizeof(record));
  const auto at_16 = [](const void* base) { return reinterpret_cast<uintptr_t>(base) % 16 == 0; };
  SkinnyGemm& g = record.args;
  g.p = MakeStridedGemm<float>(problem, operands);
  g.rows = cut.rows;
  g.length = cut.length;
  g.x_is_a = cut.x_is_a;
  g.x = cut.x_is_a ? g.p.a : g.p.b;
  g.matrix = cut.x_is_a ? g.p.b : g.p.a;
  const Side x(problem, cut.x_is_a, cut.rows, kRows[cut.rows_index] < 4, at_16(g.x));
  const Side matrix(problem, !cut.x_is_a, cut.length, false, at_16(g.matrix));
  g.x_row = x.line_stride;
  g.x_column = x.k_stride;
  g.x_batch = x.batch_stride;
  g.x_16 = x.aligned_16;
  g.matrix_row = matrix.line_stride;
  g.matrix_column = matrix.k_stride;
  g.matrix_batch = matrix.batch_stride;
  g.matrix_16 = matrix.aligned_16;
  record.x_along = x.along;
  record.along = matrix.along;
  record.boxes = config == kHopper && ReadsAB(problem) && kRows[cut.rows_index] >= kRowsByBoxes &&
                 x.Boxable(problem) && matrix.Boxable(problem);
  if (record.boxes) {
    const int rows = kRows[cut.rows_index];
    const int step = rows <= 32 ? SkinnyShape<32>::kStep : SkinnyShape<48>::kStep;
    record.boxes_x = x.Boxes(problem, g.x, rows, step, SwizzleOfX(rows, x.along));
    record.boxes_matrix = matrix.Boxes(problem, g.matrix, SkinnyStrip(rows), step,
                                       SwizzleOfMatrix(step, matrix.along));
    g.box_step_x = x.OneForAll(problem) ? 0 : 1;
    g.box_step_matrix = matrix.OneForAll(problem) ? 0 : 1;
  }
  g.chunks = static_cast<int>(cut.chunks);
  g.chunk_length = cut.chunk_length;
  g.pitch = problem.n;
  record.strips = static_cast<unsigned>(cut.strips);
  record.planes = static_cast<unsigned>(std::min(problem.batch_count, kMaxGridZ));
  record.cluster = cut.way == Way::kCluster;
  record.second_pass = cut.way == Way::kSecondPass;
  record.chunk_blocks = cut.way == Way::kOneByOne ? 1 : static_cast<unsigned>(cut.chunks);
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
    if (config == kHopper && device.compute_capability != 90) {
      return "needs a device of compute capability 9.0";
    }
    if (NumericsOf(problem) != NumericsClass::kChunkedLanes) {
      return "sums in chunked_lanes, this product in " + std::string(NameOf(NumericsOf(problem)));
    }
    const Cut cut = CutOf(problem, config);
    if (cut.strips > kMaxGridX) return "n or m needs more than 2^31 - 1 blocks";
    if (cut.chunk_length > kMaxGridX - kLaneRound) return "k has chunks of 2^31 or more";
    const size_t shared_bytes = kSharedBytes[static_cast<size_t>(cut.rows_index)];
    if (shared_bytes > device.shared_bytes_per_block) {
      return "needs " + std::to_string(shared_bytes) + " bytes of shared memory a block";
    }
    return {};
  }

  double ModelSeconds(const Problem& problem, const DeviceInfo& device, int config) const override {
    const Cut cut = CutOf(problem, config);
    const double multiprocessors = std::max(1, device.multiprocessors);
    const auto length = static_cast<double>(cut.length);
    const auto batch = static_cast<double>(problem.batch_count);
    const auto k = static_cast<double>(ReadsAB(problem) ? problem.k : 0);
    const bool cut_up = cut.way != Way::kOneByOne;
    const double blocks =
        static_cast<double>(cut.strips) * batch * static_cast<double>(cut_up ? cut.chunks : 1);
    const double block_k =
        kBegin + (cut_up ? std::min(k, static_cast<double>(cut.chunk_length)) : k);
    const MatrixLayout& layout_x = cut.x_is_a ? problem.a : problem.b;
    const MatrixLayout& layout_matrix = cut.x_is_a ? problem.b : problem.a;
    const int rows = kRows[cut.rows_index];
    const Side x(problem, cut.x_is_a, cut.rows, rows < 4, layout_x.alignment_bytes % 16 == 0);
    const Side matrix(problem, !cut.x_is_a, cut.length, false,
                      layout_matrix.alignment_bytes % 16 == 0);
    const bool copied = rows >= kRowsByBoxes &&
                        !(config == kHopper && x.Boxable(problem) && matrix.Boxable(problem));
    const double math_rate = (copied ? kCopiedMathFraction : kMathFraction) *
                             std::max(1.0, device.f32_flops_per_second) / multiprocessors;
    const double strip = static_cast<double>(SkinnyStrip(cut.rows));
    const double product_seconds =
        2.0 * rows * strip / math_rate + (x.aligned_16 ? 0 : rows * kCopyXSeconds) +
        (matrix.aligned_16 ? 0 : strip * (matrix.along ? kCopyAlongSeconds : kCopyAcrossSeconds));
    // A block alone on a multiprocessor draws 1.1 times that one's share of the memory's rate.
    const double busy = std::min(1.0, 1.1 * blocks / multiprocessors);
    const double bytes = 4 * batch *
                         (length * k + static_cast<double>(cut.rows) * k +
                          static_cast<double>(cut.rows) * length * (ReadsC(problem) ? 2 : 1));
    const double memory =
        bytes / busy / std::max(1.0, kMemoryFraction * device.memory_bytes_per_second);
    const double partial_bytes = 2.0 * sizeof(float) * static_cast<double>(cut.partial_elements);
    return kStartSeconds +
           std::max(std::ceil(blocks / multiprocessors) * block_k * product_seconds, memory) +
           (cut.way == Way::kCluster ? kClusterSeconds : 0) +
           (cut.way == Way::kSecondPass
                ? kSecondPassSeconds + partial_bytes / kPartialBytesPerSecond
                : 0);
  }

  cudaError_t Prepare(const DeviceInfo& device) const override {
    for (int i = 0; i < kRowCounts; ++i) {
      const size_t shared_bytes = kSharedBytes[static_cast<size_t>(i)];
      for (int feed = 0; feed < 8; ++feed) {
        const bool boxes = feed % 2 != 0;
        const Kernel kernel = KernelAt(i, feed / 4 != 0, feed / 2 % 2 != 0, boxes);
        if (kernel == nullptr || (boxes && device.compute_capability != 90)) continue;
        cudaFuncAttributes attributes;
        GEMM_RETURN_IF_CUDA_ERROR(cudaFuncGetAttributes(&attributes, kernel));
        if (shared_bytes > device.shared_bytes_per_block) continue;  // WhyNot refuses it
        GEMM_RETURN_IF_CUDA_ERROR(cudaFuncSetAttribute(
            kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)));
      }
    }
    if (device.compute_capability == 90) GEMM_RETURN_IF_CUDA_ERROR(PrepareTensorMaps());
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
      launch.dynamicSmemBytes = kSharedBytes[static_cast<size_t>(record.rows_index)];
      launch.stream = stream;
      launch.attrs = &cluster;
      launch.numAttrs = record.cluster ? 1 : 0;
      CUtensorMap map_x = {};
      CUtensorMap map_matrix = {};
      if (record.boxes) {
        GEMM_RETURN_IF_CUDA_ERROR(MakeTensorMap(record.boxes_x, &map_x));
        GEMM_RETURN_IF_CUDA_ERROR(MakeTensorMap(record.boxes_matrix, &map_matrix));
      }
      GEMM_RETURN_IF_CUDA_ERROR(cudaLaunchKernelEx(
          &launch, KernelAt(record.rows_index, record.x_along, record.along, record.boxes), map_x,
          map_matrix, g));
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
