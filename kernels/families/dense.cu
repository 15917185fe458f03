// dense: f32 products whose matrices have no gaps between their rows, on Hopper; batches of small
// ones before all. Rows that follow each other in memory are one run of bytes, whatever their
// length and wherever they begin, and the copy engine moves a run by one instruction: nothing is
// copied element by element, so no size is ragged.
//
//                  B  depth x n      One block computes `tile_m` rows of one product, over all of
//                  +-----------+     n, in one stage after the other. A's rows are there whole from
//        A tile_m  |           |     the beginning, all of k; B's come through a ring of stages of
//        x k       +-----------+     16 or 32 rows.
//        +------+  |           |
//        |      |  |           |     Thread t is at row t / columns and column t % columns of a
//        +------+  +-----------+     grid of threads, and has 8 x 8 or 8 x 12 results: rows a
//                                    grid's height apart, columns a grid's width.
//
// Shared memory: the barriers; the ring; A. All three lie as they lie in global memory, with the up
// to 12 bytes before and behind that make up whole pieces of 16. When the sums are done their tile
// takes the ring's and A's place, just as it will lie in D, and leaves as one run too; only the
// elements before its first and behind its last whole 16 bytes are stored by themselves.
//
// Budget: 168 registers for 8 x 12 results, 128 for 8 x 8. Operands are loaded 4 bytes at a time,
// by an address register for each row and column of the thread's: the load then adds the offset of
// a k-step, which is the same for all threads. From indices the compiler makes an addition for
// nearly every load. Of B 16 bytes where n and the addresses allow it. For 96 multiply-adds that
// makes 20 loads, or 11: shared memory is busy 83 % of the time, and 81 or 88 % of the instructions
// are multiply-adds. What is lost besides: n and rows that are not multiples of the grid; lanes
// without results; and rows whose distance is a multiple of 32, k = 96 say, meet in one bank.
//
// A launch whose blocks fill the device starts while the one before ends. A block then asks for as
// much shared memory as keeps others than its wave's away.
//
// compute-sanitizer's racecheck pairs the bulk copies with the loads behind their barriers, which
// it does not follow. Some pairs are real: threads whose rows or columns do not exist, and the last
// loads of a panel, read what may be on its way, and nobody looks at what they get.
//
// Lost (H200, 2026-11-30): 8 x 16 results, 93 us for 64 products of 255x257x253 where 8 x 12 take
// 69, for the few warps that they leave; 4 x 8, 9.0 us for 8.3 at 61x61x61b256, better only at
// 101x203x307b40 (29.1 for 31.3); 4 x 4, 9.1 and slower.

#include <array>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "kernels/cuda_status.h"
#include "kernels/families/dense_choice.h"
#include "kernels/families/families.h"
#include "kernels/families/launch_attributes.h"
#include "kernels/families/launch_records.h"
#include "kernels/families/places.h"
#include "kernels/families/strided_gemm.cuh"
#include "kernels/families/sum_order.h"
#include "kernels/families/why_not.h"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace gemm {
namespace {

constexpr KernelConfig kKernelConfigs[] = {
    {"dense_f32_sm90", DType::kF32, NumericsClass::kSequential},
};

struct alignas(16) DenseGemm {
  StridedGemm<float> p;
  DenseGrid grid;
  int stage_bytes;
};

// Fetches elements [0, count) of a run, in whole pieces of 16 bytes: the first is at
// to + RunShift(from). One thread calls it.
__device__ __forceinline__ void FetchRun(uint32_t to, const float* from, int count,
                                         uint32_t barrier) {
  const auto begin = reinterpret_cast<uint64_t>(from) & ~uint64_t{15};
  const auto end = (reinterpret_cast<uint64_t>(from + count) + 15) & ~uint64_t{15};
  const auto bytes = static_cast<uint32_t>(end - begin);
  BarrierArriveExpecting(barrier, bytes);
  CopyRun(to, reinterpret_cast<const void*>(begin), bytes, barrier);
}

__device__ __forceinline__ uint32_t RunShift(const float* from) {
  return static_cast<uint32_t>(reinterpret_cast<uint64_t>(from)) & 15;
}

// One k-step of a thread. Each multiply-add shares an operand with the one before, for the register
// reuse cache. With columns in fours, rows outside and no neighbours one after the other: 1.16
// cycles a multiply-add, all instructions counted, for 1.25 with columns outside
// (lab/sass/bank_model.py).
template <DenseShape kShape>
__device__ __forceinline__ void DenseStep(float (&sum)[kShape.rows][kShape.columns],
                                          const float (&x)[kShape.rows],
                                          const float (&y)[kShape.columns]) {
  constexpr int kRows = kShape.rows;
  constexpr int kColumns = kShape.columns;
  if constexpr (kShape.width == 4) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const int q = (i & 1) != 0 ? kColumns - 1 - c : c;
        const int j = q % (kColumns / 4) * 4 + q / (kColumns / 4);
        sum[i][j] = MultiplyAdd(x[i], y[j], sum[i][j]);
      }
    }
  } else {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const int i = (c & 1) != 0 ? kRows - 1 - r : r;
        const int j = kColumns - 1 - c;
        sum[i][j] = MultiplyAdd(x[i], y[j], sum[i][j]);
      }
    }
  }
}

template <DenseShape kShape>
__device__ __forceinline__ void DenseTile(const DenseGemm& g, uint32_t shared) {
  constexpr int kRows = kShape.rows;
  constexpr int kColumns = kShape.columns;
  constexpr int kWidth = kShape.width;
  constexpr int kLoads = kColumns / kWidth;  // of a row of B
  constexpr int kUnroll = 4;
  static_assert(kWidth == 1 || kWidth == 4, "4 or 16 bytes of B at a time");
  const int64_t batch = blockIdx.y;
  const int n = static_cast<int>(g.p.n);
  const int k = static_cast<int>(g.p.k);
  const int depth = g.grid.depth;
  const int stages = g.grid.stages;
  const int64_t row0 = int64_t{blockIdx.x} * g.grid.rows * kRows;
  const int inside = static_cast<int>(min(g.p.m - row0, int64_t{g.grid.rows} * kRows));
  const float* const a = g.p.a + batch * g.p.a_batch + row0 * k;
  const float* const b = g.p.b + batch * g.p.b_batch;
  const int thread = static_cast<int>(threadIdx.x);
  const int panels = (k + depth - 1) / depth;

  const int stage_bytes = g.stage_bytes;
  const uint32_t ring = shared + kDenseBarrierBytes;
  const uint32_t rows_of_a = ring + stages * stage_bytes;
  const uint32_t full_a = shared;
  const auto full = [&](int slot) { return shared + 8 + 8 * slot; };
  const auto fetch = [&](int panel, int slot) {
    FetchRun(ring + slot * stage_bytes, b + int64_t{panel} * depth * n,
             min(depth, k - panel * depth) * n, full(slot));
  };
  if (thread == 0) {
    BarrierInit(full_a, 1);
    for (int slot = 0; slot < stages; ++slot) BarrierInit(full(slot), 1);
    BarrierInitFence();
  }
  WaitForKernelBefore();
  if (thread == 0) {
    FetchRun(rows_of_a, a, inside * k, full_a);
    for (int slot = 0; slot < min(stages, panels); ++slot) fetch(slot, slot);
  }
  __syncthreads();
  LetKernelAfterStart();

  const int grid_row = min(thread / g.grid.columns, g.grid.rows - 1);
  const int grid_column = thread % g.grid.columns;
  uint32_t at_row[kRows];
  uint32_t at_column[kLoads];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    at_row[i] = rows_of_a + RunShift(a) + (i * g.grid.rows + grid_row) * k * 4;
    asm volatile("" : "+r"(at_row[i]));  // a register of its own, not a sum for every load
  }
#pragma unroll
  for (int j = 0; j < kLoads; ++j) {
    at_column[j] = ring + RunShift(b) + (j * g.grid.columns + grid_column) * kWidth * 4;
    asm volatile("" : "+r"(at_column[j]));
  }
  float sum[kRows][kColumns];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) sum[i][j] = 0;
  }
  float x[2][kRows];
  float y[2][kColumns];
  const auto load = [&](int buffer, int from_a, int from_b) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) x[buffer][i] = LoadShared(at_row[i] + from_a);
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      if constexpr (kWidth == 4) {
        const float4 v = LoadShared4(at_column[j] + from_b);
        y[buffer][4 * j] = v.x;
        y[buffer][4 * j + 1] = v.y;
        y[buffer][4 * j + 2] = v.z;
        y[buffer][4 * j + 3] = v.w;
      } else {
        y[buffer][j] = LoadShared(at_column[j] + from_b);
      }
    }
  };

  // Rows and columns that do not exist are what lies there. So are the last loads of a panel, which
  // nobody needs.
  int from_a = 0;
  int slot = 0;
  uint32_t parity = 0;
  BarrierWait(full_a, 0);
#pragma unroll 1
  for (int panel = 0; panel < panels; ++panel) {
    const int steps = min(depth, k - panel * depth);
    int from_b = slot * stage_bytes;
    BarrierWait(full(slot), parity);
    load(0, from_a, from_b);
    int l = 0;
#pragma unroll 1
    for (; l + kUnroll <= steps; l += kUnroll) {
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        if (u == kUnroll - 1) from_a += kUnroll * 4;
        from_b += n * 4;
        load((u + 1) & 1, from_a + (u == kUnroll - 1 ? 0 : (u + 1) * 4), from_b);
        DenseStep<kShape>(sum, x[u & 1], y[u & 1]);
      }
    }
#pragma unroll 1
    for (; l < steps; ++l) {
      DenseStep<kShape>(sum, x[0], y[0]);
      from_a += 4;
      from_b += n * 4;
      load(0, from_a, from_b);
    }
    if (panel + stages < panels) {
      __syncthreads();
      if (thread == 0) fetch(panel + stages, slot);
    }
    if (++slot == stages) {
      slot = 0;
      parity ^= 1;
    }
  }

  // The tile as it will lie in D.
  __syncthreads();
  const StridedGemm<float> p = g.p;
  float* const d = p.d + batch * p.d_batch + row0 * n;
  const uint32_t tile = ring + RunShift(d);
  const int count = inside * n;
  const bool reads_c = p.beta != 0;
  const float factor = reads_c ? 1 : p.alpha;
  if (thread < g.grid.rows * g.grid.columns) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int row = i * g.grid.rows + grid_row;
      if (row >= inside) break;
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        const int column = (j * g.grid.columns + grid_column) * kWidth;
        if (column >= n) continue;
        const uint32_t to = tile + (row * n + column) * 4;
        if constexpr (kWidth == 4) {
          StoreShared4(
              to, make_float4(Multiply(factor, sum[i][4 * j]), Multiply(factor, sum[i][4 * j + 1]),
                              Multiply(factor, sum[i][4 * j + 2]),
                              Multiply(factor, sum[i][4 * j + 3])));
        } else {
          StoreShared(to, Multiply(factor, sum[i][j]));
        }
      }
    }
  }
  if (reads_c) {
    const float* const c = p.c + batch * p.c_batch + row0 * n;
    __syncthreads();
    for (int e = thread; e < count; e += static_cast<int>(blockDim.x)) {
      const float product = LoadShared(tile + e * 4);
      StoreShared(tile + e * 4, MultiplyAdd(p.alpha, product, Multiply(p.beta, c[e])));
    }
  }
  OrderBoxesBehindAccesses();
  __syncthreads();
  const int head = min(count, static_cast<int>((16 - RunShift(d)) % 16 / 4));
  const int pieces = (count - head) / 4;
  const int tail = head + 4 * pieces;  // where it begins
  if (thread < head) d[thread] = LoadShared(tile + thread * 4);
  if (thread < count - tail) d[tail + thread] = LoadShared(tile + (tail + thread) * 4);
  if (thread == 0 && pieces > 0) StoreRun(d + head, tile + head * 4, pieces * 16);
}

template <int I>
__global__ void __launch_bounds__(kDenseShapes[I].most_threads, 1)
    Dense(const __grid_constant__ DenseGemm g) {
  extern __shared__ __align__(128) unsigned char shared[];
  DenseTile<kDenseShapes[I]>(g, SharedAddress(shared));
}

template <int... I>
constexpr std::array<const void*, sizeof...(I)> Functions(std::integer_sequence<int, I...>) {
  return {reinterpret_cast<const void*>(&Dense<I>)...};
}
const auto kFunctions = Functions(std::make_integer_sequence<int, std::size(kDenseShapes)>());

// What Encode leaves for Launch.
struct Record {
  DenseGemm gemm;
  unsigned tiles;  // of one product
};

class Family final : public KernelFamily {
 public:
  std::string_view name() const override { return "dense"; }
  std::span<const KernelConfig> configs() const override { return kKernelConfigs; }

  std::string WhyNot(const Problem& problem, const DeviceInfo& device,
                     int /*config*/) const override {
    if (std::string why = WhyNotF32OnHopper(problem, device); !why.empty()) return why;
    return WhyNotDense(problem, device.multiprocessors);
  }

  double ModelSeconds(const Problem& problem, const DeviceInfo& device,
                      int /*config*/) const override {
    return DenseSeconds(problem, device.multiprocessors,
                        BestDenseGrid(problem, device.multiprocessors));
  }

  cudaError_t Prepare(const DeviceInfo& device) const override {
    if (device.compute_capability != 90) return cudaSuccess;  // WhyNot refuses everything
    return LoadKernels(kFunctions, device.shared_bytes_per_block);
  }

  // The grid of each product follows from it and from the number of multiprocessors, which is the
  // plan's variant.
  Plan MakePlan(std::span<const Problem> problems, const DeviceInfo& device,
                int config) const override {
    return PlanOfEach<Record>(problems, config, device.multiprocessors);
  }

  void Encode(const Plan& plan, std::span<const Problem> problems,
              std::span<const Operands> operands, void* args) const override {
    EncodeEach(problems, operands, args, [&](const Problem& problem, const Operands& of_problem) {
      Record record;
      std::memset(static_cast<void*>(&record), 0, sizeof(record));
      record.gemm.p = MakeStridedGemm<float>(problem, of_problem);
      record.gemm.grid = BestDenseGrid(problem, plan.variant);
      record.gemm.stage_bytes =
          DenseStageBytes(record.gemm.grid.depth, static_cast<int>(problem.n));
      record.tiles = static_cast<unsigned>(TilesOf(problem.m, DenseTileRows(record.gemm.grid)));
      return record;
    });
  }

  cudaError_t Launch(const Plan& plan, const void* args, const void* /*device_args*/,
                     void* /*workspace*/, cudaStream_t stream) const override {
    return LaunchEach<Record>(plan, args, [&](Record& record) {
      const DenseGrid& grid = record.gemm.grid;
      const auto batch = static_cast<unsigned>(record.gemm.p.batch_count);
      // Blocks that leave much of the device to others do not keep their multiprocessors to
      // themselves, and so wait for the kernel before: they would crowd.
      const bool fills = int64_t{record.tiles} * batch > plan.variant / 2;
      cudaLaunchAttribute early = StartsEarly();
      cudaLaunchConfig_t launch = {};
      launch.gridDim = dim3(record.tiles, batch);
      launch.blockDim = dim3(static_cast<unsigned>(DenseThreads(grid)));
      launch.dynamicSmemBytes =
          static_cast<size_t>(fills ? SharedBytesOfPlace(grid.places)
                                    : DenseSharedBytes(record.gemm.p.n, record.gemm.p.k, grid));
      launch.stream = stream;
      launch.attrs = &early;
      launch.numAttrs = fills ? 1 : 0;
      void* parameters[] = {&record.gemm};
      return cudaLaunchKernelExC(&launch, kFunctions[grid.shape], parameters);
    });
  }
};

}  // namespace

const KernelFamily& DenseFamily() {
  static const Family family;
  return family;
}

}  // namespace gemm
