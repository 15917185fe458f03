#include "kernels/families/ffma_family.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/cuda_status.h"
#include "kernels/families/add_chunks.h"
#include "kernels/families/cost_model.h"
#include "kernels/families/sum_order.h"

namespace gemm {
namespace {

constexpr int64_t kMaxDepth = (int64_t{1} << 31) - 1024;
// Blocks step through the work by the size of the grid, which must not pass the last int.
constexpr int64_t kMaxWork = int64_t{1} << 30;
// Chunk sums of one round. Larger batches go in rounds: the second pass of one must not evict what
// the cache still holds of it, and the workspace stays bounded.
constexpr int64_t kRoundBytes = int64_t{64} << 20;
// Filling the pipeline and storing the sums, and the second pass: H200, 2026-11-29.
constexpr double kStartSeconds = 4e-6;
constexpr double kSecondPassSeconds = 2e-6;

int64_t CeilDiv(int64_t value, int64_t divisor) {
  return value / divisor + (value % divisor != 0 ? 1 : 0);
}

// How a product is cut up for a configuration.
struct Cut {
  int64_t tiles_m;
  int64_t tiles_n;
  int64_t chunk_length;
  int64_t chunks;
  int64_t partial_pitch;
  int64_t partial_elements;  // of one matrix: its sums of all chunks; 0 with one chunk
  int64_t round;             // matrices of the batch that go in one round
};

Cut CutOf(const Problem& problem, const FfmaConfig& config) {
  Cut cut;
  cut.tiles_m = CeilDiv(problem.m, config.shape.tile_m());
  cut.tiles_n = CeilDiv(problem.n, config.shape.tile_n());
  cut.chunk_length = ChunkLength(config.numerics, problem);
  cut.chunks = ReadsAB(problem) ? ChunkCount(config.numerics, problem) : 1;
  cut.partial_pitch = CeilDiv(problem.n, 4) * 4;
  cut.partial_elements = cut.chunks > 1 ? cut.chunks * problem.m * cut.partial_pitch : 0;
  cut.round = kMaxWork / std::max<int64_t>(1, cut.tiles_m * cut.tiles_n * cut.chunks);
  if (cut.partial_elements > 0) {
    cut.round = std::min<int64_t>(
        cut.round, kRoundBytes / static_cast<int64_t>(sizeof(float)) / cut.partial_elements);
  }
  cut.round = std::clamp<int64_t>(cut.round, 1, std::max<int64_t>(1, problem.batch_count));
  return cut;
}

// What Encode leaves for Launch, one a round.
static_assert(std::is_trivially_copyable_v<FfmaGemm> && alignof(FfmaGemm) <= 16);

bool Aligned16(const void* base, const MatrixLayout& layout, int64_t batch_count) {
  return reinterpret_cast<uintptr_t>(base) % 16 == 0 && layout.ld % 4 == 0 &&
         (batch_count == 1 || layout.batch_stride % 4 == 0);
}

FfmaLoad LoadOf(bool outer_contiguous, bool aligned) {
  if (!outer_contiguous) return FfmaLoad::kDepth4;
  return aligned ? FfmaLoad::kOuter16 : FfmaLoad::kOuter4;
}

}  // namespace

std::string FfmaFamily::WhyNot(const Problem& problem, const DeviceInfo& device, int config) const {
  const FfmaConfig& ffma = ffma_configs_[config];
  if (problem.dtype != DType::kF32) {
    return "computes f32, not " + std::string(NameOf(problem.dtype));
  }
  if (device.compute_capability != 90) return "needs a device of compute capability 9.0";
  if (!MayBeSummed(problem, ffma.numerics)) {
    return "sums in " + std::string(NameOf(ffma.numerics)) + ", this product in " +
           std::string(NameOf(NumericsOf(problem)));
  }
  const Cut cut = CutOf(problem, ffma);
  if (cut.tiles_m > kMaxWork / cut.tiles_n || cut.tiles_m * cut.tiles_n > kMaxWork / cut.chunks) {
    return "one matrix has more than 2^30 tiles";
  }
  if (problem.k > kMaxDepth) return "k is " + std::to_string(problem.k) + ", more than 2^31 - 1024";
  return {};
}

// As in cost_model.h, with chunks as tiles of their own, and what the second pass costs.
double FfmaFamily::ModelSeconds(const Problem& problem, const DeviceInfo& device,
                                int config) const {
  const FfmaConfig& ffma = ffma_configs_[config];
  const Cut cut = CutOf(problem, ffma);
  Problem chunk = problem;
  chunk.k = std::min(problem.k, cut.chunk_length);
  chunk.batch_count = problem.batch_count * cut.chunks;
  const TileCost cost{ffma.shape.tile_m(), ffma.shape.tile_n(), ffma.math_fraction,
                      ffma.lone_fraction};
  if (cut.chunks == 1) return kStartSeconds + ModelTileSeconds(problem, device, cost);
  const double rounds =
      std::ceil(static_cast<double>(problem.batch_count) / static_cast<double>(cut.round));
  const double sums = static_cast<double>(cut.partial_elements) *
                      static_cast<double>(problem.batch_count) * sizeof(float);
  // ModelTileSeconds charges for writing every chunk's sums once; here for reading them.
  return kStartSeconds + ModelTileSeconds(chunk, device, cost) +
         sums / std::max(1.0, device.memory_bytes_per_second) + rounds * kSecondPassSeconds;
}

cudaError_t FfmaFamily::Prepare(const DeviceInfo& device) const {
  if (device.compute_capability != 90) return cudaSuccess;  // WhyNot refuses everything
  for (size_t i = 0; i < functions_.size(); ++i) {
    cudaFuncAttributes attributes;
    GEMM_RETURN_IF_CUDA_ERROR(cudaFuncGetAttributes(&attributes, functions_[i]));
    GEMM_RETURN_IF_CUDA_ERROR(cudaFuncSetAttribute(functions_[i],
                                                   cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                   ffma_configs_[i].shape.shared_bytes()));
  }
  return PrepareAddChunks();
}

Plan FfmaFamily::MakePlan(std::span<const Problem> problems, const DeviceInfo& /*device*/,
                          int config) const {
  Plan plan;
  plan.config = config;
  int64_t rounds = 0;
  for (const Problem& problem : problems) {
    if (IsEmpty(problem)) continue;
    const Cut cut = CutOf(problem, ffma_configs_[config]);
    const int64_t here = CeilDiv(problem.batch_count, cut.round);
    rounds += here;
    plan.launches += static_cast<int>(here) * (cut.chunks > 1 ? 2 : 1);
    plan.workspace_bytes =
        std::max(plan.workspace_bytes,
                 static_cast<size_t>(cut.partial_elements * cut.round) * sizeof(float));
  }
  plan.args_bytes = static_cast<size_t>(rounds) * sizeof(FfmaGemm);
  return plan;
}

void FfmaFamily::Encode(const Plan& plan, std::span<const Problem> problems,
                        std::span<const Operands> operands, void* args) const {
  const FfmaConfig& ffma = ffma_configs_[plan.config];
  auto* out = static_cast<unsigned char*>(args);
  for (size_t i = 0; i < problems.size(); ++i) {
    const Problem& problem = problems[i];
    if (IsEmpty(problem)) continue;
    const Cut cut = CutOf(problem, ffma);
    FfmaGemm g;
    std::memset(&g, 0, sizeof(g));
    g.p = MakeStridedGemm<float>(problem, operands[i]);
    // How tiles are fetched follows the addresses themselves. It does not change the result.
    const int64_t batch_count = problem.batch_count;
    g.load_a = LoadOf(problem.a.transposed, Aligned16(operands[i].a, problem.a, batch_count));
    g.load_b = LoadOf(!problem.b.transposed, Aligned16(operands[i].b, problem.b, batch_count));
    g.store_16 = !ReadsC(problem) && Aligned16(operands[i].d, problem.d, batch_count);
    g.tiles_m = static_cast<int>(cut.tiles_m);
    g.tiles_n = static_cast<int>(cut.tiles_n);
    g.chunks = static_cast<int>(cut.chunks);
    g.chunk_length = static_cast<int>(cut.chunk_length);
    g.slice_length = g.chunk_length / ffma.shape.slices;
    g.one = 1;
    g.partial_pitch = cut.partial_pitch;
    for (int64_t first = 0; first < batch_count; first += cut.round) {
      FfmaGemm round = g;
      round.p.batch_count = std::min(cut.round, batch_count - first);
      round.p.a += first * g.p.a_batch;
      round.p.b += first * g.p.b_batch;
      round.p.c += first * g.p.c_batch;
      round.p.d += first * g.p.d_batch;
      round.work = static_cast<int>(round.p.batch_count * cut.chunks * cut.tiles_m * cut.tiles_n);
      std::memcpy(out, &round, sizeof(round));
      out += sizeof(round);
    }
  }
}

cudaError_t FfmaFamily::Launch(const Plan& plan, const void* args, const void* /*device_args*/,
                               void* workspace, cudaStream_t stream) const {
  const FfmaShape& shape = ffma_configs_[plan.config].shape;
  int device = 0;
  int multiprocessors = 0;
  GEMM_RETURN_IF_CUDA_ERROR(cudaGetDevice(&device));
  GEMM_RETURN_IF_CUDA_ERROR(
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  const auto* in = static_cast<const unsigned char*>(args);
  for (size_t at = 0; at < plan.args_bytes; at += sizeof(FfmaGemm)) {
    FfmaGemm g;
    std::memcpy(&g, in + at, sizeof(g));
    g.partial = static_cast<float*>(workspace);
    void* parameters[] = {&g};
    // Warps that share a tile reuse the ring for their sums, so their blocks do one piece of work.
    const int blocks =
        shape.slices == 1 ? std::min(g.work, multiprocessors * shape.blocks) : g.work;
    GEMM_RETURN_IF_CUDA_ERROR(
        cudaLaunchKernel(functions_[plan.config], dim3(static_cast<unsigned>(blocks)),
                         dim3(static_cast<unsigned>(shape.threads())), parameters,
                         static_cast<size_t>(shape.shared_bytes()), stream));
    if (g.chunks > 1) {
      GEMM_RETURN_IF_CUDA_ERROR(
          LaunchAddChunks(g.p, {g.partial, g.partial_pitch, g.chunks}, stream));
    }
  }
  return cudaGetLastError();
}

}  // namespace gemm
