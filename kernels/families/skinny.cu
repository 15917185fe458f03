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
//   Up to 16 rows: 4 lanes, 32 of j, 2 or 3 stages of 33 to 56 KiB, up to two blocks a
//   multiprocessor. Up to 32: 2 lanes, 64 of j; up to 64: 1 lane. One block, 2 or 3 stages of up to
//   104 KiB. And 2 lanes with 16 of j, 8 x 4 results a thread, 4 stages of 48 or 52 KiB: strips so
//   narrow that those of a short matrix fill the device, with all of k or in chunks.
//
// A warp has a ring of its own, of steps of the matrix and of x, which lie as in memory, k
// contiguous or not: 16 bytes are four products of a line, or four lines of a product. From 5 rows
// of x on, steps come by boxes of the copy engine, since other copies take as many issue slots as
// the arithmetic; below by cp.async. A box cannot begin but at a multiple of 16 bytes (the copy
// engine faults), so of a matrix whose rows do not, each fourth row goes into a box of its own,
// from the 16-byte boundary before it on: rows of a box lie shifted by as many elements, 0 to 3,
// and the reader takes single elements. x comes an element at a time up to 16 rows and where a
// block has few products of k; else it is copied first to where its rows are aligned, while the
// first boxes of the matrix are under way. Up to 8 rows, for a tile of 64 x 64, which `deep`
// computes where there is an engine, and where none is or matrices of a batch are shifted by
// different distances, cp.async copies shifted rows, and x an element at a time. One row has
// kernels without a ring (skinny_lines.h); batches of more whose strips fill the device have blocks
// that go on from strip to strip (skinny_batch.cu), for the same bits.
//
// Lanes are added by shuffles, warps through shared memory. k is cut into chunks where strips of j
// do not fill the device, of more than 16 rows also of those strips alone that are left over when
// the others fill it (LaneOrder). They are summed
//   one by one     by the same block, where the batch fills the device;
//   in a cluster   of two blocks, or of up to eight with few sums, which write these to each
//                  other's shared memory, where all clusters find places at once;
//   on their own   leaving their sums in the workspace to a second pass, elsewhere.
// All add them in order, so they agree.
//
// Blocks that have a multiprocessor to themselves start while the kernel before ends: those that
// fill one, and those of a launch of one wave, which ask for so much shared memory that no two
// share one. Without that they would crowd on the first to become free.
//
// Why so (H200, 2026-11-30, 4096 x 4096, us): a ring shared by the block, its warps meeting at
// every stage, 28 at 16 rows; a ring a warp, copied by its 32 threads, 23, of which half of the
// instructions were addresses; by boxes 20.9 with 16 warps and 19.8 with 8, the rest of the shared
// memory left alone. With 64 bytes of k in a row instead of 128 the memory gives what has k
// contiguous a third slower, 24.3 against 19.8 at 8 rows; contiguous parts of k for each warp
// instead of blocks in turn, 20.6. Reading x costs half as much where neighbouring threads ask for
// the same 16 bytes (2.1 cycles of 4), and no other sharing helps. Lost: clusters of 4, 30 us
// against 21 with a second pass at 2048 x 32 x 2048, since 30 fit at once; 8 of j a thread up to 16
// rows, 22 us at 16; boxes of each fourth row up to 8 rows, 29 us for 25 at 8 x 4097 x 4096; steps
// of 16 for 24 and 32 rows, another 2 us; two threads each way among four neighbours, which narrow
// strips have, with 64 of j: 33.1 for 30.4 at 32 rows, since registers spill.

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "kernels/cuda_status.h"
#include "kernels/families/add_chunks.h"
#include "kernels/families/families.h"
#include "kernels/families/launch_attributes.h"
#include "kernels/families/launch_records.h"
#include "kernels/families/pack_rows.h"
#include "kernels/families/skinny.cuh"
#include "kernels/families/skinny_batch.h"
#include "kernels/families/skinny_cost.h"
#include "kernels/families/skinny_cut.h"
#include "kernels/families/skinny_lines.h"
#include "kernels/families/tensor_boxes.h"
#include "kernels/families/why_not.h"

namespace gemm {
namespace {

// With clusters, and without; one row in its other class.
constexpr KernelConfig kConfigs[] = {
    {"skinny_f32_sm90_clusters", DType::kF32, NumericsClass::kChunkedLanes},
    {"skinny_f32_lanes", DType::kF32, NumericsClass::kChunkedLanes},
    {"skinny_f32_sequential", DType::kF32, NumericsClass::kSequential},
};
constexpr int kClusters = 0;
constexpr int kSequential = 2;

// Whether there is a copy engine for boxes.
bool HasBoxes(const DeviceInfo& device) { return device.compute_capability == 90; }
// A plan's variant: how many multiprocessors such a device has, or 0.
int VariantOf(const DeviceInfo& device) {
  return HasBoxes(device) ? std::max(1, device.multiprocessors) : 0;
}

template <int I>
constexpr int kStripOf = kSkinnyRowCounts[I].Strip();
template <int I, SkinnyFeed kFeed>
using ShapeOf = SkinnyShape<kSkinnyRowCounts[I].rows, kFeed, kStripOf<I>>;

constexpr int64_t kMaxGridX = (int64_t{1} << 31) - 1;
constexpr int64_t kMostItems = int64_t{1} << 30;  // a step beyond them is still an int
constexpr int64_t kMaxGridZ = 65535;
constexpr size_t kLoneSharedBytes = size_t{117} << 10;  // more than half of a multiprocessor's

// Of the matrix.
template <int kCount>
struct SkinnyMaps {
  CUtensorMap of[kCount];
};
template <int I, SkinnyFeed kFeed>
constexpr int kMaps = ShapeOf<I, kFeed>::kQuartered ? kSkinnyQuarters : 1;

template <int I, bool kXAlong, bool kAlong, SkinnyFeed kFeed>
__global__ void __launch_bounds__(kSkinnyThreads, ShapeOf<I, kFeed>::kBlocks)
    Skinny(const __grid_constant__ CUtensorMap map_x,
           const __grid_constant__ SkinnyMaps<kMaps<I, kFeed>> maps_matrix,
           const __grid_constant__ SkinnyGemm g) {
  using Shape = ShapeOf<I, kFeed>;
  if constexpr (!Shape::kEngine) {
    SkinnyMultiply<Shape, kXAlong, kAlong>(g, nullptr, nullptr);
  } else {
#if __CUDA_ARCH__ >= 900
    SkinnyMultiply<Shape, kXAlong, kAlong>(g, &map_x, maps_matrix.of);
#endif
  }
}

struct Kernel {
  const void* function = nullptr;
  int step = 0;
  size_t shared_bytes = 0;
  bool alone = false;      // a block fills a multiprocessor
  size_t spare_bytes = 0;  // with fewer stages
};

template <int I, bool kXAlong, bool kAlong, SkinnyFeed kFeed>
Kernel KernelOf() {
  if constexpr (HasSkinnyKernel(I, kXAlong, kFeed)) {
    using Shape = ShapeOf<I, kFeed>;
    return {reinterpret_cast<const void*>(&Skinny<I, kXAlong, kAlong, kFeed>), Shape::kStep,
            Shape::kSharedBytes, Shape::kBlocks == 1,
            size_t{Shape::kStages - Shape::kFewerStages} * Shape::kStageBytes};
  } else {
    return {};
  }
}

// By index of kSkinnyRowCounts, feed, [x with k contiguous][the matrix with k contiguous].
struct KernelsOfFeed {
  Kernel by_layout[2][2];
};
template <int I, SkinnyFeed kFeed>
KernelsOfFeed KernelsOf() {
  return {{{KernelOf<I, false, false, kFeed>(), KernelOf<I, false, true, kFeed>()},
           {KernelOf<I, true, false, kFeed>(), KernelOf<I, true, true, kFeed>()}}};
}
const auto kKernels = []<int... I>(std::integer_sequence<int, I...>) {
  return std::array{std::array{
      KernelsOf<I, SkinnyFeed::kCopies>(), KernelsOf<I, SkinnyFeed::kBoxes>(),
      KernelsOf<I, SkinnyFeed::kShifted>(), KernelsOf<I, SkinnyFeed::kShiftedBoxes>()}...};
}
(std::make_integer_sequence<int, kSkinnyCounts>());
constexpr SkinnyFeed kFeeds[] = {SkinnyFeed::kCopies, SkinnyFeed::kBoxes, SkinnyFeed::kShifted,
                                 SkinnyFeed::kShiftedBoxes};
const Kernel& KernelAt(int index, SkinnyFeed feed, bool x_along, bool along) {
  return kKernels[static_cast<size_t>(index)][static_cast<size_t>(feed)]
      .by_layout[x_along ? 1 : 0][along ? 1 : 0];
}

bool ByEngine(SkinnyFeed feed) {
  return feed == SkinnyFeed::kBoxes || feed == SkinnyFeed::kShiftedBoxes;
}
const Kernel& KernelFor(const SkinnyCut& cut) {
  return KernelAt(cut.rows_index, cut.feed, cut.x.along, cut.matrix.along);
}

SkinnyCut CutOf(const Problem& problem, const DeviceInfo& device, int config) {
  if (config == kSequential) return CutSequentialLine(problem);
  return CutSkinny(problem, config == kClusters, HasBoxes(device),
                   problem.a.alignment_bytes % 16 == 0, problem.b.alignment_bytes % 16 == 0);
}

size_t PackedBytes(const SkinnyCut& cut) {
  return static_cast<size_t>(cut.packed_elements) * sizeof(float);
}
size_t PartialBytes(const SkinnyCut& cut) {
  return static_cast<size_t>(cut.partial_elements) * sizeof(float);
}

struct LaunchRecord {
  SkinnyGemm args;
  RowPacking packing;  // of x, if it has rows
  TensorBoxes boxes_x;
  TensorBoxes boxes_matrix[kSkinnyQuarters];
  SkinnyKind kind;
  SkinnyFeed feed;
  int rows_index;
  bool x_along;
  bool along;
  bool cluster;
  bool second_pass;
  size_t shared_bytes;
  unsigned threads;
  unsigned blocks;
  unsigned planes;
};
static_assert(std::is_trivially_copyable_v<LaunchRecord> && alignof(LaunchRecord) <= 16);

// The patterns of SkinnySide::UnitAt.
int SwizzleOfX(const SkinnyRowCount& count, bool along) {
  return along ? (count.narrow ? 128 : 0) : count.rows == 8 ? 32 : count.rows == 16 ? 64 : 0;
}
int SwizzleOfMatrix(int step, bool along) { return along ? 4 * step : 0; }

// So much that no more than so many blocks share a multiprocessor, whatever else they ask for.
size_t SharedBytesOfPlaces(int places) { return (size_t{228} << 10) / (places + 1) + 1024; }

// Of a line: blocks that stay.
void RecordLine(const LineCut& cut, const Plan& plan, LaunchRecord* record) {
  record->args.line = {.warps = cut.warps,
                       .share = cut.share,
                       .rows = cut.rows,
                       .strips = static_cast<int>(cut.strips),
                       .parts = static_cast<int>(cut.parts),
                       .items = static_cast<int>(cut.items),
                       .by_strips = DivisorOf(cut.strips),
                       .by_parts = DivisorOf(cut.parts)};
  record->blocks = static_cast<unsigned>(cut.blocks);
  record->threads = static_cast<unsigned>(32 * cut.block_warps);
  record->shared_bytes = plan.variant > 0 && !cut.freely ? SharedBytesOfPlaces(cut.places) : 0;
  record->args.alone = !cut.late;
}

LaunchRecord Record(const Problem& problem, const Operands& operands, const Plan& plan) {
  const auto at_16 = [](const void* base) { return reinterpret_cast<uintptr_t>(base) % 16 == 0; };
  const SkinnyCut cut = plan.config == kSequential
                            ? CutSequentialLine(problem)
                            : CutSkinny(problem, plan.config == kClusters, plan.variant > 0,
                                        at_16(operands.a), at_16(operands.b));
  LaunchRecord record;
  std::memset(static_cast<void*>(&record), 0, sizeof(record));
  SkinnyGemm& g = record.args;
  g.p = MakeStridedGemm<float>(problem, operands);
  g.rows = cut.rows;
  g.length = cut.length;
  g.x_is_a = cut.x_is_a;
  g.x = cut.x_is_a ? g.p.a : g.p.b;
  g.matrix = cut.x_is_a ? g.p.b : g.p.a;
  g.x_row = cut.x.line_stride;
  g.x_column = cut.x.k_stride;
  g.x_batch = cut.x.batch_stride;
  g.x_16 = cut.x.aligned_16;
  g.matrix_16 = cut.matrix.along && cut.matrix.aligned_16;
  g.matrix_row = cut.matrix.line_stride;
  g.matrix_column = cut.matrix.k_stride;
  g.matrix_batch = cut.matrix.batch_stride;
  if (cut.kind == SkinnyKind::kBatch) {
    const auto strip = static_cast<int>(cut.order.strip);
    record.boxes_matrix[0] = cut.matrix.Boxes(problem, g.matrix, strip, kLaneBlock, 0);
    g.box_step_matrix = cut.matrix.OneForAll(problem) ? 0 : 1;
  } else if (ByEngine(cut.feed)) {
    const int rows = kSkinnyRowCounts[cut.rows_index].rows;
    const auto strip = static_cast<int>(cut.order.strip);
    const int step = KernelFor(cut).step;
    SkinnyOperand x = cut.x;
    if (cut.packs_x) {
      x = cut.x.Packed(problem);
      record.packing = {.from = g.x,
                        .row_stride = cut.x.along ? cut.x.line_stride : cut.x.k_stride,
                        .batch_stride = cut.x.batch_stride,
                        .rows = cut.x.Rows(problem),
                        .elements = cut.x.RowElements(problem),
                        .matrices = cut.x.OneForAll(problem) ? 1 : problem.batch_count,
                        .to = nullptr,
                        .pitch = x.along ? x.line_stride : x.k_stride};
    }
    if (!cut.x_by_elements) {
      record.boxes_x =
          x.Boxes(problem, g.x, rows, step, SwizzleOfX(kSkinnyRowCounts[cut.rows_index], x.along));
    }
    if (cut.feed == SkinnyFeed::kBoxes) {
      record.boxes_matrix[0] =
          cut.matrix.Boxes(problem, g.matrix, strip, step, SwizzleOfMatrix(step, cut.matrix.along));
    }
    for (int q = 0; q < kSkinnyQuarters && cut.feed == SkinnyFeed::kShiftedBoxes; ++q) {
      record.boxes_matrix[q] = cut.matrix.QuarterBoxes(problem, g.matrix, q, strip, step);
    }
    g.box_step_x = x.OneForAll(problem) ? 0 : 1;
    g.box_step_matrix = cut.matrix.OneForAll(problem) ? 0 : 1;
  }
  g.x_is_packed = cut.packs_x;
  g.x_by_elements = cut.x_by_elements;
  g.whole_strips = cut.order.whole_strips;
  g.chunks = static_cast<int>(cut.order.chunks);
  g.chunk_blocks = static_cast<int>(cut.ChunkBlocks());
  g.chunk_length = cut.order.chunk_length;
  g.pitch = cut.pitch;
  record.kind = cut.kind;
  record.second_pass = cut.way == SkinnyWay::kSecondPass;
  if (cut.IsLine()) {
    RecordLine(cut.line, plan, &record);
    return record;
  }
  record.feed = cut.feed;
  record.rows_index = cut.rows_index;
  record.x_along = cut.x.along;
  record.along = cut.matrix.along;
  record.cluster = cut.way == SkinnyWay::kCluster;
  record.blocks = static_cast<unsigned>(cut.Blocks());
  if (cut.kind == SkinnyKind::kBatch) {
    record.blocks = static_cast<unsigned>(
        std::min<int64_t>(plan.variant, cut.order.strips * problem.batch_count));
  }
  record.planes = static_cast<unsigned>(std::min(problem.batch_count, kMaxGridZ));
  // Blocks of one wave do not share multiprocessors, and those that could are kept from it.
  const bool one_wave = int64_t{record.blocks} * record.planes <= plan.variant;
  g.alone = (cut.kind == SkinnyKind::kStrips && KernelFor(cut).alone) || one_wave;
  record.shared_bytes = KernelFor(cut).shared_bytes;
  g.fewer_stages = plan.variant > 0 && !one_wave && KernelFor(cut).spare_bytes > 0;
  if (g.fewer_stages) record.shared_bytes -= KernelFor(cut).spare_bytes;
  if (one_wave) record.shared_bytes = std::max(record.shared_bytes, kLoneSharedBytes);
  return record;
}

// The kernel of strips.
cudaError_t LaunchStrips(const LaunchRecord& record, cudaStream_t stream) {
  SkinnyGemm g = record.args;
  const Kernel& kernel = KernelAt(record.rows_index, record.feed, record.x_along, record.along);
  cudaLaunchAttribute attributes[2];
  unsigned used = 0;
  if (record.cluster) attributes[used++] = InClustersOf(g.chunk_blocks);
  // Started while the one before ends, where its blocks have a multiprocessor to themselves
  // and so cannot crowd.
  if (g.alone) attributes[used++] = StartsEarly();
  cudaLaunchConfig_t launch = {};
  launch.gridDim = dim3(record.blocks, 1, record.planes);
  launch.blockDim = dim3(kSkinnyThreads);
  launch.dynamicSmemBytes = record.shared_bytes;
  launch.stream = stream;
  launch.attrs = attributes;
  launch.numAttrs = used;
  CUtensorMap map_x = {};
  CUtensorMap maps_matrix[kSkinnyQuarters] = {};
  if (record.boxes_x.base != nullptr) {
    GEMM_RETURN_IF_CUDA_ERROR(MakeTensorMap(record.boxes_x, &map_x));
  }
  for (int q = 0; q < kSkinnyQuarters; ++q) {
    if (record.boxes_matrix[q].base != nullptr) {
      GEMM_RETURN_IF_CUDA_ERROR(MakeTensorMap(record.boxes_matrix[q], &maps_matrix[q]));
    }
  }
  // Kernels of one map take the first.
  void* parameters[] = {&map_x, maps_matrix, &g};
  return cudaLaunchKernelExC(&launch, kernel.function, parameters);
}

// Adds the chunks of the strips that are cut.
cudaError_t LaunchSecondPass(const SkinnyGemm& g, int strip, cudaStream_t stream) {
  StridedGemm<float> p = g.p;
  const int64_t first = g.whole_strips * strip;
  (g.x_is_a ? p.n : p.m) -= first;
  p.d += g.x_is_a ? first : first * p.d_row;
  if (p.c != nullptr) p.c += g.x_is_a ? first : first * p.c_row;
  return LaunchAddChunks(p, {g.partial, g.pitch, g.chunks, !g.x_is_a}, stream);
}

class Family final : public KernelFamily {
 public:
  std::string_view name() const override { return "skinny"; }
  std::span<const KernelConfig> configs() const override { return kConfigs; }

  std::string WhyNot(const Problem& problem, const DeviceInfo& device, int config) const override {
    if (std::string why =
            config == kClusters ? WhyNotF32OnHopper(problem, device) : WhyNotF32(problem);
        !why.empty()) {
      return why;
    }
    if (std::string why = WhyNotSummed(problem, kConfigs[config].numerics); !why.empty()) {
      return why;
    }
    const bool line = std::min(problem.m, problem.n) == 1;
    if (config == kClusters && line) return "one row or column is summed without clusters";
    if (config == kSequential && !line) return "sums one row or column alone";
    const SkinnyCut cut = CutOf(problem, device, config);
    if (cut.Blocks() > kMaxGridX) return "n or m needs more than 2^31 - 1 blocks";
    if (cut.IsLine() && cut.line.items > kMostItems) return "has more than 2^30 strips in all";
    if ((cut.order.whole_strips > 0 ? problem.k : cut.order.chunk_length) >
        kMaxGridX - kLaneRound) {
      return "k has chunks of 2^31 or more";
    }
    const size_t shared_bytes = cut.IsLine() ? 0 : KernelFor(cut).shared_bytes;
    if (shared_bytes > device.shared_bytes_per_block) {
      return "needs " + std::to_string(shared_bytes) + " bytes of shared memory a block";
    }
    return {};
  }

  double ModelSeconds(const Problem& problem, const DeviceInfo& device, int config) const override {
    return SkinnySeconds(problem, device, CutOf(problem, device, config));
  }

  cudaError_t Prepare(const DeviceInfo& device) const override {
    for (int i = 0; i < kSkinnyCounts; ++i) {
      for (SkinnyFeed feed : kFeeds) {
        for (int layout = 0; layout < 4; ++layout) {
          const Kernel& kernel = KernelAt(i, feed, layout / 2 != 0, layout % 2 != 0);
          if (kernel.function == nullptr || (ByEngine(feed) && !HasBoxes(device))) continue;
          cudaFuncAttributes attributes;
          GEMM_RETURN_IF_CUDA_ERROR(cudaFuncGetAttributes(&attributes, kernel.function));
          // WhyNot refuses what does not fit.
          if (kernel.shared_bytes > device.shared_bytes_per_block) continue;
          const size_t shared_bytes = HasBoxes(device)
                                          ? std::max(kernel.shared_bytes, kLoneSharedBytes)
                                          : kernel.shared_bytes;
          GEMM_RETURN_IF_CUDA_ERROR(
              cudaFuncSetAttribute(kernel.function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(shared_bytes)));
        }
      }
    }
    if (HasBoxes(device)) {
      GEMM_RETURN_IF_CUDA_ERROR(PrepareTensorMaps());
      GEMM_RETURN_IF_CUDA_ERROR(PrepareSkinnyBatch());
    }
    GEMM_RETURN_IF_CUDA_ERROR(PreparePackRows());
    const size_t line_bytes = HasBoxes(device) ? SharedBytesOfPlaces(1) : 0;
    GEMM_RETURN_IF_CUDA_ERROR(PrepareSkinnyColumns(line_bytes));
    GEMM_RETURN_IF_CUDA_ERROR(PrepareSkinnyDots(line_bytes));
    GEMM_RETURN_IF_CUDA_ERROR(PrepareSkinnySequential(line_bytes));
    return PrepareAddChunks();
  }

  Plan MakePlan(std::span<const Problem> problems, const DeviceInfo& device,
                int config) const override {
    Plan plan;
    plan.config = config;
    plan.variant = VariantOf(device);
    for (const Problem& problem : problems) {
      if (IsEmpty(problem)) continue;
      const SkinnyCut cut = CutOf(problem, device, config);
      plan.launches += 1 + (cut.way == SkinnyWay::kSecondPass ? 1 : 0) + (cut.packs_x ? 1 : 0);
      plan.args_bytes += sizeof(LaunchRecord);
      plan.workspace_bytes = std::max(plan.workspace_bytes, PackedBytes(cut) + PartialBytes(cut));
    }
    return plan;
  }

  void Encode(const Plan& plan, std::span<const Problem> problems,
              std::span<const Operands> operands, void* args) const override {
    EncodeEach(problems, operands, args, [&](const Problem& problem, const Operands& of_problem) {
      return Record(problem, of_problem, plan);
    });
  }

  cudaError_t Launch(const Plan& plan, const void* args, const void* /*device_args*/,
                     void* workspace, cudaStream_t stream) const override {
    return LaunchEach<LaunchRecord>(plan, args, [&](LaunchRecord& record) -> cudaError_t {
      SkinnyGemm& g = record.args;
      auto* work = static_cast<float*>(workspace);
      if (record.packing.rows > 0) {
        record.packing.to = work;
        record.boxes_x.base = work;
        GEMM_RETURN_IF_CUDA_ERROR(LaunchPackRows(record.packing, stream));
        work += record.packing.matrices * record.packing.rows * record.packing.pitch;
      }
      if (record.second_pass) g.partial = work;
      switch (record.kind) {
        case SkinnyKind::kDots:
          GEMM_RETURN_IF_CUDA_ERROR(
              LaunchSkinnyDots(g, {record.blocks, record.threads, record.shared_bytes}, stream));
          break;
        case SkinnyKind::kColumns:
          GEMM_RETURN_IF_CUDA_ERROR(
              LaunchSkinnyColumns(g, {record.blocks, record.threads, record.shared_bytes}, stream));
          break;
        case SkinnyKind::kSequential:
          GEMM_RETURN_IF_CUDA_ERROR(LaunchSkinnySequential(
              g, {record.blocks, record.threads, record.shared_bytes}, stream));
          break;
        case SkinnyKind::kBatch:
          GEMM_RETURN_IF_CUDA_ERROR(
              LaunchSkinnyBatch(g, record.boxes_matrix[0], record.blocks, stream));
          break;
        case SkinnyKind::kStrips:
          GEMM_RETURN_IF_CUDA_ERROR(LaunchStrips(record, stream));
          break;
      }
      if (!record.second_pass) return cudaSuccess;
      if (g.length == 1) return LaunchSkinnyDotTotal(g, stream);
      return LaunchSecondPass(g, kSkinnyRowCounts[record.rows_index].Strip(), stream);
    });
  }
};

}  // namespace

const KernelFamily& SkinnyFamily() {
  static const Family family;
  return family;
}

}  // namespace gemm
