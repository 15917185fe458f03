// small: f32 products whose time goes into starting, waiting for memory once and storing, and
// groups of them. One launch, no second pass, no workspace; products of all shapes can share it,
// since a block finds its product by its number. small_tile.cuh has the body.
//
//   16 x 32   2 x 2 a thread, 8 stages of 32, 128 threads more that copy: one small product. All of
//             k up to 224 is fetched at once, and 256 x 256 results are 128 blocks
//   32 x 32   4 x 2 a thread, 6 stages of 32: a few dozen of them
//   64 x 64   4 x 8 a thread, 4 stages of 16: a full device
//   32 x 32   8 x 4 a thread in quarters of k, 3 stages of 64, 128 threads more that copy
//
// Which of the first three runs is no configuration of its own: they sum alike, and what suits a
// product depends on how many others share the launch.
//
// A batch of aligned products that fills the device runs on grids of threads instead, 8 x 8 a
// thread, whose tiles have any size: small_grid.cuh. A group never does.
//
// A warp's loads of 4, 8 and 16 bytes a lane take shared memory 1, 2 and 4 cycles; those of 8 and
// 16 half as long if each four neighbouring lanes ask for two addresses at most. A warp alone on
// its scheduler takes about twice its instructions' cycles, so a multiprocessor wants 8 warps and
// more.
//
// Lost (H200, 2026-11-30): 2 x 4 or 4 x 4 a thread for 16 x 32, 4.8 and 7.5 us at 256 cubed against
// 4.6; no copying warps there, 4.9, but with them 32 x 32 is slower in a full device; 8 x 8 a
// thread for 64 x 64, 9.1 us against 7.3 for 256 products of 64 cubed and 19 against 13 for one of
// 256; quarters of 32 x 64 tiles with 8 x 8 a thread, 13.9 us at 512 cubed, with copying
// warps 11.5, against 11.3.

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <string>

#include "kernels/cuda_status.h"
#include "kernels/families/families.h"
#include "kernels/families/launch_records.h"
#include "kernels/families/small_gemm.h"
#include "kernels/families/small_grid.cuh"
#include "kernels/families/small_shapes.h"
#include "kernels/families/small_tile.cuh"
#include "kernels/families/sum_order.h"
#include "kernels/families/why_not.h"

namespace gemm {
namespace {

struct Config {
  std::string_view name;
  NumericsClass numerics;
  int first_shape;  // the shapes that it chooses among
  int shapes;
};
constexpr Config kConfigs[] = {
    {"small_f32", NumericsClass::kSequential, 0, 3},
    {"small_f32_quarters", NumericsClass::kQuarters, 3, 1},
};
constexpr auto kKernelConfigs = [] {
  std::array<KernelConfig, std::size(kConfigs)> result;
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] = {kConfigs[i].name, DType::kF32, kConfigs[i].numerics};
  }
  return result;
}();

template <int I>
__global__ void __launch_bounds__(kSmallShapes[I].threads(), kSmallShapes[I].blocks)
    SmallOne(const __grid_constant__ SmallProblem problem) {
  extern __shared__ __align__(16) float shared[];
  SmallTile<kSmallShapes[I]>(problem, static_cast<int>(blockIdx.x), shared);
}

template <int I>
__global__ void __launch_bounds__(kSmallShapes[I].threads(), kSmallShapes[I].blocks)
    SmallMany(const __grid_constant__ SmallGroup group) {
  extern __shared__ __align__(16) float shared[];
  __shared__ SmallProblem problem;
  __shared__ uint32_t first_tile;
  static_assert(kMostGrouped <= 32 * 32, "two looks of a warp find a problem");
  if (threadIdx.x < 32) {
    // The problems whose first tile is not beyond this one are the first ones.
    const int lane = static_cast<int>(threadIdx.x);
    const auto count = [&](int begin, int step, int end) {
      const int at = begin + lane * step;
      return __popc(
          __ballot_sync(0xffffffff, at < end && __ldg(group.first_tiles + at) <= blockIdx.x));
    };
    const int step = (group.count + 31) / 32;
    int index = (count(0, step, group.count) - 1) * step;
    if (step > 1) index += count(index, 1, min(index + step, group.count)) - 1;
    static_assert(sizeof(SmallProblem) % 16 == 0 && sizeof(SmallProblem) <= 32 * 16, "16 a lane");
    if (lane < static_cast<int>(sizeof(SmallProblem) / 16)) {
      reinterpret_cast<uint4*>(&problem)[lane] =
          __ldg(reinterpret_cast<const uint4*>(group.problems + index) + lane);
    }
    if (lane == 0) first_tile = __ldg(group.first_tiles + index);
  }
  __syncthreads();
  SmallTile<kSmallShapes[I]>(problem, static_cast<int>(blockIdx.x - first_tile), shared);
}

__global__ void __launch_bounds__(SmallGrid::kMostThreads, 1)
    SmallOnGrid(const __grid_constant__ SmallGridProblem problem) {
  extern __shared__ __align__(16) float shared[];
  SmallGridTile(problem, SharedAddress(shared));
}

template <int... I>
constexpr std::array<const void*, sizeof...(I)> OneFunctions(std::integer_sequence<int, I...>) {
  return {reinterpret_cast<const void*>(&SmallOne<I>)...};
}
template <int... I>
constexpr std::array<const void*, sizeof...(I)> ManyFunctions(std::integer_sequence<int, I...>) {
  return {reinterpret_cast<const void*>(&SmallMany<I>)...};
}
const auto kOne = OneFunctions(std::make_integer_sequence<int, kSmallShapeCount>());
const auto kMany = ManyFunctions(std::make_integer_sequence<int, kSmallShapeCount>());

constexpr int64_t kMaxDepth = (int64_t{1} << 31) - 1024;

// Calls body(begin, end, problems that are not empty, tiles) for each launch.
template <typename Body>
void ForEachLaunch(std::span<const Problem> problems, const SmallShape& shape, Body body) {
  size_t begin = 0;
  int count = 0;
  int64_t tiles = 0;
  for (size_t i = 0; i < problems.size(); ++i) {
    const int64_t here = SmallTilesOf(problems[i], shape);
    if (here == 0) continue;
    if (count == kMostGrouped || tiles + here > kMostSmallTiles) {
      body(begin, i, count, tiles);
      begin = i;
      count = 0;
      tiles = 0;
    }
    ++count;
    tiles += here;
  }
  if (count > 0) body(begin, problems.size(), count, tiles);
}

int BestOf(std::span<const Problem> problems, const DeviceInfo& device, const Config& config) {
  return BestSmallShape(problems, device, config.first_shape, config.shapes);
}

bool Aligned16(const void* base, const MatrixLayout& layout, int64_t batch_count) {
  return reinterpret_cast<uintptr_t>(base) % 16 == 0 && layout.ld % 4 == 0 &&
         (batch_count == 1 || layout.batch_stride % 4 == 0);
}

SmallLoad LoadOf(bool outer_contiguous, bool aligned) {
  if (!outer_contiguous) return SmallLoad::kDepth4;
  return aligned ? SmallLoad::kOuter16 : SmallLoad::kOuter4;
}

SmallProblem MakeProblem(const Problem& problem, const Operands& operands, const Config& config,
                         const SmallShape& shape) {
  SmallProblem g;
  std::memset(&g, 0, sizeof(g));
  g.p = MakeStridedGemm<float>(problem, operands);
  g.tiles_m = static_cast<int>(TilesOf(problem.m, shape.tile_m()));
  g.tiles_n = static_cast<int>(TilesOf(problem.n, shape.tile_n()));
  g.slice_length = static_cast<int>(ChunkLength(config.numerics, problem) / shape.slices);
  const int64_t batch = problem.batch_count;
  g.load_a = LoadOf(problem.a.transposed, Aligned16(operands.a, problem.a, batch));
  g.load_b = LoadOf(!problem.b.transposed, Aligned16(operands.b, problem.b, batch));
  g.store_16 = Aligned16(operands.d, problem.d, batch) &&
               (!ReadsC(problem) || Aligned16(operands.c, problem.c, batch));
  return g;
}

// On a grid of threads there is one problem and one launch, and the problem is all its arguments.
bool OnGrid(const Plan& plan) { return plan.variant >= kSmallShapeCount; }

// None where one of the shapes is faster.
SmallGrid GridFor(std::span<const Problem> problems, const DeviceInfo& device,
                  const Config& config) {
  if (problems.size() != 1 || config.numerics != NumericsClass::kSequential) return {};
  const SmallGrid grid = BestSmallGrid(problems[0], device);
  if (grid.rows == 0 || SmallGridSeconds(problems[0], device, grid) >=
                            SmallSeconds(problems, device, BestOf(problems, device, config))) {
    return {};
  }
  return grid;
}

cudaError_t LaunchOnGrid(const Plan& plan, const void* args, cudaStream_t stream) {
  SmallGridProblem problem;
  std::memcpy(&problem, args, sizeof(problem));
  const SmallGrid grid = SmallGrid::Of(plan.variant);
  const dim3 tiles(static_cast<unsigned>(TilesOf(problem.p.n, grid.tile_n())),
                   static_cast<unsigned>(TilesOf(problem.p.m, grid.tile_m())),
                   static_cast<unsigned>(problem.p.batch_count));
  void* parameters[] = {&problem};
  return cudaLaunchKernel(reinterpret_cast<const void*>(&SmallOnGrid), tiles,
                          dim3(static_cast<unsigned>(grid.threads())), parameters,
                          static_cast<size_t>(grid.shared_bytes()), stream);
}

// The arguments of shapes: for each launch of several problems a table for the device, then for
// each launch a record for Launch.
struct LaunchRecord {
  SmallProblem one;  // with one problem
  int count;
  unsigned tiles;
  size_t table;  // with several: offset of the first tiles, padded to 16 bytes, then the problems
};
static_assert(std::is_trivially_copyable_v<LaunchRecord> && alignof(LaunchRecord) <= 16);

size_t FirstTilesBytes(int count) { return (static_cast<size_t>(count) * 4 + 15) / 16 * 16; }
size_t TableBytes(int count) {
  return count < 2 ? 0 : FirstTilesBytes(count) + static_cast<size_t>(count) * sizeof(SmallProblem);
}

class Family final : public KernelFamily {
 public:
  std::string_view name() const override { return "small"; }
  std::span<const KernelConfig> configs() const override { return kKernelConfigs; }
  bool Groups(int /*config*/) const override { return true; }

  std::string WhyNot(const Problem& problem, const DeviceInfo& device, int index) const override {
    const Config& config = kConfigs[index];
    if (std::string why = WhyNotF32(problem); !why.empty()) return why;
    if (std::string why = WhyNotSummed(problem, config.numerics); !why.empty()) return why;
    const SmallShape& largest = kSmallShapes[config.first_shape + config.shapes - 1];
    for (int s = config.first_shape; s < config.first_shape + config.shapes; ++s) {
      if (static_cast<size_t>(kSmallShapes[s].shared_bytes()) > device.shared_bytes_per_block) {
        return "needs more shared memory than a block of the device can have";
      }
    }
    if (SmallTilesOf(problem, largest) > kMostSmallTiles) return "D has more than 2^31 - 1 tiles";
    if (problem.k > kMaxDepth) {
      return "k is " + std::to_string(problem.k) + ", more than 2^31 - 1024";
    }
    return {};
  }

  double ModelSeconds(const Problem& problem, const DeviceInfo& device, int index) const override {
    const Config& config = kConfigs[index];
    const std::span<const Problem> problems(&problem, 1);
    const SmallGrid grid = GridFor(problems, device, config);
    return grid.rows > 0 ? SmallGridSeconds(problem, device, grid)
                         : SmallSeconds(problems, device, BestOf(problems, device, config));
  }

  cudaError_t Prepare(const DeviceInfo& device) const override {
    GEMM_RETURN_IF_CUDA_ERROR(
        LoadKernel(reinterpret_cast<const void*>(&SmallOnGrid), device.shared_bytes_per_block));
    for (int shape = 0; shape < kSmallShapeCount; ++shape) {
      for (const void* function : {kOne[shape], kMany[shape]}) {
        GEMM_RETURN_IF_CUDA_ERROR(
            LoadKernel(function, static_cast<size_t>(kSmallShapes[shape].shared_bytes())));
      }
    }
    return cudaSuccess;
  }

  Plan MakePlan(std::span<const Problem> problems, const DeviceInfo& device,
                int config) const override {
    Plan plan;
    plan.config = config;
    const SmallGrid grid = GridFor(problems, device, kConfigs[config]);
    if (grid.rows > 0) {
      plan.variant = grid.variant();
      plan.launches = 1;
      plan.args_bytes = sizeof(SmallGridProblem);
      return plan;
    }
    plan.variant = BestOf(problems, device, kConfigs[config]);
    ForEachLaunch(problems, kSmallShapes[plan.variant],
                  [&](size_t /*begin*/, size_t /*end*/, int count, int64_t /*tiles*/) {
                    ++plan.launches;
                    plan.device_args_bytes += TableBytes(count);
                  });
    plan.args_bytes =
        plan.device_args_bytes + static_cast<size_t>(plan.launches) * sizeof(LaunchRecord);
    return plan;
  }

  void Encode(const Plan& plan, std::span<const Problem> problems,
              std::span<const Operands> operands, void* args) const override {
    if (OnGrid(plan)) {
      const SmallGrid grid = SmallGrid::Of(plan.variant);
      SmallGridProblem problem;
      std::memset(&problem, 0, sizeof(problem));
      problem.p = MakeStridedGemm<float>(problems[0], operands[0]);
      problem.rows = grid.rows;
      problem.columns = grid.columns;
      std::memcpy(args, &problem, sizeof(problem));
      return;
    }
    const Config& config = kConfigs[plan.config];
    const SmallShape& shape = kSmallShapes[plan.variant];
    auto* const base = static_cast<unsigned char*>(args);
    auto* records = base + plan.device_args_bytes;
    size_t table = 0;
    ForEachLaunch(problems, shape, [&](size_t begin, size_t end, int count, int64_t tiles) {
      LaunchRecord record;
      std::memset(&record, 0, sizeof(record));
      record.count = count;
      record.tiles = static_cast<unsigned>(tiles);
      record.table = table;
      unsigned char* first_tiles = base + table;
      unsigned char* entries = first_tiles + FirstTilesBytes(count);
      uint32_t first = 0;
      for (size_t i = begin; i < end; ++i) {
        const auto here = static_cast<uint32_t>(SmallTilesOf(problems[i], shape));
        if (here == 0) continue;
        const SmallProblem g = MakeProblem(problems[i], operands[i], config, shape);
        if (count == 1) {
          record.one = g;
          break;
        }
        std::memcpy(first_tiles, &first, sizeof(first));
        std::memcpy(entries, &g, sizeof(g));
        first_tiles += sizeof(first);
        entries += sizeof(g);
        first += here;
      }
      table += TableBytes(count);
      std::memcpy(records, &record, sizeof(record));
      records += sizeof(record);
    });
  }

  cudaError_t Launch(const Plan& plan, const void* args, const void* device_args,
                     void* /*workspace*/, cudaStream_t stream) const override {
    if (OnGrid(plan)) return LaunchOnGrid(plan, args, stream);
    const SmallShape& shape = kSmallShapes[plan.variant];
    const auto* in = static_cast<const unsigned char*>(args) + plan.device_args_bytes;
    for (int i = 0; i < plan.launches; ++i, in += sizeof(LaunchRecord)) {
      LaunchRecord record;
      std::memcpy(&record, in, sizeof(record));
      const auto* table = static_cast<const unsigned char*>(device_args) + record.table;
      SmallGroup group{reinterpret_cast<const uint32_t*>(table),
                       reinterpret_cast<const SmallProblem*>(table + FirstTilesBytes(record.count)),
                       record.count};
      const bool alone = record.count == 1;
      void* parameters[] = {alone ? static_cast<void*>(&record.one) : &group};
      GEMM_RETURN_IF_CUDA_ERROR(
          cudaLaunchKernel(alone ? kOne[plan.variant] : kMany[plan.variant], dim3(record.tiles),
                           dim3(static_cast<unsigned>(shape.threads())), parameters,
                           static_cast<size_t>(shape.shared_bytes()), stream));
    }
    return cudaGetLastError();
  }
};

}  // namespace

const KernelFamily& SmallFamily() {
  static const Family family;
  return family;
}

}  // namespace gemm
