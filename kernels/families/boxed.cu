// boxed: f32 products on Hopper whose matrices are all 16-byte aligned, in any layout; batches of
// them before all, whose sides are multiples of 32 or little less.
//
//                 B  32 x 8 * columns    One warp computes 32 rows by 64, 96 or 128 columns, a
//                 +----+----+----+       block up to eight warps one above the other. A thread has
//       A 32 x 32 |    |    |    |       8 x 8, 8 x 12 or 8 x 16 results: rows 4 + 4, 16 apart, and
//        +----+   +----+----+----+       columns in fours, 32 apart.
//        +----+   |              |
//        +----+   +--------------+       All operands come in boxes of 32 x 32 through a ring of
//        +----+   |              |       stages of 32 products.
//        +----+   +--------------+
//
// A box of an operand that has rows of op(A), or columns of op(B), contiguous lies in shared memory
// as it is read: 32 products of 32. One with k contiguous arrives swizzled, and a warp turns it
// where it is, before the stage is read: 8 loads and 8 stores of 16 bytes a thread. A's boxes are a
// warp's own; those of B are turned by all, who then wait for each other.
//
// Nobody but the warps that multiply: they ask for stages in turns, so that none falls behind. 168
// registers for 8 x 12 results, so that twelve warps share a multiprocessor: what one waits for at
// the beginning of a stage others hide. Blocks stay and take tiles in turns. A launch starts while
// the one before ends, and a block asks for as much shared memory as keeps others than its wave's
// away. Before it waits for that one's end it has its first stage brought into the L2 cache.
//
// Lost (H200, 2026-11-30): A read as it lies, 16 bytes along k, without being turned: 1.19 cycles a
// multiply-add for 1.08 by the bank model (kernels/lab), since all rows' registers of one product
// lie in one bank; stages of 16 products, 0.3 us more a stage and 2 to 12 % more from 128 cubed on;
// a block a tile, 2 % more at 256x256x256b256; more than the first stage brought into the L2 cache
// before the kernel before has ended, 30.8 us for 27.4 at 96x96x96b512, since its last stores wait
// behind them; stages asked for by one warp that works out where they are, 0.5 us a stage; quarters
// summed one after the other, as unpacked does, 90 us for 89 of sliced at 384x384x384b32; two tiles
// of 128 x 128 in turn by eight warps that have a multiprocessor to themselves, 8 x 8 results, so
// that half as much is asked for at first and the first tile is stored meanwhile: 33.9 us for 28.8
// at 128x128x128b256, 233 for 181 at 256x256x256b256, by the time that 8 x 8 results take.

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "kernels/cuda_status.h"
#include "kernels/families/boxed_choice.h"
#include "kernels/families/families.h"
#include "kernels/families/ffma_tile.cuh"
#include "kernels/families/launch_attributes.h"
#include "kernels/families/launch_records.h"
#include "kernels/families/strided_gemm.cuh"
#include "kernels/families/sum_order.h"
#include "kernels/families/tensor_boxes.h"
#include "kernels/families/why_not.h"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace gemm {
namespace {

constexpr KernelConfig kKernelConfigs[] = {
    {"boxed_f32_sm90", DType::kF32, NumericsClass::kSequential},
};

struct alignas(16) BoxedGemm {
  StridedGemm<float> p;
  BoxedBlock block;
  int tiles_m;
  int tiles_n;
  int work;        // tiles of the batch
  int box_step_a;  // from one matrix of the batch to the next: 1, or 0 if they share one
  int box_step_b;
  bool turns_a;  // k is contiguous
  bool turns_b;
};

// Shared memory: barriers, what is asked for next, the ring.
constexpr int kEmptyBarriers = 8 * kMostBoxedStages;
constexpr int kAheadAt = 2 * kEmptyBarriers;
constexpr int kRingAt = 1024;
// As much again is behind the ring: a warp's last loads of a stage, which nobody needs, may be of
// what lies there.

constexpr int kLateClocks = 1000;  // half a microsecond

__device__ __forceinline__ void WaitClocks(int clocks) {
  const int64_t end = clock64() + clocks;
  while (clock64() < end) __nanosleep(100);
}

struct BoxedPlace {
  int row;
  int column;
  int batch;
};

__device__ __forceinline__ BoxedPlace PlaceOf(const BoxedGemm& g, int columns, int work) {
  const int tiles = g.tiles_m * g.tiles_n;
  const int batch = work / tiles;
  const int tile = work - batch * tiles;
  const int tile_n = tile / g.tiles_m;
  return {(tile - tile_n * g.tiles_m) * g.block.warps * kBoxedSide, tile_n * columns, batch};
}

// The stage that is to be asked for next.
struct BoxedAhead {
  BoxedPlace place;
  int product;
  int work;
};

// Makes of a box [32][k] that the copy engine has swizzled one of [k][32], in its place. One warp
// calls it. Of 8 neighbouring threads two have neighbouring products and four neighbouring rows, so
// that loads and stores meet in pairs in shared memory's banks; no other layout of the result,
// which reading would have to follow at every fourth product, was worth it.
__device__ __forceinline__ void TurnBox(uint32_t box, int lane) {
  const int piece = lane % 2 + lane / 8 * 2;  // of 4 products
  float4 v[2][4];
#pragma unroll
  for (int t = 0; t < 2; ++t) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int row = 4 * (lane / 2 % 4 + 4 * t) + e;
      v[t][e] = LoadShared4(box + row * 128 + (piece ^ (row & 7)) * 16);
    }
  }
  __syncwarp();
#pragma unroll
  for (int t = 0; t < 2; ++t) {
    const uint32_t to = box + 4 * piece * 128 + (lane / 2 % 4 + 4 * t) * 16;
    StoreShared4(to, make_float4(v[t][0].x, v[t][1].x, v[t][2].x, v[t][3].x));
    StoreShared4(to + 128, make_float4(v[t][0].y, v[t][1].y, v[t][2].y, v[t][3].y));
    StoreShared4(to + 256, make_float4(v[t][0].z, v[t][1].z, v[t][2].z, v[t][3].z));
    StoreShared4(to + 384, make_float4(v[t][0].w, v[t][1].w, v[t][2].w, v[t][3].w));
  }
}

template <BoxedShape kShape>
struct BoxedLayout {
  static constexpr int kColumns = kShape.columns;
  static constexpr int kTileN = kShape.tile_n();
  static constexpr int kBoxesB = kShape.boxes();
};

// Calls take(map, x, y, z) with each box of a stage, A's first.
template <BoxedShape kShape, typename Take>
__device__ __forceinline__ void TakeBoxes(const BoxedGemm& g, const CUtensorMap* map_a,
                                          const CUtensorMap* map_b, const BoxedPlace& place,
                                          int product, const Take& take) {
  const auto box_at = [&](const CUtensorMap* map, bool turns, int outer, int matrix) {
    take(map, turns ? product : outer, turns ? outer : product, matrix);
  };
#pragma unroll 1
  for (int box = 0; box < g.block.warps; ++box) {
    box_at(map_a, g.turns_a, place.row + box * kBoxedSide, place.batch * g.box_step_a);
  }
#pragma unroll 1
  for (int box = 0; box < BoxedLayout<kShape>::kBoxesB; ++box) {
    box_at(map_b, g.turns_b, place.column + box * kBoxedSide, place.batch * g.box_step_b);
  }
}

// Asks for a stage, if there is one left; one thread.
template <BoxedShape kShape>
__device__ __forceinline__ void AskForStage(const BoxedGemm& g, const CUtensorMap* map_a,
                                            const CUtensorMap* map_b, BoxedAhead* ahead,
                                            uint32_t to, uint32_t full) {
  using Layout = BoxedLayout<kShape>;
  const BoxedAhead it = *ahead;
  if (it.work >= g.work) return;
  BarrierArriveExpecting(full, (g.block.warps + Layout::kBoxesB) * kBoxedBytes);
  TakeBoxes<kShape>(g, map_a, map_b, it.place, it.product,
                    [&](const CUtensorMap* map, int x, int y, int z) {
                      CopyBox(to, map, x, y, z, full);
                      to += kBoxedBytes;
                    });
  if (it.product + kBoxedSide < g.p.k) {
    ahead->product = it.product + kBoxedSide;
  } else {
    const int work = it.work + static_cast<int>(gridDim.x);
    *ahead = {PlaceOf(g, Layout::kTileN, work), 0, work};
  }
}

template <BoxedShape kShape>
__device__ __forceinline__ void MultiplyBoxes(const BoxedGemm& g, const CUtensorMap* map_a,
                                              const CUtensorMap* map_b, unsigned char* shared_raw) {
  using Layout = BoxedLayout<kShape>;
  constexpr int kColumns = Layout::kColumns;
  constexpr int kPitch = 4 * kBoxedSide;
  const uint32_t shared = SharedAddress(shared_raw);
  const uint32_t ring = shared + kRingAt;
  auto* const ahead = reinterpret_cast<BoxedAhead*>(shared_raw + kAheadAt);
  const auto stage_at = [&](int slot) {
    return ring + slot * (g.block.warps + Layout::kBoxesB) * kBoxedBytes;
  };
  const auto full = [&](int slot) { return shared + 8 * slot; };
  const auto empty = [&](int slot) { return shared + kEmptyBarriers + 8 * slot; };
  const auto ask = [&](int slot) {
    AskForStage<kShape>(g, map_a, map_b, ahead, stage_at(slot), full(slot));
  };
  const auto block = static_cast<int>(blockIdx.x);
  const auto at_once = [&] { return g.block.stages == 2; };
  LetKernelAfterStart();
  if (threadIdx.x == 0) {
    for (int slot = 0; slot < g.block.stages; ++slot) {
      BarrierInit(full(slot), 1);
      BarrierInit(empty(slot), g.block.warps);
    }
    BarrierInitFence();
    *ahead = {PlaceOf(g, Layout::kTileN, block), 0, block};
    TakeBoxes<kShape>(g, map_a, map_b, ahead->place, 0, PrefetchBox);
    WaitForKernelBefore();
    // All blocks ask for as much at once: half of them begin late, so that each half stores while
    // the other multiplies.
    if (g.block.places > 1 && block >= static_cast<int>(gridDim.x) / 2) WaitClocks(kLateClocks);
    ask(0);
    if (at_once()) ask(1);
  }
  __syncthreads();
  uint32_t offset_a;
  uint32_t offset_b;
  {
    const auto thread = static_cast<int>(threadIdx.x);
    offset_a = thread / 32 * kBoxedBytes + thread % 32 / 8 * 16;
    offset_b = g.block.warps * kBoxedBytes + thread % 8 * 16;
  }

  float sum[8][kColumns];
  float a[2][8];
  float b[2][kColumns];
  const auto load = [&](int buffer, uint32_t from_a, uint32_t from_b) {
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      const float4 v = LoadShared4(from_a + q * 64);
      a[buffer][4 * q] = v.x;
      a[buffer][4 * q + 1] = v.y;
      a[buffer][4 * q + 2] = v.z;
      a[buffer][4 * q + 3] = v.w;
    }
#pragma unroll
    for (int q = 0; q < kColumns / 4; ++q) {
      const float4 v = LoadShared4(from_b + q * kBoxedBytes);
      b[buffer][4 * q] = v.x;
      b[buffer][4 * q + 1] = v.y;
      b[buffer][4 * q + 2] = v.z;
      b[buffer][4 * q + 3] = v.w;
    }
  };

  int slot = 0;
  uint32_t parity = 0;
  int turn = -1;  // whose it is to ask; before there was a stage nobody's, or the first's
#pragma unroll 1
  for (int work = block; work < g.work; work += static_cast<int>(gridDim.x)) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) sum[i][j] = 0;
    }
#pragma unroll 1
    for (int left = static_cast<int>(g.p.k); left > 0; left -= kBoxedSide) {
      const uint32_t stage = stage_at(slot);
      BarrierWait(full(slot), parity);
      const int thread = ThreadIndexAgain();
      // When all blocks begin at once, none should wait behind what others need later.
      if (turn < 0 && thread == 0) {
#pragma unroll 1
        for (int s = at_once() ? 2 : 1; s < g.block.stages; ++s) ask(s);
      }
      if (g.turns_a) TurnBox(stage + thread / 32 * kBoxedBytes, thread % 32);
      if (g.turns_b) {
#pragma unroll 1
        for (int box = thread / 32; box < Layout::kBoxesB; box += g.block.warps) {
          TurnBox(stage + (g.block.warps + box) * kBoxedBytes, thread % 32);
        }
        __syncthreads();
      } else {
        __syncwarp();
      }
      uint32_t at_a = stage + offset_a;
      uint32_t at_b = stage + offset_b;
      const int depth = min(kBoxedSide, left);
      load(0, at_a, at_b);
#pragma unroll 1
      for (int o = 0; o < depth / kFfmaUnroll; ++o) {
#pragma unroll
        for (int u = 0; u < kFfmaUnroll; ++u) {
          load((u + 1) & 1, at_a + (u + 1) * kPitch, at_b + (u + 1) * kPitch);
          FfmaStep(sum, a[u & 1], b[u & 1]);
        }
        at_a += kFfmaUnroll * kPitch;
        at_b += kFfmaUnroll * kPitch;
      }
#pragma unroll 1
      for (int l = 0; l < depth % kFfmaUnroll; ++l) {
        FfmaStep(sum, a[0], b[0]);
        at_a += kPitch;
        at_b += kPitch;
        load(0, at_a, at_b);
      }
      // What comes next where the stage before this one was, so that nobody waits; of two stages,
      // where this one was. Who asks has not handed back, or has asked, when the next one does.
      const int again = ThreadIndexAgain();
      const auto hand_back = [&] {
        __syncwarp();
        if (again % 32 == 0) BarrierArrive(empty(slot));
      };
      if (at_once()) hand_back();
      if (again / 32 == (at_once() ? max(turn, 0) : turn)) {
        const int free = at_once() ? slot : slot == 0 ? g.block.stages - 1 : slot - 1;
        const bool before = free > slot;
        BarrierWait(empty(free), before ? parity ^ 1 : parity);
        if (again % 32 == 0) {
          OrderBoxesBehindAccesses();  // of all that turned it, who have handed it back
          ask(free);
        }
      }
      if (++turn == g.block.warps) turn = 0;
      if (!at_once()) hand_back();
      if (++slot == g.block.stages) {
        slot = 0;
        parity ^= 1;
      }
    }

    // Sums are multiplied one by one, even if by 1, so that no store ties them together.
    const BoxedPlace place = PlaceOf(g, Layout::kTileN, work);
    const int thread = ThreadIndexAgain();
    const int64_t row = place.row + thread / 32 * kBoxedSide + thread % 32 / 8 * 4;
    const int64_t column = place.column + thread % 8 * 4;
    const StridedGemm<float>& p = g.p;
    float* d = p.d + place.batch * p.d_batch + row * p.d_row + column;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const bool exists = row + i / 4 * 16 + i % 4 < p.m;
#pragma unroll
      for (int q = 0; q < kColumns / 4; ++q) {
        if (!exists || column + q * kBoxedSide >= p.n) continue;
        *reinterpret_cast<float4*>(d + q * kBoxedSide) =
            make_float4(Multiply(p.alpha, sum[i][4 * q]), Multiply(p.alpha, sum[i][4 * q + 1]),
                        Multiply(p.alpha, sum[i][4 * q + 2]), Multiply(p.alpha, sum[i][4 * q + 3]));
      }
      d += i % 4 != 3 ? p.d_row : 13 * p.d_row;
    }
  }
}

template <int I>
__global__ void __launch_bounds__(kBoxedShapes[I].most_threads, 1)
    Boxed(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
          const __grid_constant__ BoxedGemm g) {
  extern __shared__ __align__(1024) unsigned char shared[];
  MultiplyBoxes<kBoxedShapes[I]>(g, &map_a, &map_b, shared);
}

template <int... I>
constexpr std::array<const void*, sizeof...(I)> Functions(std::integer_sequence<int, I...>) {
  return {reinterpret_cast<const void*>(&Boxed<I>)...};
}
const auto kFunctions = Functions(std::make_integer_sequence<int, std::size(kBoxedShapes)>());

// What Encode leaves for Launch.
struct Record {
  BoxedGemm gemm;
  TensorBoxes boxes_a;
  TensorBoxes boxes_b;
};

// `rows` and `columns` of the matrix as it is stored.
TensorBoxes BoxesOf(const MatrixLayout& layout, const float* base, int64_t rows, int64_t columns,
                    int64_t batch_count, bool turns) {
  TensorBoxes boxes;
  boxes.base = base;
  boxes.outer = columns;
  boxes.depth = rows;
  boxes.matrices = layout.batch_stride != 0 ? batch_count : 1;
  boxes.depth_stride = layout.ld;
  boxes.matrix_stride = layout.batch_stride;
  boxes.box_outer = kBoxedSide;
  boxes.box_depth = kBoxedSide;
  boxes.swizzle_bytes = turns ? kBoxedSide * static_cast<int>(sizeof(float)) : 0;
  return boxes;
}

Record RecordOf(const Problem& problem, const Operands& operands, int multiprocessors) {
  Record record;
  std::memset(static_cast<void*>(&record), 0, sizeof(record));
  BoxedGemm& g = record.gemm;
  g.p = MakeStridedGemm<float>(problem, operands);
  g.block = BestBoxedBlock(problem, multiprocessors);
  g.tiles_m = static_cast<int>(TilesOf(problem.m, g.block.rows()));
  g.tiles_n = static_cast<int>(TilesOf(problem.n, kBoxedShapes[g.block.shape].tile_n()));
  g.work = static_cast<int>(BoxedTiles(problem, g.block));
  g.box_step_a = problem.a.batch_stride != 0 ? 1 : 0;
  g.box_step_b = problem.b.batch_stride != 0 ? 1 : 0;
  g.turns_a = !problem.a.transposed;
  g.turns_b = problem.b.transposed;
  record.boxes_a =
      BoxesOf(problem.a, g.p.a, problem.a.transposed ? problem.k : problem.m,
              problem.a.transposed ? problem.m : problem.k, problem.batch_count, g.turns_a);
  record.boxes_b =
      BoxesOf(problem.b, g.p.b, problem.b.transposed ? problem.n : problem.k,
              problem.b.transposed ? problem.k : problem.n, problem.batch_count, g.turns_b);
  return record;
}

class Family final : public KernelFamily {
 public:
  std::string_view name() const override { return "boxed"; }
  std::span<const KernelConfig> configs() const override { return kKernelConfigs; }

  std::string WhyNot(const Problem& problem, const DeviceInfo& device,
                     int /*config*/) const override {
    if (std::string why = WhyNotF32OnHopper(problem, device); !why.empty()) return why;
    return WhyNotBoxed(problem);
  }

  double ModelSeconds(const Problem& problem, const DeviceInfo& device,
                      int /*config*/) const override {
    return BoxedSeconds(problem, device.multiprocessors,
                        BestBoxedBlock(problem, device.multiprocessors));
  }

  cudaError_t Prepare(const DeviceInfo& device) const override {
    if (device.compute_capability != 90) return cudaSuccess;  // WhyNot refuses everything
    GEMM_RETURN_IF_CUDA_ERROR(LoadKernels(kFunctions, device.shared_bytes_per_block));
    return PrepareTensorMaps();
  }

  // The block of each product follows from it and from the number of multiprocessors, which is the
  // plan's variant.
  Plan MakePlan(std::span<const Problem> problems, const DeviceInfo& device,
                int config) const override {
    return PlanOfEach<Record>(problems, config, device.multiprocessors);
  }

  void Encode(const Plan& plan, std::span<const Problem> problems,
              std::span<const Operands> operands, void* args) const override {
    EncodeEach(problems, operands, args, [&](const Problem& problem, const Operands& of_problem) {
      return RecordOf(problem, of_problem, plan.variant);
    });
  }

  cudaError_t Launch(const Plan& plan, const void* args, const void* /*device_args*/,
                     void* /*workspace*/, cudaStream_t stream) const override {
    return LaunchEach<Record>(plan, args, [&](Record& record) -> cudaError_t {
      const BoxedBlock& block = record.gemm.block;
      CUtensorMap maps[2];
      GEMM_RETURN_IF_CUDA_ERROR(MakeTensorMap(record.boxes_a, &maps[0]));
      GEMM_RETURN_IF_CUDA_ERROR(MakeTensorMap(record.boxes_b, &maps[1]));
      const int blocks = std::min(record.gemm.work, plan.variant * block.places);
      // Blocks that leave much of the device to others wait for the kernel before: they would
      // crowd.
      const bool fills = blocks > plan.variant / 2;
      cudaLaunchAttribute early = StartsEarly();
      cudaLaunchConfig_t launch = {};
      launch.gridDim = dim3(static_cast<unsigned>(blocks));
      launch.blockDim = dim3(static_cast<unsigned>(32 * block.warps));
      launch.dynamicSmemBytes = static_cast<size_t>(BoxedSharedBytes(block));
      launch.stream = stream;
      launch.attrs = &early;
      launch.numAttrs = fills ? 1 : 0;
      void* parameters[] = {&maps[0], &maps[1], &record.gemm};
      return cudaLaunchKernelExC(&launch, kFunctions[block.shape], parameters);
    });
  }
};

}  // namespace

const KernelFamily& BoxedFamily() {
  static const Family family;
  return family;
}

}  // namespace gemm
