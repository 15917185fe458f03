// outer: f32 sums so short that writing D is most of the work: sums of few outer products. Rows of
// any alignment, all transposes.
//
//                          B  k x 32 columns       a block of 8 warps has a tile of 8 rows x
//                          |0 1 .. 31|0 1 ..|..    32 columns results. Warp w has the rows w,
//                          +---------+------+      w + 8, ..., each lane one column in 32. It
//   A 8 rows x k  warp 0 ->|         |      |      stores 32 neighbours at a time, so the shape
//                 warp 1 ->|         |      |      of D's rows does not matter to it.
//                    :     +---------+------+
//
// Warp w's rows all begin at one distance from a 32-byte sector: they are 8 rows apart. So the warp
// takes its columns from so many elements further left, at no cost, and writes whole sectors. What
// the memory has of a sector that is written in parts it must read first, and that was 9 % at
// 3883x7466x2.
//
// All of k is in shared memory at once, brought by 4-byte cp.async: A as [product][warp][row], so
// that a warp reads its rows by 16 bytes, B as [product][column]. One product is loaded ahead of
// the multiply-adds.
//
// Registers: 46 to 76, three blocks a multiprocessor. Shared memory: 60 KiB at k = 64 for 9 x 4
// results.
//
// Lost (H200, 2026-11-30, us at 1148x1022x39:TN, 5223x5644x1 and 2896x7791x18, where this takes
// 6.0, 28.2 and 38.5; beside it the best of the same round of experiments):
//   all tiles as one kernel with a switch: 6.2, 28.6 and 38.8;
//   loads through registers instead of cp.async: 6.9, 37.5, 50.1 beside 6.5, 33.7, 46.2. Code that
//     runs once is fetched once, and unrolled loads are much of it: the loops that copy are short;
//   beta looked at before each store, and lanes along k for each row of A, four to a bank: those
//     6.5, 33.7, 46.2;
//   persistent blocks that fetch the next tile ahead: 32.3 and 47.5 beside 30.7 and 44.7 at the
//     second and the third;
//   columns of a thread side by side, stored by 8 bytes, 7.1 and 32.6, or 16, 7.4 and 36.6, beside
//     6.9 and 30.7;
//   rows 32 apart, so that lines of 128 bytes are written whole: 9.0, 32.6, 49.6 beside 6.9, 30.7,
//     43.7;
//   operands with k contiguous copied 16 products of 2 rows at a time instead of 8 of 4: 13.3
//     beside 13.8 at 1000x2000x80:NT, but 91.9 beside 89.9 at 7658x4116x36:NT; 32 of one: 102;
//   12, 14 and 16 rows a thread: 6.6 to 7.5, 29.4 to 30.4, 43.0 to 45.5.

#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "kernels/cuda_status.h"
#include "kernels/families/families.h"
#include "kernels/families/launch_records.h"
#include "kernels/families/outer_gemm.h"
#include "kernels/families/outer_tiles.h"
#include "kernels/families/strided_gemm.cuh"
#include "kernels/families/sum_order.h"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace gemm {
namespace {

constexpr KernelConfig kKernelConfigs[] = {{"outer_f32", DType::kF32, NumericsClass::kSequential}};

// A tile's numbers as constants: device code cannot call OuterTile's functions.
template <OuterTile kTile>
struct OuterLayout {
  static constexpr int kTileM = kTile.tile_m();
  static constexpr int kTileN = kTile.tile_n();
  static constexpr int kPaddedRows = kTile.padded_rows();
  static constexpr int kPitchA = kTile.pitch_a();
  static constexpr int kPitchB = kTile.pitch_b();
};

// A block's part of an operand: `outer` of its rows or columns, from `left` on, exist.
struct OuterSource {
  const float* from;     // of outer 0 and product 0, whether it exists or not
  int64_t outer_stride;  // 1 or product_stride is 1
  int64_t product_stride;
  int left;
  int right;
};

// Where outer index o of a product goes: by warps, for A, or in order.
template <int kPaddedRows>
__device__ __forceinline__ int OuterPlace(int o) {
  return kPaddedRows > 0 ? o % kOuterWarps * kPaddedRows + o / kOuterWarps : o;
}

template <int kOuter, int kPitch, int kPaddedRows>
__device__ __forceinline__ void OuterCopy(uint32_t to, const OuterSource& x, int k) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (x.outer_stride == 1) {
    // A warp takes one product in 8, its lanes neighbours.
    const float* from = x.from + warp * x.product_stride + lane;
    to += 4 * (warp * kPitch + OuterPlace<kPaddedRows>(lane));
#pragma unroll 2
    for (int l = warp; l < k; l += kOuterWarps) {
#pragma unroll
      for (int o = 0; o < kOuter; o += 32) {
        if (o + lane >= x.left && o + lane < x.right) {
          CopyAsync4(to + 4 * OuterPlace<kPaddedRows>(o), from + o);
        }
      }
      from += kOuterWarps * x.product_stride;
      to += 4 * kOuterWarps * kPitch;
    }
    return;
  }
  // 8 neighbouring products of 4 rows or columns: a warp's own rows, so that they go into
  // different banks.
  const int first = lane % 8;
  int o = kPaddedRows > 0 ? warp + lane / 8 * kOuterWarps : warp * 4 + lane / 8;
  const float* from = x.from + o * x.outer_stride + first;
  to += 4 * (first * kPitch + OuterPlace<kPaddedRows>(o));
#pragma unroll 1
  for (; o < x.right; o += 32) {
    if (o >= x.left) {
      const float* at = from;
      uint32_t put = to;
#pragma unroll 2
      for (int l = first; l < k; l += 8) {
        CopyAsync4(put, at);
        at += 8;
        put += 4 * 8 * kPitch;
      }
    }
    from += 32 * x.outer_stride;
    to += 4 * OuterPlace<kPaddedRows>(32);
  }
}

// A row's elements by up to 16 bytes.
template <int kCount>
__device__ __forceinline__ void OuterLoad(const float* from, float (&x)[kCount]) {
#pragma unroll
  for (int i = 0; i + 4 <= kCount; i += 4) {
    const float4 v = *reinterpret_cast<const float4*>(from + i);
    x[i] = v.x;
    x[i + 1] = v.y;
    x[i + 2] = v.z;
    x[i + 3] = v.w;
  }
  if constexpr (kCount % 4 >= 2) {
    const float2 v = *reinterpret_cast<const float2*>(from + kCount / 4 * 4);
    x[kCount / 4 * 4] = v.x;
    x[kCount / 4 * 4 + 1] = v.y;
  }
  if constexpr (kCount % 2 != 0) x[kCount - 1] = from[kCount - 1];
}

template <OuterTile kTile>
__device__ __forceinline__ void OuterBlock(const OuterGemm& g, float* shared) {
  using Layout = OuterLayout<kTile>;
  constexpr int kRows = kTile.rows;
  constexpr int kColumns = kTile.columns;
  constexpr int kTileM = Layout::kTileM;
  constexpr int kTileN = Layout::kTileN;
  constexpr int kPaddedRows = Layout::kPaddedRows;
  constexpr int kPitchA = Layout::kPitchA;
  constexpr int kPitchB = Layout::kPitchB;
  const StridedGemm<float>& p = g.p;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int k = static_cast<int>(p.k);

  unsigned index = blockIdx.x;
  const unsigned matrix_tiles = g.tiles_m * g.tiles_n;
  const unsigned batch = index < matrix_tiles ? 0 : index / matrix_tiles;
  index -= batch * matrix_tiles;
  const unsigned tile_m = index / g.tiles_n;
  const int64_t row0 = int64_t{tile_m} * kTileM;
  // Of the strip of B: a sector left of what the tile would have without a shift.
  const int64_t column0 = int64_t{index - tile_m * g.tiles_n} * kTileN - kOuterSector;
  const int left = static_cast<int>(max(int64_t{g.shift_mask == 0 ? kOuterSector : 0}, -column0));
  const int right = static_cast<int>(min(int64_t{kOuterSector + kTileN}, p.n - column0));
  const int rows = static_cast<int>(min(int64_t{kTileM}, p.m - row0));

  const int first_a = ((k + 1) * kPitchB + 3) / 4 * 4;
  OuterCopy<kOuterSector + kTileN, kPitchB, 0>(
      SharedAddress(shared),
      {p.b + batch * p.b_batch + column0 * p.b_column, p.b_column, p.b_row, left, right}, k);
  OuterCopy<kTileM, kPitchA, kPaddedRows>(
      SharedAddress(shared + first_a),
      {p.a + batch * p.a_batch + row0 * p.a_row, p.a_row, p.a_column, 0, rows}, k);
  WaitForCopies();
  __syncthreads();
  if (warp >= rows) return;

  float* d = p.d + batch * p.d_batch + (row0 + warp) * p.d_row;
  // Of the strip; lane's columns are this one and those 32, 64, ... further.
  const int column =
      kOuterSector + lane -
      static_cast<int>(reinterpret_cast<uintptr_t>(d) / sizeof(float) & g.shift_mask);
  const float* from_a = shared + first_a + warp * kPaddedRows;
  const float* from_b = shared + column;
  const auto load = [&](float(&x)[kRows], float(&y)[kColumns]) {
    OuterLoad(from_a, x);
#pragma unroll
    for (int j = 0; j < kColumns; ++j) y[j] = from_b[32 * j];
    from_a += kPitchA;
    from_b += kPitchB;
  };
  float sum[kRows][kColumns];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) sum[i][j] = 0;
  }
  // Each multiply-add shares an operand with the one before, for the register reuse cache.
  const auto multiply = [&](const float(&x)[kRows], const float(&y)[kColumns]) {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const int i = j % 2 != 0 ? kRows - 1 - r : r;
        sum[i][j] = MultiplyAdd(x[i], y[j], sum[i][j]);
      }
    }
  };
  float x[2][kRows];
  float y[2][kColumns];
  load(x[0], y[0]);
  int l = 0;
#pragma unroll 2
  for (; l + 1 < k; l += 2) {
    load(x[1], y[1]);
    multiply(x[0], y[0]);
    load(x[0], y[0]);
    multiply(x[1], y[1]);
  }
  if (l < k) multiply(x[0], y[0]);

  bool inside[kColumns];
#pragma unroll
  for (int j = 0; j < kColumns; ++j) {
    inside[j] = column + 32 * j >= left && column + 32 * j < right;
  }
  // C may be D: all that this thread writes is read first.
  if (p.beta == 0) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) sum[i][j] = Multiply(p.alpha, sum[i][j]);
    }
  } else {
    const float* c = p.c + batch * p.c_batch + (row0 + warp) * p.c_row + column0 + column;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        if (warp + kOuterWarps * i >= rows || !inside[j]) continue;
        sum[i][j] = MultiplyAdd(p.alpha, sum[i][j], Multiply(p.beta, c[32 * j]));
      }
      c += kOuterWarps * p.c_row;
    }
  }
  d += column0 + column;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    if (warp + kOuterWarps * i < rows) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        if (inside[j]) d[32 * j] = sum[i][j];
      }
    }
    d += kOuterWarps * p.d_row;
  }
}

template <int I>
__global__ void __launch_bounds__(kOuterThreads, kOuterPlaces)
    Outer(const __grid_constant__ OuterGemm g) {
  extern __shared__ __align__(16) float shared[];
  OuterBlock<kOuterTiles[I]>(g, shared);
}

template <int... I>
constexpr std::array<const void*, sizeof...(I)> Functions(std::integer_sequence<int, I...>) {
  return {reinterpret_cast<const void*>(&Outer<I>)...};
}
const auto kFunctions = Functions(std::make_integer_sequence<int, kOuterTileCount>());

struct LaunchRecord {
  OuterGemm g;
  unsigned tiles;
  unsigned shared_bytes;
};

class Family final : public KernelFamily {
 public:
  std::string_view name() const override { return "outer"; }
  std::span<const KernelConfig> configs() const override { return kKernelConfigs; }

  std::string WhyNot(const Problem& problem, const DeviceInfo& device,
                     int /*config*/) const override {
    return WhyNotOuter(problem, device);
  }

  double ModelSeconds(const Problem& problem, const DeviceInfo& device,
                      int /*config*/) const override {
    return OuterSeconds(problem, device, BestOuterTile({&problem, 1}, device));
  }

  cudaError_t Prepare(const DeviceInfo& device) const override {
    return LoadKernels(kFunctions, device.shared_bytes_per_block);
  }

  Plan MakePlan(std::span<const Problem> problems, const DeviceInfo& device,
                int config) const override {
    return PlanOfEach<LaunchRecord>(problems, config, BestOuterTile(problems, device));
  }

  void Encode(const Plan& plan, std::span<const Problem> problems,
              std::span<const Operands> operands, void* args) const override {
    const OuterTile& tile = kOuterTiles[plan.variant];
    EncodeEach(problems, operands, args, [&](const Problem& problem, const Operands& of_problem) {
      LaunchRecord record;
      std::memset(&record, 0, sizeof(record));
      OuterGemm& g = record.g;
      g.p = MakeStridedGemm<float>(problem, of_problem);
      g.tiles_m = static_cast<unsigned>(TilesOf(problem.m, tile.tile_m()));
      g.tiles_n = static_cast<unsigned>(OuterTilesAlong(problem, tile));
      g.shift_mask = ShiftsOuter(problem, tile) ? kOuterSector - 1 : 0;
      record.tiles = static_cast<unsigned>(int64_t{g.tiles_m} * g.tiles_n * problem.batch_count);
      record.shared_bytes = static_cast<unsigned>(tile.shared_bytes(g.p.k));
      return record;
    });
  }

  cudaError_t Launch(const Plan& plan, const void* args, const void* /*device_args*/,
                     void* /*workspace*/, cudaStream_t stream) const override {
    return LaunchEach<LaunchRecord>(plan, args, [&](LaunchRecord& record) {
      void* parameters[] = {&record.g};
      return cudaLaunchKernel(kFunctions[plan.variant], dim3(record.tiles), dim3(kOuterThreads),
                              parameters, record.shared_bytes, stream);
    });
  }
};

}  // namespace

const KernelFamily& OuterFamily() {
  static const Family family;
  return family;
}

}  // namespace gemm
