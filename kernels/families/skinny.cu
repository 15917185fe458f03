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
//   Up to 16 rows: 4 lanes, 32 of j, 2 or 3 stages of 33 to 57 KiB, up to two blocks a
//   multiprocessor. Up to 32: 2 lanes, 64 of j; up to 64: 1 lane. One block, 2 or 3 stages of up to
//   96 KiB.
//
// A warp has a ring of its own, of steps of the matrix and of x, which lie as in memory, k
// contiguous or not: 16 bytes are four products of a line, or four lines of a product. Of rows that
// are 16-byte aligned, from 8 rows of x on, steps come by boxes of the copy engine, one thread
// asking, since other copies take as many issue slots as the arithmetic; below by cp.async. Of
// other rows, and where no engine is, cp.async copies the aligned 16 bytes that hold an element of
// the row of the matrix, so that it lies shifted by 0 to 3 elements, and the reader takes single
// elements; x, being small, is copied by elements where it is not aligned. (A box cannot begin but
// at a multiple of 16 bytes: the copy engine faults.) The same bits either way.
//
// Lanes are added by shuffles, warps through shared memory. k is cut into chunks where strips of j
// do not fill the device, of more than 16 rows also of those strips alone that are left over when
// the others fill it (LaneOrder). They are summed
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
// against 21 with a second pass at 2048 x 32 x 2048, since 30 fit at once; 8 of j a thread up to 16
// rows, 22 us at 16; every operand in four boxes of each fourth row, 1 to 3 us more from 16 rows
// on, 8 cycles a box; steps of 16 for 24 and 32 rows, another 2 us.

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

// With clusters, and without.
constexpr KernelConfig kConfigs[] = {
    {"skinny_f32_sm90_clusters", DType::kF32, NumericsClass::kChunkedLanes},
    {"skinny_f32_lanes", DType::kF32, NumericsClass::kChunkedLanes},
};
constexpr int kClusters = 0;

// Whether there is a copy engine for boxes.
constexpr int kBoxes = 1;  // the variant of a plan
bool HasBoxes(const DeviceInfo& device) { return device.compute_capability == 90; }

// A number of rows of x for which there are kernels.
struct RowCount {
  int rows;
  bool if_along = true;   // where x has k contiguous
  bool if_across = true;  // where it has the rows contiguous
  bool if_shifted = true;
};
// Whatever its rows, few are lines with k contiguous.
constexpr RowCount kRowCounts[] = {{.rows = 1, .if_across = false},
                                   {.rows = 2, .if_across = false},
                                   {.rows = 4},
                                   {.rows = 8},
                                   {.rows = 16},
                                   {.rows = 24, .if_shifted = false},
                                   {.rows = 32},
                                   {.rows = 40, .if_across = false},
                                   {.rows = 48, .if_along = false},
                                   {.rows = 64}};
constexpr int kCounts = static_cast<int>(std::size(kRowCounts));
static_assert(kRowCounts[kCounts - 1].rows >= kMostSkinnyTile);
constexpr int kRowsByBoxes = 8;  // and more

constexpr bool HasKernel(int index, bool x_along, SkinnyFeed feed) {
  const RowCount& count = kRowCounts[index];
  return (x_along ? count.if_along : count.if_across) &&
         (feed == SkinnyFeed::kShifted
              ? count.if_shifted
              : (feed == SkinnyFeed::kBoxes) == (count.rows >= kRowsByBoxes));
}

// For the cost model: NVIDIA H200, 2026-11-30. Fractions are of the memory's rate by its clocks and
// of the arithmetic peak.
constexpr double kMemoryFraction = 0.87;
constexpr double kMathFraction = 0.66;
// Of rows of any alignment: more of the memory's rows are read than the products have, and elements
// are loaded one at a time.
constexpr double kShiftedMemoryFraction = 0.6;
constexpr double kShiftedMathFraction = 0.48;
constexpr double kShiftedFewFraction = 0.32;  // up to 16 rows
constexpr double kBegin = 100;                // beginning and ending a block, in products
constexpr double kStartSeconds = 2.6e-6;
constexpr double kClusterSeconds = 1.0e-6;
constexpr double kSecondPassSeconds = 2.1e-6;
constexpr double kPartialBytesPerSecond = 2.5e12;

constexpr int64_t kMaxGridX = (int64_t{1} << 31) - 1;
constexpr int64_t kMaxGridZ = 65535;
constexpr int64_t kTogether = 2;         // blocks of a cluster
constexpr int64_t kEnoughBlocks = 1024;  // fill any device without a cut of k
constexpr int64_t kMaxPartialBytes = int64_t{64} << 20;

template <int I, bool kXAlong, bool kAlong, SkinnyFeed kFeed>
__global__ void __launch_bounds__(kSkinnyThreads, SkinnyShape<kRowCounts[I].rows, kFeed>::kBlocks)
    Skinny(const __grid_constant__ CUtensorMap map_x,
           const __grid_constant__ CUtensorMap map_matrix, const __grid_constant__ SkinnyGemm g) {
  using Shape = SkinnyShape<kRowCounts[I].rows, kFeed>;
  if constexpr (kFeed != SkinnyFeed::kBoxes) {
    SkinnyMultiply<Shape, kXAlong, kAlong>(g, nullptr, nullptr);
  } else {
#if __CUDA_ARCH__ >= 900
    SkinnyMultiply<Shape, kXAlong, kAlong>(g, &map_x, &map_matrix);
#endif
  }
}

struct Kernel {
  void (*function)(CUtensorMap, CUtensorMap, SkinnyGemm) = nullptr;
  int step = 0;
  size_t shared_bytes = 0;
  bool alone = false;  // a block fills a multiprocessor
};

template <int I, bool kXAlong, bool kAlong, SkinnyFeed kFeed>
constexpr Kernel KernelOf() {
  if constexpr (HasKernel(I, kXAlong, kFeed)) {
    using Shape = SkinnyShape<kRowCounts[I].rows, kFeed>;
    return {Skinny<I, kXAlong, kAlong, kFeed>, Shape::kStep, Shape::kSharedBytes,
            Shape::kBlocks == 1};
  } else {
    return {};
  }
}

// By index of kRowCounts, feed, [x with k contiguous][the matrix with k contiguous].
struct KernelsOfFeed {
  Kernel by_layout[2][2];
};
template <int I, SkinnyFeed kFeed>
constexpr KernelsOfFeed kKernelsOfFeed = {
    {{KernelOf<I, false, false, kFeed>(), KernelOf<I, false, true, kFeed>()},
     {KernelOf<I, true, false, kFeed>(), KernelOf<I, true, true, kFeed>()}}};
constexpr auto kKernels = []<int... I>(std::integer_sequence<int, I...>) {
  return std::array{std::array{kKernelsOfFeed<I, SkinnyFeed::kCopies>,
                               kKernelsOfFeed<I, SkinnyFeed::kBoxes>,
                               kKernelsOfFeed<I, SkinnyFeed::kShifted>}...};
}
(std::make_integer_sequence<int, kCounts>());
constexpr SkinnyFeed kFeeds[] = {SkinnyFeed::kCopies, SkinnyFeed::kBoxes, SkinnyFeed::kShifted};

const Kernel& KernelAt(int index, SkinnyFeed feed, bool x_along, bool along) {
  return kKernels[static_cast<size_t>(index)][static_cast<size_t>(feed)]
      .by_layout[x_along ? 1 : 0][along ? 1 : 0];
}

// One operand: `lines` rows of x, or of j, and how they lie.
struct Side {
  int64_t lines;
  int64_t line_stride;
  int64_t k_stride;
  int64_t batch_stride;
  bool along;       // k is contiguous, or taken for it
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
    aligned_16 = base_16 && (along ? k_stride : line_stride) == 1 &&
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

enum class Way { kOneByOne, kCluster, kSecondPass };

// Which operand is x, and how the launch is cut.
struct Cut {
  bool x_is_a;
  int64_t rows;
  int64_t length;
  Side x;
  Side matrix;
  SkinnyFeed feed;
  int rows_index;
  LaneOrder order;
  Way way;
  int64_t pitch;             // of sums in the workspace
  int64_t partial_elements;  // 0 but for a second pass

  const Kernel& KernelOf() const { return KernelAt(rows_index, feed, x.along, matrix.along); }
  int64_t Blocks() const {
    return order.whole_strips +
           (order.strips - order.whole_strips) * (way == Way::kOneByOne ? 1 : order.chunks);
  }
};

// `boxes`: the device has a copy engine. `a_16`, `b_16`: the operand begins at a multiple of 16
// bytes.
Cut CutOf(const Problem& problem, int config, bool boxes, bool a_16, bool b_16) {
  const bool x_is_a = problem.m <= problem.n;
  const int64_t rows = std::min(problem.m, problem.n);
  const int64_t length = std::max(problem.m, problem.n);
  const bool few = rows <= 2;
  Cut cut = {
      .x_is_a = x_is_a,
      .rows = rows,
      .length = length,
      .x = Side(problem, x_is_a, rows, few, x_is_a ? a_16 : b_16),
      .matrix = Side(problem, !x_is_a, length, false, x_is_a ? b_16 : a_16),
      .feed = SkinnyFeed::kShifted,
      .rows_index = 0,
      .order = LaneOrder(problem),
      .way = Way::kOneByOne,
      .pitch = 0,
      .partial_elements = 0,
  };
  if (rows <= kRowsByBoxes / 2) {
    if (cut.matrix.aligned_16) cut.feed = SkinnyFeed::kCopies;
  } else if (boxes && ReadsAB(problem) && cut.x.Boxable(problem) && cut.matrix.Boxable(problem)) {
    cut.feed = SkinnyFeed::kBoxes;
  }
  while (kRowCounts[cut.rows_index].rows < rows ||
         !HasKernel(cut.rows_index, cut.x.along, cut.feed)) {
    ++cut.rows_index;
  }
  LaneOrder& order = cut.order;
  if (!ReadsAB(problem)) {
    order.whole_strips = 0;
    order.chunks = 1;
  }
  if (order.chunks == 1 ||
      order.strips > kEnoughBlocks / std::max<int64_t>(1, problem.batch_count)) {
    return cut;
  }
  // Fits: few strips and few matrices.
  cut.pitch = TilesOf(length - order.whole_strips * SkinnyStrip(rows), 4) * 4;
  const int64_t elements = order.chunks * rows * cut.pitch * problem.batch_count;
  if (config == kClusters && order.chunks == kTogether && order.whole_strips == 0) {
    cut.way = Way::kCluster;
  } else if (elements <= kMaxPartialBytes / static_cast<int64_t>(sizeof(float))) {
    cut.way = Way::kSecondPass;
    cut.partial_elements = elements;
  }
  return cut;
}

Cut CutOf(const Problem& problem, const DeviceInfo& device, int config) {
  return CutOf(problem, config, HasBoxes(device), problem.a.alignment_bytes % 16 == 0,
               problem.b.alignment_bytes % 16 == 0);
}

struct LaunchRecord {
  SkinnyGemm args;
  TensorBoxes boxes_x;
  TensorBoxes boxes_matrix;
  SkinnyFeed feed;
  int rows_index;
  bool x_along;
  bool along;
  bool cluster;
  bool second_pass;
  unsigned blocks;
  unsigned planes;
};
static_assert(std::is_trivially_copyable_v<LaunchRecord> && alignof(LaunchRecord) <= 16);

// The patterns of SkinnySide::UnitAt.
int SwizzleOfX(int rows, bool along) { return along ? 0 : rows == 8 ? 32 : rows == 16 ? 64 : 0; }
int SwizzleOfMatrix(int step, bool along) { return along ? 4 * step : 0; }

LaunchRecord Record(const Problem& problem, const Operands& operands, const Plan& plan) {
  const auto at_16 = [](const void* base) { return reinterpret_cast<uintptr_t>(base) % 16 == 0; };
  const Cut cut =
      CutOf(problem, plan.config, plan.variant == kBoxes, at_16(operands.a), at_16(operands.b));
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
  g.matrix_row = cut.matrix.line_stride;
  g.matrix_column = cut.matrix.k_stride;
  g.matrix_batch = cut.matrix.batch_stride;
  if (cut.feed == SkinnyFeed::kBoxes) {
    const int rows = kRowCounts[cut.rows_index].rows;
    const int step = cut.KernelOf().step;
    record.boxes_x = cut.x.Boxes(problem, g.x, rows, step, SwizzleOfX(rows, cut.x.along));
    record.boxes_matrix = cut.matrix.Boxes(problem, g.matrix, SkinnyStrip(rows), step,
                                           SwizzleOfMatrix(step, cut.matrix.along));
    g.box_step_x = cut.x.OneForAll(problem) ? 0 : 1;
    g.box_step_matrix = cut.matrix.OneForAll(problem) ? 0 : 1;
  }
  g.whole_strips = cut.order.whole_strips;
  g.chunks = static_cast<int>(cut.order.chunks);
  g.chunk_blocks = cut.way == Way::kOneByOne ? 1 : g.chunks;
  g.chunk_length = cut.order.chunk_length;
  g.pitch = cut.pitch;
  record.feed = cut.feed;
  record.rows_index = cut.rows_index;
  record.x_along = cut.x.along;
  record.along = cut.matrix.along;
  record.cluster = cut.way == Way::kCluster;
  record.second_pass = cut.way == Way::kSecondPass;
  record.blocks = static_cast<unsigned>(cut.Blocks());
  record.planes = static_cast<unsigned>(std::min(problem.batch_count, kMaxGridZ));
  return record;
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
    if (problem.dtype != DType::kF32) {
      return "computes f32, not " + std::string(NameOf(problem.dtype));
    }
    if (config == kClusters && device.compute_capability != 90) {
      return "needs a device of compute capability 9.0";
    }
    if (NumericsOf(problem) != NumericsClass::kChunkedLanes) {
      return "sums in chunked_lanes, this product in " + std::string(NameOf(NumericsOf(problem)));
    }
    const Cut cut = CutOf(problem, device, config);
    if (cut.Blocks() > kMaxGridX) return "n or m needs more than 2^31 - 1 blocks";
    if ((cut.order.whole_strips > 0 ? problem.k : cut.order.chunk_length) >
        kMaxGridX - kLaneRound) {
      return "k has chunks of 2^31 or more";
    }
    const size_t shared_bytes = cut.KernelOf().shared_bytes;
    if (shared_bytes > device.shared_bytes_per_block) {
      return "needs " + std::to_string(shared_bytes) + " bytes of shared memory a block";
    }
    return {};
  }

  double ModelSeconds(const Problem& problem, const DeviceInfo& device, int config) const override {
    const Cut cut = CutOf(problem, device, config);
    const double multiprocessors = std::max(1, device.multiprocessors);
    const auto length = static_cast<double>(cut.length);
    const auto batch = static_cast<double>(problem.batch_count);
    const auto k = static_cast<double>(ReadsAB(problem) ? problem.k : 0);
    const bool cut_up = cut.way != Way::kOneByOne;
    const auto chunks = static_cast<double>(cut_up ? cut.order.chunks : 1);
    const auto whole = static_cast<double>(cut_up ? cut.order.whole_strips : 0);
    const double cut_blocks = (static_cast<double>(cut.order.strips) - whole) * chunks;
    const double blocks = batch * (whole + cut_blocks);
    const double block_k =
        kBegin + (cut_up ? std::min(k, static_cast<double>(cut.order.chunk_length)) : k);
    const double waves_k = std::ceil(batch * whole / multiprocessors) * (kBegin + k) +
                           std::ceil(batch * cut_blocks / multiprocessors) * block_k;
    const int rows = kRowCounts[cut.rows_index].rows;
    const bool shifted = cut.feed == SkinnyFeed::kShifted;
    const double math_fraction = !shifted    ? kMathFraction
                                 : rows > 16 ? kShiftedMathFraction
                                             : kShiftedFewFraction;
    const double math_rate =
        math_fraction * std::max(1.0, device.f32_flops_per_second) / multiprocessors;
    const double strip = static_cast<double>(SkinnyStrip(cut.rows));
    const double product_seconds = 2.0 * rows * strip / math_rate;
    // A block alone on a multiprocessor draws 1.1 times that one's share of the memory's rate.
    const double busy = std::min(1.0, 1.1 * blocks / multiprocessors);
    const double bytes = 4 * batch *
                         (length * k + static_cast<double>(cut.rows) * k +
                          static_cast<double>(cut.rows) * length * (ReadsC(problem) ? 2 : 1));
    const double memory = bytes / busy /
                          std::max(1.0, (shifted ? kShiftedMemoryFraction : kMemoryFraction) *
                                            device.memory_bytes_per_second);
    const double partial_bytes = 2.0 * sizeof(float) * static_cast<double>(cut.partial_elements);
    return kStartSeconds + std::max(waves_k * product_seconds, memory) +
           (cut.way == Way::kCluster ? kClusterSeconds : 0) +
           (cut.way == Way::kSecondPass
                ? kSecondPassSeconds + partial_bytes / kPartialBytesPerSecond
                : 0);
  }

  cudaError_t Prepare(const DeviceInfo& device) const override {
    for (int i = 0; i < kCounts; ++i) {
      for (SkinnyFeed feed : kFeeds) {
        for (int layout = 0; layout < 4; ++layout) {
          const Kernel& kernel = KernelAt(i, feed, layout / 2 != 0, layout % 2 != 0);
          const bool boxes = feed == SkinnyFeed::kBoxes;
          if (kernel.function == nullptr || (boxes && !HasBoxes(device))) continue;
          cudaFuncAttributes attributes;
          GEMM_RETURN_IF_CUDA_ERROR(cudaFuncGetAttributes(&attributes, kernel.function));
          // WhyNot refuses what does not fit.
          if (kernel.shared_bytes > device.shared_bytes_per_block) continue;
          GEMM_RETURN_IF_CUDA_ERROR(
              cudaFuncSetAttribute(kernel.function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(kernel.shared_bytes)));
        }
      }
    }
    if (HasBoxes(device)) GEMM_RETURN_IF_CUDA_ERROR(PrepareTensorMaps());
    return PrepareAddChunks();
  }

  Plan MakePlan(std::span<const Problem> problems, const DeviceInfo& device,
                int config) const override {
    Plan plan;
    plan.config = config;
    plan.variant = HasBoxes(device) ? kBoxes : 0;
    for (const Problem& problem : problems) {
      if (IsEmpty(problem)) continue;
      const Cut cut = CutOf(problem, device, config);
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
      const LaunchRecord record = Record(problems[i], operands[i], plan);
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
      const Kernel& kernel = KernelAt(record.rows_index, record.feed, record.x_along, record.along);
      cudaLaunchAttribute attributes[2];
      unsigned used = 0;
      if (record.cluster) {
        attributes[used].id = cudaLaunchAttributeClusterDimension;
        attributes[used].val.clusterDim.x = static_cast<unsigned>(g.chunk_blocks);
        attributes[used].val.clusterDim.y = 1;
        attributes[used].val.clusterDim.z = 1;
        ++used;
      }
      // Started while the one before ends, where its blocks have a multiprocessor to themselves
      // and so cannot crowd.
      if (kernel.alone) {
        attributes[used].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[used].val.programmaticStreamSerializationAllowed = 1;
        ++used;
      }
      cudaLaunchConfig_t launch = {};
      launch.gridDim = dim3(record.blocks, 1, record.planes);
      launch.blockDim = dim3(kSkinnyThreads);
      launch.dynamicSmemBytes = kernel.shared_bytes;
      launch.stream = stream;
      launch.attrs = attributes;
      launch.numAttrs = used;
      CUtensorMap map_x = {};
      CUtensorMap map_matrix = {};
      if (record.feed == SkinnyFeed::kBoxes) {
        GEMM_RETURN_IF_CUDA_ERROR(MakeTensorMap(record.boxes_x, &map_x));
        GEMM_RETURN_IF_CUDA_ERROR(MakeTensorMap(record.boxes_matrix, &map_matrix));
      }
      GEMM_RETURN_IF_CUDA_ERROR(cudaLaunchKernelEx(&launch, kernel.function, map_x, map_matrix, g));
      if (record.second_pass) {
        GEMM_RETURN_IF_CUDA_ERROR(
            LaunchSecondPass(g, SkinnyStrip(kRowCounts[record.rows_index].rows), stream));
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
