// tensor: f64 products on Hopper's tensor cores. An mma of f64 adds its products to the sum one by
// one, each fused and rounded, k ascending (H200, 2026-11-30: 25600 to 51200 results of each shape
// of mma, equal to a chain of fma in every bit), so its sums are `sequential` and have the bits of
// every other kernel's.
//
//                        B  k x tile_n, 16 products at a time
//                        | warp_n |        |
//                        |        |        |
//    A, 16 products      +--------+--------+
//    at a time    warp_m |  warp  |  warp  |     a warp has warp_m x warp_n results in registers,
//                        +--------+--------+     as mma of 16 x 8 deal them out: lane 4 g + t has
//                 warp_m |  warp  |  warp  |     columns 2 t and 2 t + 1 of rows g and g + 8
//                        +--------+--------+
//
// Four producer warps copy, and consumer warps multiply: cp.async and its addresses between mma
// cost a third (41 TFLOP/s for 55 at 4096 cubed). Shared memory is a ring of stages of one or two
// slabs, each 16 products of all the tile's sums, handed over by mbarriers. Operands lie there as
// they lie in memory, in lines of 128 bytes: 16 products of a row of A (or column of B) where k is
// contiguous; else one product of 16 rows, panel after panel. The 16-byte pieces of line l are
// permuted by piece ^ 2 (l % 4), so that each half of the 32 doubles that a warp loads at once, 8
// rows by 4 products, takes every bank once in either layout. Copies are of 16 bytes where rows are
// aligned, else of 8, which every f64 is.
//
// Beyond the end of k the last stage is filled up with A = -0 and B = +0: adding -0 changes no sum,
// not even one that is -0.
//
// Blocks stay for several tiles where sums are short. A result of few tiles is also summed in
// chunks of k, in the class `chunks`: blocks leave sums in the workspace, and a second pass adds
// them.
//
// What was tried and lost: stories/f64.md.

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <string>

#include "kernels/cuda_status.h"
#include "kernels/families/cost_model.h"
#include "kernels/families/families.h"
#include "kernels/families/launch_attributes.h"
#include "kernels/families/launch_records.h"
#include "kernels/families/sum_order.h"
#include "kernels/families/tensor_gemm.h"
#include "kernels/families/tensor_multiply.cuh"
#include "kernels/families/why_not.h"

namespace gemm {
namespace {

// Numbers for the cost model: NVIDIA H200, 2026-11-30.
struct Config {
  std::string_view name;
  NumericsClass numerics;
  int shape;
  double math_fraction;  // of what multiply-adds outside the tensor cores reach, which is half
  double lone_fraction;
  double begin;
  double start_seconds;
  double add_seconds = 0;  // the second pass
};
constexpr Config kConfigs[] = {
    {"tensor_f64_sm90_128x128x16_s6", NumericsClass::kSequential, 0, 1.84, 1.84, 4, 3e-06},
    {"tensor_f64_sm90_128x64x16_s4", NumericsClass::kSequential, 1, 1.6, 1.4, 20, 3.1e-06},
    {"tensor_f64_sm90_64x64x16_s6", NumericsClass::kSequential, 2, 1.58, 1.4, 0, 2.26e-06},
    {"tensor_f64_sm90_64x32x32_s4", NumericsClass::kSequential, 3, 1.32, 0.9, 0, 2.17e-06},
    {"tensor_f64_sm90_64x32x32_s4_chunks", NumericsClass::kChunks, 3, 1.32, 0.87, 0, 2.8e-06,
     2.1e-06},
    {"tensor_f64_sm90_32x64x32_s4", NumericsClass::kSequential, 4, 1.34, 0.93, 0, 2.19e-06},
    {"tensor_f64_sm90_32x64x32_s4_chunks", NumericsClass::kChunks, 4, 1.34, 0.88, 5, 2.7e-06,
     2.1e-06},
    {"tensor_f64_sm90_32x32x32_s5", NumericsClass::kSequential, 5, 1.02, 0.65, 0, 1.6e-06},
    {"tensor_f64_sm90_32x32x32_s5_chunks", NumericsClass::kChunks, 5, 1.02, 0.65, 5, 2.3e-06,
     2.1e-06},
    {"tensor_f64_sm90_16x32x32_s8", NumericsClass::kSequential, 6, 0.52, 0.36, 0, 1.5e-06},
    {"tensor_f64_sm90_16x32x32_s8_chunks", NumericsClass::kChunks, 6, 0.62, 0.38, 5, 2.2e-06,
     2.1e-06},
    {"tensor_f64_sm90_32x16x32_s8", NumericsClass::kSequential, 7, 0.52, 0.36, 0, 1.55e-06},
};
constexpr auto kKernelConfigs = [] {
  std::array<KernelConfig, std::size(kConfigs)> result;
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] = {kConfigs[i].name, DType::kF64, kConfigs[i].numerics};
  }
  return result;
}();

__global__ void __launch_bounds__(kTensorShapes[0].threads(), kTensorShapes[0].blocks)
    TensorLarge(const __grid_constant__ TensorGemm g) {
  extern __shared__ __align__(128) double shared[];
  TensorMultiply<0>(g, SharedAddress(shared));
}

static_assert([] {
  for (int i = 2; i < kTensorShapeCount; ++i) {
    if (kTensorShapes[i].threads() != kTensorShapes[1].threads()) return false;
    if (kTensorShapes[i].blocks != kTensorShapes[1].blocks) return false;
  }
  return true;
}());

// The second pass: the sums of an element's chunks, added in order.
__device__ __forceinline__ void AddTensorChunks(const TensorGemm& g) {
  constexpr int kAtOnce = 16;  // loads of a thread that are under way
  const StridedGemm<double>& p = g.p;
  WaitForKernelBefore();
  LetKernelAfterStart();
  const int64_t elements = p.batch_count * p.m * p.n;
  for (int64_t e = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; e < elements;
       e += int64_t{gridDim.x} * blockDim.x) {
    double total = g.partial[e];
    for (int first = 1; first < g.chunks; first += kAtOnce) {
      double part[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + i < g.chunks) part[i] = g.partial[(first + i) * elements + e];
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + i < g.chunks) total = __dadd_rn(total, part[i]);
      }
    }
    const int64_t row = e / p.n;
    const int64_t batch = row / p.m;
    StoreElement(p, batch, row - batch * p.m, e - row * p.n, total);
  }
}

// All other shapes have as many threads and share a kernel, which does the second pass too: which
// it is is the same for all blocks.
template <int I>
__device__ __forceinline__ void TensorMultiplyAny(const TensorGemm& g, uint32_t shared) {
  if (g.shape == I) {
    TensorMultiply<I>(g, shared);
  } else if constexpr (I + 1 < kTensorShapeCount) {
    TensorMultiplyAny<I + 1>(g, shared);
  } else {
    AddTensorChunks(g);
  }
}
__global__ void __launch_bounds__(kTensorShapes[1].threads(), kTensorShapes[1].blocks)
    Tensor(const __grid_constant__ TensorGemm g) {
  extern __shared__ __align__(128) double shared[];
  TensorMultiplyAny<1>(g, SharedAddress(shared));
}

const void* FunctionOf(int shape) {
  return shape == 0 ? reinterpret_cast<const void*>(&TensorLarge)
                    : reinterpret_cast<const void*>(&Tensor);
}

// A launch, or two where k is in chunks, of some matrices of a batch.
struct LaunchRecord {
  TensorGemm g;
  unsigned blocks;
};

double Tiles(const Problem& problem, const TensorShape& shape) {
  return static_cast<double>(TilesOf(problem.m, shape.tile_m())) *
         static_cast<double>(TilesOf(problem.n, shape.tile_n())) *
         static_cast<double>(problem.batch_count);
}

double CopiesOf(const MatrixLayout& layout, int64_t batch_count) {
  const bool aligned = layout.alignment_bytes % 16 == 0 && layout.ld % 2 == 0 &&
                       (batch_count == 1 || layout.batch_stride % 2 == 0);
  return aligned ? 0.5 : 1;
}

// How many matrices go together: what chunks leave in the workspace is bounded.
int64_t RoundOf(const Problem& problem, int64_t chunks) {
  constexpr int64_t kMostSums = int64_t{1} << 25;
  if (chunks == 1) return problem.batch_count;
  return std::clamp<int64_t>(kMostSums / (problem.m * problem.n * chunks), 1, problem.batch_count);
}

// Blocks stay for several tiles where sums are short: the first stages of the next come in while
// the results of this one are stored. No longer than what takes a fraction of a millisecond, so
// that others get their turn.
unsigned BlocksOf(const TensorGemm& g, const TensorShape& shape) {
  constexpr uint32_t kMultiprocessors = 132;
  constexpr int64_t kMostProducts = 4096;
  const uint32_t places = kMultiprocessors * static_cast<uint32_t>(shape.blocks);
  const auto most =
      static_cast<uint32_t>(kMostProducts / std::clamp<int64_t>(g.p.k, 1, kMostProducts));
  const uint32_t each = std::min((g.tiles - 1) / places + 1, most);
  return (g.tiles - 1) / each + 1;
}

class Family final : public KernelFamily {
 public:
  std::string_view name() const override { return "tensor"; }
  std::span<const KernelConfig> configs() const override { return kKernelConfigs; }

  std::string WhyNot(const Problem& problem, const DeviceInfo& device, int config) const override {
    if (problem.dtype != DType::kF64) {
      return "computes f64, not " + std::string(NameOf(problem.dtype));
    }
    std::string why = WhyNotHopper(device);
    if (why.empty()) why = WhyNotSummed(problem, kConfigs[config].numerics);
    if (why.empty() && Tiles(problem, kTensorShapes[kConfigs[config].shape]) >= 0x1p31) {
      why = "needs more than 2^31 - 1 blocks";
    }
    return why;
  }

  double ModelSeconds(const Problem& problem, const DeviceInfo& device, int config) const override {
    constexpr double kFromCache = 1.6;  // the L2 cache's rate, of the memory's
    constexpr double kCopyCost = 45;
    const Config& of = kConfigs[config];
    const TensorShape& shape = kTensorShapes[of.shape];
    // Producers take twice as many copies where rows are not 16-byte aligned.
    const double copies = shape.tile_m() * CopiesOf(problem.a, problem.batch_count) +
                          shape.tile_n() * CopiesOf(problem.b, problem.batch_count);
    const double most = shape.blocks * shape.tile_m() * shape.tile_n() / (kCopyCost * copies);
    const TileCost cost = {.tile_m = shape.tile_m(),
                           .tile_n = shape.tile_n(),
                           .math_fraction = std::min(of.math_fraction, most),
                           .lone_fraction = std::min(of.lone_fraction, most),
                           .begin = of.begin,
                           .together = shape.blocks};
    const auto chunks = static_cast<double>(ChunkCount(of.numerics, problem));
    const auto k = static_cast<double>(
        ReadsAB(problem) ? std::min(problem.k, ChunkLength(of.numerics, problem)) : 0);
    const double tiles = Tiles(problem, shape) * chunks;
    const double bytes_a_second = std::max(1.0, device.memory_bytes_per_second);
    const double element_bytes = sizeof(double);
    const double from_memory = (static_cast<double>(problem.m) + static_cast<double>(problem.n)) *
                               k * chunks * static_cast<double>(problem.batch_count) *
                               element_bytes / bytes_a_second;
    const double from_cache = tiles * (shape.tile_m() + shape.tile_n()) * k * element_bytes /
                              (kFromCache * bytes_a_second);
    const double result = ModelResultSeconds(problem, device);
    return of.start_seconds + result +
           std::max({ModelRounds(problem, device, cost, tiles, k + of.begin),
                     ModelTile(problem, device, cost, cost.lone_fraction, k + of.begin),
                     from_memory, from_cache}) +
           (chunks > 1 ? of.add_seconds + chunks * result : 0);
  }

  cudaError_t Prepare(const DeviceInfo& device) const override {
    if (device.compute_capability != 90) return cudaSuccess;  // WhyNot refuses everything
    int most = 0;
    for (int i = 1; i < kTensorShapeCount; ++i) {
      most = std::max(most, kTensorShapes[i].shared_bytes());
    }
    GEMM_RETURN_IF_CUDA_ERROR(
        LoadKernel(FunctionOf(0), static_cast<size_t>(kTensorShapes[0].shared_bytes())));
    return LoadKernel(FunctionOf(1), static_cast<size_t>(most));
  }

  Plan MakePlan(std::span<const Problem> problems, const DeviceInfo& /*device*/,
                int config) const override {
    Plan plan;
    plan.config = config;
    for (const Problem& problem : problems) {
      if (IsEmpty(problem)) continue;
      const int64_t chunks = ChunkCount(kConfigs[config].numerics, problem);
      const int64_t round = RoundOf(problem, chunks);
      const int64_t rounds = TilesOf(problem.batch_count, round);
      plan.launches += static_cast<int>((chunks > 1 ? 2 : 1) * rounds);
      plan.args_bytes += static_cast<size_t>(rounds) * sizeof(LaunchRecord);
      if (chunks == 1) continue;
      plan.workspace_bytes =
          std::max(plan.workspace_bytes,
                   static_cast<size_t>(round * problem.m * problem.n * chunks) * sizeof(double));
    }
    return plan;
  }

  void Encode(const Plan& plan, std::span<const Problem> problems,
              std::span<const Operands> operands, void* args) const override {
    const Config& config = kConfigs[plan.config];
    auto* out = static_cast<unsigned char*>(args);
    for (size_t i = 0; i < problems.size(); ++i) {
      Problem problem = problems[i];
      if (IsEmpty(problem)) continue;
      const int64_t chunks = ChunkCount(config.numerics, problem);
      const int64_t round = RoundOf(problem, chunks);
      for (int64_t first = 0; first < problems[i].batch_count; first += round) {
        problem.batch_count = std::min(round, problems[i].batch_count - first);
        LaunchRecord record = {};
        StridedGemm<double>& p = record.g.p;
        p = MakeStridedGemm<double>(problem, operands[i]);
        if (first > 0) {
          p.a += first * p.a_batch;
          p.b += first * p.b_batch;
          if (p.c != nullptr) p.c += first * p.c_batch;
          p.d += first * p.d_batch;
        }
        record.g.chunk_length = ChunkLength(config.numerics, problem);
        record.g.shape = config.shape;
        record.g.tiles = static_cast<uint32_t>(Tiles(problem, kTensorShapes[config.shape]));
        record.blocks = BlocksOf(record.g, kTensorShapes[config.shape]);
        record.g.chunks = static_cast<int>(chunks);
        std::memcpy(out, &record, sizeof(record));
        out += sizeof(record);
      }
    }
  }

  cudaError_t Launch(const Plan& plan, const void* args, const void* /*device_args*/,
                     void* workspace, cudaStream_t stream) const override {
    const int of = kConfigs[plan.config].shape;
    return LaunchEach<LaunchRecord>(plan, args, [&](LaunchRecord& record) -> cudaError_t {
      TensorGemm& g = record.g;
      if (g.chunks > 1) g.partial = static_cast<double*>(workspace);
      cudaLaunchAttribute early = StartsEarly();
      cudaLaunchConfig_t launch = {};
      launch.gridDim = dim3(record.blocks, static_cast<unsigned>(g.chunks));
      launch.blockDim = dim3(static_cast<unsigned>(kTensorShapes[of].threads()));
      launch.dynamicSmemBytes = static_cast<size_t>(kTensorShapes[of].shared_bytes());
      launch.stream = stream;
      launch.attrs = &early;
      launch.numAttrs = 1;
      void* parameters[] = {&g};
      GEMM_RETURN_IF_CUDA_ERROR(cudaLaunchKernelExC(&launch, FunctionOf(of), parameters));
      if (g.chunks == 1) return cudaSuccess;
      constexpr int kThreads = 128;
      constexpr int64_t kMostBlocks = int64_t{1} << 20;
      const int64_t blocks = TilesOf(g.p.batch_count * g.p.m * g.p.n, kThreads);
      g.shape = kTensorShapeCount;
      launch.gridDim = dim3(static_cast<unsigned>(std::min(blocks, kMostBlocks)));
      launch.blockDim = dim3(kThreads);
      launch.dynamicSmemBytes = 0;
      return cudaLaunchKernelExC(&launch, FunctionOf(1), parameters);
    });
  }
};

}  // namespace

const KernelFamily& TensorFamily() {
  static const Family family;
  return family;
}

}  // namespace gemm
