// deep: f32 products of few results and a long k, in tiles of 64 x 64 of which every multiprocessor
// sums a share of k. The time is that of reading the operands once or of the multiply-adds, which
// are as much at 64 x 64, so all serves to begin with both at once.
//
//    global    A and B as they lie, 32 products of each of 64 lines a stage, 6 stages of 16 KiB
//      |       under way from the first moment: by boxes of the copy engine, or an element at a
//      |       time by 4 warps where rows are not 16-byte aligned
//      v
//    stage     [k][line], as it came or turned in its place by 4 warps where k is contiguous
//      |       (deep_feed.cuh): so there is one loop for all transposes
//      v
//    8 warps   two have the tile, 8 x 8 results a thread, and of each stage 8 products: four ways
//      |       (sum_order.h). No warp waits for another before the end
//      v
//    ways      added through the ring, 16 KiB of sums left in the workspace by each block
//      |
//      v
//    chunks    added by a second pass, in as many lanes as there are chunks, up to 32
//
// Of a batch that has more chunks than there are multiprocessors blocks take short ones in turn:
// deep_turns.cuh.
//
// Why so (H200, 2026-11-30, 64 x 64 x 65536, us): kernels/stories/deep.md.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "kernels/cuda_status.h"
#include "kernels/families/deep_multiply.cuh"
#include "kernels/families/deep_turns.cuh"
#include "kernels/families/families.h"
#include "kernels/families/launch_attributes.h"
#include "kernels/families/launch_records.h"
#include "kernels/families/tensor_boxes.h"
#include "kernels/families/why_not.h"

namespace gemm {
namespace {

constexpr KernelConfig kConfigs[] = {
    {"deep_f32_sm90", DType::kF32, NumericsClass::kDealtChunks},
};

// For the cost model: NVIDIA H200, 2026-11-30, by least squares, but for the first two and the
// start, which ten products have told since. Fractions are of the memory's rate by its clocks and
// of the arithmetic peak.
constexpr double kMathFraction = 0.73;
constexpr double kCopiedFraction = 0.56;  // where threads copy
constexpr double kMemoryFraction = 1.02;  // beside the arithmetic, not before it
constexpr double kStartSeconds = 3.35e-6;
// To end a block and begin the next on its multiprocessor: they do not overlap.
constexpr double kNextSeconds = 2.3e-6;
// Of the second pass: of a chunk, and of a tile for each lane of chunks.
constexpr double kChunkSeconds = 0.006e-6;
constexpr double kLaneSeconds = 7.9e-9;
// Where blocks take chunks in turn: of 17 batches, off by 0.055. The last is of the memory's rate,
// for sums of chunks that are left and added.
constexpr double kTurnFraction = 0.556;
constexpr double kNarrowTurnFraction = 0.39;
constexpr double kCopiedTurn = 1.19;  // times as long
constexpr double kLeftFraction = 0.70;

// Whole stages of it fit an int.
constexpr int64_t kMostDepth = (int64_t{1} << 31) - 1 - kDeepStage;
constexpr int64_t kMostPartial = int64_t{1} << 24;  // elements

template <bool kBoxes>
constexpr int kThreads = 32 * (kDeepWarps + kDeepTurners + (kBoxes ? 1 : kDeepCopiers));

template <bool kBoxes>
__global__ void __launch_bounds__(kThreads<kBoxes>, 1)
    Deep(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
         const __grid_constant__ DeepGemm g) {
  DeepMultiply<kBoxes>(g, &map_a, &map_b);
}

__global__ void __launch_bounds__(kDeepSumThreads)
    AddDeepChunks(const __grid_constant__ DeepGemm g) {
  __shared__ float4 sums[kDeepSumThreads];
  switch (g.lanes) {
    case 2:
      return DeepAddChunks<2>(g, sums);
    case 4:
      return DeepAddChunks<4>(g, sums);
    case 8:
      return DeepAddChunks<8>(g, sums);
    case 16:
      return DeepAddChunks<16>(g, sums);
    default:
      return DeepAddChunks<kDeepChunkLanes>(g, sums);
  }
}

constexpr int kTurnThreads = 32 * (kDeepWarps + kDeepTurners + kDeepCopiers);

__global__ void __launch_bounds__(kTurnThreads, 1)
    DeepTurns(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
              const __grid_constant__ DeepGemm g, bool by_boxes) {
  DeepTakeTurns(g, by_boxes, &map_a, &map_b);
}

__global__ void __launch_bounds__(kDeepTurnSumThreads)
    AddDeepTurns(const __grid_constant__ DeepGemm g) {
  __shared__ float4 sums[kDeepChunkLanes * kDeepTurnSumQuads];
  DeepAddTurns(g, sums);
}

DeepOperand OperandOf(const Problem& problem, bool of_a) {
  const MatrixLayout& layout = of_a ? problem.a : problem.b;
  DeepOperand operand;
  std::memset(static_cast<void*>(&operand), 0, sizeof(operand));
  operand.along = of_a != layout.transposed;
  operand.line_stride = operand.along ? layout.ld : 1;
  operand.k_stride = operand.along ? 1 : layout.ld;
  operand.batch_stride = layout.batch_stride;
  operand.lines = of_a ? problem.m : problem.n;
  operand.box_step = problem.batch_count == 1 || layout.batch_stride == 0 ? 0 : 1;
  return operand;
}

// Whether the copy engine can bring it, from a base that is 16-byte aligned or not.
bool Boxable(const DeepOperand& operand, bool base_16) {
  constexpr int64_t kMostStride = (int64_t{1} << 36) - 1;  // elements
  const int64_t stride = operand.along ? operand.line_stride : operand.k_stride;
  return base_16 && stride % 4 == 0 && stride <= kMostStride &&
         (operand.box_step == 0 ||
          (operand.batch_stride % 4 == 0 && operand.batch_stride <= kMostStride));
}

TensorBoxes BoxesOf(const Problem& problem, const DeepOperand& operand, int64_t matrices) {
  TensorBoxes boxes;
  boxes.base = operand.base;
  boxes.outer = operand.along ? problem.k : operand.lines;
  boxes.depth = operand.along ? operand.lines : problem.k;
  boxes.matrices = operand.box_step == 0 ? 1 : matrices;
  boxes.depth_stride = operand.along ? operand.line_stride : operand.k_stride;
  boxes.matrix_stride = operand.batch_stride;
  boxes.box_outer = operand.along ? kDeepStage : kDeepTile;
  boxes.box_depth = operand.along ? kDeepTile : kDeepStage;
  boxes.swizzle_bytes = operand.along ? 4 * kDeepStage : 0;
  return boxes;
}

// Quads of results that a tile of so many rows leaves in the workspace.
constexpr int QuadsOf(int64_t rows) { return kDeepTileResults / 4 / (rows <= kDeepNarrow ? 2 : 1); }

// How many matrices go together: what their blocks leave in the workspace is bounded. Rounds are as
// large as each other.
int64_t RoundOf(const Problem& problem, const DeepOrder& order) {
  const int64_t elements = order.tiles * order.chunks * 4 * QuadsOf(std::min(problem.m, problem.n));
  const int64_t most = std::max<int64_t>(1, kMostPartial / elements);
  return TilesOf(problem.batch_count, TilesOf(problem.batch_count, most));
}

// Whether blocks take chunks of these matrices in turn. Long ones are as well off with a block
// each, which has larger parts of a tile a thread.
bool TakesTurns(const DeepOrder& order, int64_t matrices, int multiprocessors) {
  constexpr int64_t kShort = 256;
  return order.chunk_length <= kShort && order.tiles * order.chunks * matrices > multiprocessors;
}

// Whether D^T = B^T A^T is computed, whose sums are the same: where halves of tiles are left out,
// it may have fewer.
bool Turns(const Problem& problem) {
  const auto halves = [](int64_t rows, int64_t columns) {
    return TilesOf(rows, kDeepNarrow) * TilesOf(columns, kDeepTile);
  };
  return halves(problem.n, problem.m) < halves(problem.m, problem.n);
}

// Lanes of the second pass.
int LanesOf(const DeepOrder& order) {
  int lanes = 2;
  while (lanes < std::min<int64_t>(order.chunks, kDeepChunkLanes)) lanes *= 2;
  return lanes;
}

// What the second pass's blocks ask for, so that none of them share a multiprocessor while others
// are free: they start as those of the first pass end, one by one.
size_t SumSharedBytes(unsigned blocks) {
  constexpr size_t kShared = 228 * 1024;  // of a multiprocessor, 1 KiB of it for each block
  constexpr size_t kOfBlock = 1024 + sizeof(float4) * kDeepSumThreads;
  const size_t together = TilesOf(blocks, kDeepMostChunks);
  const size_t bytes = kShared / (together + 1);
  return bytes <= kOfBlock ? 0 : bytes - kOfBlock + 16;
}

struct LaunchRecord {
  DeepGemm args;
  TensorBoxes boxes_a;
  TensorBoxes boxes_b;
  bool by_boxes;
};
static_assert(std::is_trivially_copyable_v<LaunchRecord> && alignof(LaunchRecord) <= 16);

// Of `matrices` of the batch, from the first-th on.
LaunchRecord Record(const Problem& problem, const Operands& operands, int64_t first,
                    int64_t matrices, int multiprocessors) {
  const DeepOrder order(problem);
  LaunchRecord record;
  std::memset(static_cast<void*>(&record), 0, sizeof(record));
  DeepGemm& g = record.args;
  g.p = MakeStridedGemm<float>(problem, operands);
  g.p.batch_count = matrices;
  g.p.d += first * g.p.d_batch;
  if (g.p.c != nullptr) g.p.c += first * g.p.c_batch;
  g.in_turns = TakesTurns(order, matrices, multiprocessors);
  g.turned = g.in_turns && Turns(problem);
  g.a = OperandOf(problem, !g.turned);
  g.b = OperandOf(problem, g.turned);
  g.tiles_m = static_cast<int>(TilesOf(g.a.lines, kDeepTile));
  g.tiles_n = static_cast<int>(TilesOf(g.b.lines, kDeepTile));
  g.chunks = static_cast<int>(order.chunks);
  g.chunk_length = static_cast<int>(order.chunk_length);
  g.pieces = static_cast<int>(order.tiles * order.chunks * matrices);
  g.by_chunks = DivisorOf(order.chunks);
  g.by_tiles = DivisorOf(order.tiles);
  g.by_tiles_n = DivisorOf(g.tiles_n);
  g.lanes = LanesOf(order);
  g.quads = QuadsOf(g.in_turns ? g.a.lines : kDeepTile);
  if (!ReadsAB(problem)) return record;
  g.a.base = g.p.a + first * g.p.a_batch;
  g.b.base = g.p.b + first * g.p.b_batch;
  if (g.turned) std::swap(g.a.base, g.b.base);
  // Strides of a batch keep what is aligned so.
  const auto at_16 = [](const void* base) { return reinterpret_cast<uintptr_t>(base) % 16 == 0; };
  record.by_boxes = Boxable(g.a, at_16(g.a.base)) && Boxable(g.b, at_16(g.b.base));
  if (record.by_boxes) {
    record.boxes_a = BoxesOf(problem, g.a, matrices);
    record.boxes_b = BoxesOf(problem, g.b, matrices);
  }
  return record;
}

class Family final : public KernelFamily {
 public:
  std::string_view name() const override { return "deep"; }
  std::span<const KernelConfig> configs() const override { return kConfigs; }

  std::string WhyNot(const Problem& problem, const DeviceInfo& device,
                     int /*config*/) const override {
    if (std::string why = WhyNotF32OnHopper(problem, device); !why.empty()) return why;
    if (std::string why = WhyNotSummed(problem, NumericsClass::kDealtChunks); !why.empty()) {
      return why;
    }
    if (problem.k > kMostDepth) return "k is more than 2^31 - 33";
    return {};
  }

  double ModelSeconds(const Problem& problem, const DeviceInfo& device,
                      int /*config*/) const override {
    const DeepOrder order(problem);
    const auto aligned = [&](bool of_a) {
      const int32_t bytes = (of_a ? problem.a : problem.b).alignment_bytes;
      return Boxable(OperandOf(problem, of_a), bytes % 16 == 0);
    };
    const double multiprocessors = std::max(1, device.multiprocessors);
    const double blocks =
        static_cast<double>(order.tiles * order.chunks) * static_cast<double>(problem.batch_count);
    const auto length = static_cast<double>(ReadsAB(problem) ? order.chunk_length : 0);
    const bool by_boxes = aligned(true) && aligned(false);
    const double peak = std::max(1.0, device.f32_flops_per_second) / multiprocessors;
    const double waves = std::ceil(blocks / multiprocessors);
    const double bytes = 4.0 * static_cast<double>(problem.batch_count) *
                         static_cast<double>(problem.m + problem.n) *
                         static_cast<double>(ReadsAB(problem) ? problem.k : 0);
    const double memory = bytes / std::max(1.0, kMemoryFraction * device.memory_bytes_per_second);
    if (TakesTurns(order, problem.batch_count, device.multiprocessors)) {
      const bool narrow = std::min(problem.m, problem.n) <= kDeepNarrow;
      const double turn = length * 2.0 * kDeepTileResults / (narrow ? 2 : 1) /
                          ((narrow ? kNarrowTurnFraction : kTurnFraction) * peak) *
                          (by_boxes ? 1 : kCopiedTurn);
      const double left = 4.0 * static_cast<double>(problem.batch_count * order.chunks) *
                          static_cast<double>(problem.m) * static_cast<double>(problem.n);
      return kStartSeconds + std::hypot(waves * turn, memory) +
             left / std::max(1.0, kLeftFraction * device.memory_bytes_per_second);
    }
    const double rate = (by_boxes ? kMathFraction : kCopiedFraction) * peak;
    const double math = waves * length * 2.0 * kDeepTileResults / rate + (waves - 1) * kNextSeconds;
    const double adding =
        static_cast<double>(order.chunks) * kChunkSeconds +
        static_cast<double>(order.tiles * problem.batch_count * LanesOf(order)) * kLaneSeconds;
    return kStartSeconds + std::hypot(math, memory) + adding;
  }

  cudaError_t Prepare(const DeviceInfo& device) const override {
    if (device.compute_capability != 90) return cudaSuccess;  // WhyNot refuses everything
    for (const void* kernel : {KernelOf(false), KernelOf(true)}) {
      GEMM_RETURN_IF_CUDA_ERROR(LoadKernel(kernel, kDeepSharedBytes));
    }
    GEMM_RETURN_IF_CUDA_ERROR(
        LoadKernel(reinterpret_cast<const void*>(&DeepTurns), kDeepTurnSharedBytes));
    GEMM_RETURN_IF_CUDA_ERROR(
        LoadKernel(reinterpret_cast<const void*>(&AddDeepChunks), SumSharedBytes(1)));
    GEMM_RETURN_IF_CUDA_ERROR(LoadKernel(reinterpret_cast<const void*>(&AddDeepTurns), 0));
    return PrepareTensorMaps();
  }

  // Its variant is the number of multiprocessors, which a launch's blocks follow from.
  Plan MakePlan(std::span<const Problem> problems, const DeviceInfo& device,
                int config) const override {
    Plan plan;
    plan.config = config;
    plan.variant = std::max(1, device.multiprocessors);
    for (const Problem& problem : problems) {
      if (IsEmpty(problem)) continue;
      const DeepOrder order(problem);
      const int64_t round = RoundOf(problem, order);
      const int64_t rounds = TilesOf(problem.batch_count, round);
      plan.launches += static_cast<int>(2 * rounds);
      plan.args_bytes += static_cast<size_t>(rounds) * sizeof(LaunchRecord);
      // The last round may have less to leave, never more.
      const int64_t rows =
          TakesTurns(order, round, plan.variant) ? std::min(problem.m, problem.n) : kDeepTile;
      plan.workspace_bytes =
          std::max(plan.workspace_bytes, static_cast<size_t>(round * order.tiles * order.chunks) *
                                             static_cast<size_t>(QuadsOf(rows)) * sizeof(float4));
    }
    return plan;
  }

  void Encode(const Plan& plan, std::span<const Problem> problems,
              std::span<const Operands> operands, void* args) const override {
    auto* out = static_cast<unsigned char*>(args);
    for (size_t i = 0; i < problems.size(); ++i) {
      const Problem& problem = problems[i];
      if (IsEmpty(problem)) continue;
      const int64_t round = RoundOf(problem, DeepOrder(problem));
      for (int64_t first = 0; first < problem.batch_count; first += round) {
        const LaunchRecord record =
            Record(problem, operands[i], first, std::min(round, problem.batch_count - first),
                   plan.variant);
        std::memcpy(out, &record, sizeof(record));
        out += sizeof(record);
      }
    }
  }

  cudaError_t Launch(const Plan& plan, const void* args, const void* /*device_args*/,
                     void* workspace, cudaStream_t stream) const override {
    return LaunchEach<LaunchRecord>(plan, args, [&](LaunchRecord& record) -> cudaError_t {
      DeepGemm& g = record.args;
      g.partial = static_cast<float*>(workspace);
      CUtensorMap maps[2] = {};
      if (record.by_boxes) {
        GEMM_RETURN_IF_CUDA_ERROR(MakeTensorMap(record.boxes_a, &maps[0]));
        GEMM_RETURN_IF_CUDA_ERROR(MakeTensorMap(record.boxes_b, &maps[1]));
      }
      // A block takes most of a multiprocessor's registers, so blocks that start while the kernel
      // before ends cannot crowd.
      cudaLaunchAttribute early = StartsEarly();
      cudaLaunchConfig_t launch = {};
      launch.stream = stream;
      launch.attrs = &early;
      launch.numAttrs = 1;
      if (g.in_turns) {
        launch.gridDim = dim3(static_cast<unsigned>(plan.variant));
        launch.blockDim = dim3(kTurnThreads);
        launch.dynamicSmemBytes = kDeepTurnSharedBytes;
        GEMM_RETURN_IF_CUDA_ERROR(
            cudaLaunchKernelEx(&launch, &DeepTurns, maps[0], maps[1], g, record.by_boxes));
        launch.gridDim = dim3(static_cast<unsigned>(g.pieces / g.chunks) *
                              static_cast<unsigned>(g.quads / kDeepTurnSumQuads));
        launch.blockDim = dim3(kDeepTurnSumThreads);
        launch.dynamicSmemBytes = 0;
        return cudaLaunchKernelEx(&launch, &AddDeepTurns, g);
      }
      launch.gridDim = dim3(static_cast<unsigned>(g.pieces));
      launch.blockDim = dim3(record.by_boxes ? kThreads<true> : kThreads<false>);
      launch.dynamicSmemBytes = kDeepSharedBytes;
      void* parameters[] = {&maps[0], &maps[1], &g};
      GEMM_RETURN_IF_CUDA_ERROR(
          cudaLaunchKernelExC(&launch, KernelOf(record.by_boxes), parameters));
      launch.gridDim =
          dim3(static_cast<unsigned>(g.pieces / g.chunks) * static_cast<unsigned>(g.lanes) *
               (kDeepTileResults / 4 / kDeepSumThreads));
      launch.blockDim = dim3(kDeepSumThreads);
      launch.dynamicSmemBytes = SumSharedBytes(launch.gridDim.x);
      return cudaLaunchKernelEx(&launch, &AddDeepChunks, g);
    });
  }

 private:
  static const void* KernelOf(bool by_boxes) {
    return by_boxes ? reinterpret_cast<const void*>(&Deep<true>)
                    : reinterpret_cast<const void*>(&Deep<false>);
  }
};

}  // namespace

const KernelFamily& DeepFamily() {
  static const Family family;
  return family;
}

}  // namespace gemm
