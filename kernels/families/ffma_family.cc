#include "kernels/families/ffma_family.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/cuda_status.h"
#include "kernels/families/add_chunks.h"
#include "kernels/families/add_parts.h"
#include "kernels/families/ffma_blocks.h"
#include "kernels/families/ffma_cost.h"
#include "kernels/families/ffma_rounds.h"
#include "kernels/families/launch_attributes.h"
#include "kernels/families/launch_records.h"
#include "kernels/families/pack_operands.h"
#include "kernels/families/sum_order.h"
#include "kernels/families/tensor_boxes.h"
#include "kernels/families/why_not.h"

namespace gemm {
namespace {

static_assert(std::is_trivially_copyable_v<FfmaRound> && alignof(FfmaRound) <= 16,
              "Encode leaves them as bytes");

}  // namespace

std::string FfmaFamily::WhyNot(const Problem& problem, const DeviceInfo& device, int config) const {
  const FfmaConfig& ffma = ffma_configs_[config];
  if (std::string why = WhyNotF32OnHopper(problem, device); !why.empty()) return why;
  if (std::string why = WhyNotSummed(problem, ffma.numerics); !why.empty()) return why;
  if (ffma.numerics == NumericsClass::kStreamK &&
      StreamKOrder(problem).tile_m != ffma.shape.tile_m()) {
    return "has tiles of another shape than this product's sum";
  }
  if (!FfmaRounds::Fits(problem, ffma)) {
    return "one matrix has more than 2^30 tiles, or k is more than 2^31 - 1024";
  }
  const FfmaFunctions& functions = functions_[config];
  if (functions.packing == FfmaPacking::kRefused) {
    const FfmaRounds rounds(problem, ffma, functions.packing);
    const auto feed_a = static_cast<int>(rounds.feed_a());
    const auto feed_b = static_cast<int>(rounds.feed_b());
    if (functions.by_feed[feed_a][feed_b] == nullptr) {
      return "needs its short side's operand with k contiguous, and 16-byte aligned rows of the "
             "other one with k not contiguous";
    }
  }
  return {};
}

double FfmaFamily::ModelSeconds(const Problem& problem, const DeviceInfo& device,
                                int config) const {
  return FfmaSeconds(problem, device, ffma_configs_[config], functions_[config].packing);
}

cudaError_t FfmaFamily::Prepare(const DeviceInfo& device) const {
  if (device.compute_capability != 90) return cudaSuccess;  // WhyNot refuses everything
  for (size_t i = 0; i < functions_.size(); ++i) {
    for (int feeds = 0; feeds < kFfmaFeeds * kFfmaFeeds; ++feeds) {
      const int a = feeds / kFfmaFeeds;
      const int b = feeds % kFfmaFeeds;
      const FfmaFunction function = functions_[i].by_feed[a][b];
      if (function == nullptr) continue;
      const FfmaKernel kernel{ffma_configs_[i].shape, static_cast<FfmaFeed>(a),
                              static_cast<FfmaFeed>(b)};
      GEMM_RETURN_IF_CUDA_ERROR(
          LoadKernel(reinterpret_cast<const void*>(function),
                     static_cast<size_t>(kernel.shared_bytes() + kernel.packing_bytes())));
    }
  }
  GEMM_RETURN_IF_CUDA_ERROR(PrepareTensorMaps());
  GEMM_RETURN_IF_CUDA_ERROR(PreparePackOperands());
  GEMM_RETURN_IF_CUDA_ERROR(PrepareAddParts());
  return PrepareAddChunks();
}

// Its variant is the number of multiprocessors, which a launch's blocks follow from.
Plan FfmaFamily::MakePlan(std::span<const Problem> problems, const DeviceInfo& device,
                          int config) const {
  Plan plan;
  plan.config = config;
  plan.variant = std::max(1, device.multiprocessors);
  int64_t count = 0;
  int64_t packing = 0;  // of them in the kernel that multiplies
  for (const Problem& problem : problems) {
    if (IsEmpty(problem)) continue;
    const FfmaRounds rounds(problem, ffma_configs_[config], functions_[config].packing);
    count += rounds.count();
    if (rounds.packs_itself()) packing += rounds.count();
    plan.launches += static_cast<int>(rounds.launches());
    plan.workspace_bytes = std::max(plan.workspace_bytes, rounds.workspace_bytes());
  }
  plan.device_args_bytes = static_cast<size_t>(packing) * sizeof(FfmaPackCounts);
  plan.args_bytes = plan.device_args_bytes + static_cast<size_t>(count) * sizeof(FfmaRound);
  return plan;
}

void FfmaFamily::Encode(const Plan& plan, std::span<const Problem> problems,
                        std::span<const Operands> operands, void* args) const {
  std::memset(args, 0, plan.device_args_bytes);
  auto* out = static_cast<unsigned char*>(args) + plan.device_args_bytes;
  for (size_t i = 0; i < problems.size(); ++i) {
    if (IsEmpty(problems[i])) continue;
    const FfmaRounds rounds(problems[i], ffma_configs_[plan.config],
                            functions_[plan.config].packing);
    for (int64_t index = 0; index < rounds.count(); ++index) {
      const FfmaRound round = rounds.Round(index, operands[i]);
      std::memcpy(out, &round, sizeof(round));
      out += sizeof(round);
    }
  }
}

cudaError_t FfmaFamily::Launch(const Plan& plan, const void* args, const void* device_args,
                               void* workspace, cudaStream_t stream) const {
  const FfmaConfig& ffma = ffma_configs_[plan.config];
  const int multiprocessors = plan.variant;
  const auto* in = static_cast<const unsigned char*>(args);
  auto* counts = static_cast<FfmaPackCounts*>(const_cast<void*>(device_args));
  for (size_t at = plan.device_args_bytes; at < plan.args_bytes; at += sizeof(FfmaRound)) {
    FfmaRound round;
    std::memcpy(&round, in + at, sizeof(round));
    round.PlaceIn(workspace, counts);
    if (round.packs_itself) ++counts;
    const bool packs =
        !round.packs_itself && (round.packing_a.batch_count > 0 || round.packing_b.batch_count > 0);
    if (packs) {
      GEMM_RETURN_IF_CUDA_ERROR(LaunchPackOperands(round.packing_a, round.packing_b, stream));
    }
    CUtensorMap maps[2] = {};
    if (round.boxes_a.matrices > 0) {
      GEMM_RETURN_IF_CUDA_ERROR(MakeTensorMap(round.boxes_a, &maps[0]));
    }
    if (round.boxes_b.matrices > 0) {
      GEMM_RETURN_IF_CUDA_ERROR(MakeTensorMap(round.boxes_b, &maps[1]));
    }

    void* parameters[] = {&maps[0], &maps[1], &round.gemm};
    // Warps that share a tile reuse the ring for their sums, so their blocks do one piece of work.
    FfmaGemm& g = round.gemm;
    const bool stream_k = ffma.numerics == NumericsClass::kStreamK;
    const int blocks = stream_k                ? StreamKBlocks(ffma.shape, g)
                       : ffma.shape.slices > 1 ? g.work
                                               : DealTiles(ffma.shape, multiprocessors, &g);
    const FfmaKernel kernel{ffma.shape, round.feed_a, round.feed_b};
    cudaLaunchAttribute attributes[2];
    unsigned count = 0;
    // Behind packing, and behind anything else where its blocks do not crowd, nor find their places
    // taken by a pass that adds many chunks, of the product before. One that reads neither A nor B
    // does not wait. One that packs has multiprocessors to itself.
    const bool early = !stream_k && g.p.k > 0 && !Crowds(ffma.shape, multiprocessors, blocks) &&
                       !(round.second_pass && g.chunks > kFewChunks);
    if (packs || early || round.packs_itself) attributes[count++] = StartsEarly();
    if (round.cluster > 1) attributes[count++] = InClustersOf(round.cluster);
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(static_cast<unsigned>(blocks));
    config.blockDim = dim3(static_cast<unsigned>(ffma.shape.threads()));
    config.dynamicSmemBytes = static_cast<size_t>(kernel.shared_bytes());
    if (round.packs_itself) config.dynamicSmemBytes += static_cast<size_t>(kernel.packing_bytes());
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = count;
    const FfmaFunction function =
        functions_[plan.config]
            .by_feed[static_cast<int>(round.feed_a)][static_cast<int>(round.feed_b)];
    GEMM_RETURN_IF_CUDA_ERROR(
        cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(function), parameters));
    if (!round.second_pass) continue;
    if (g.sharers > 0) {
      GEMM_RETURN_IF_CUDA_ERROR(LaunchAddParts(g, ffma.shape.tile_m(), stream));
    } else {
      StridedGemm<float> p = g.p;
      if (g.turned) std::swap(p.m, p.n);
      int chunks = g.chunks;
      if (g.cut_matrices > 0) {  // the last ones alone are added
        const int64_t first = p.batch_count - g.cut_matrices;
        if (p.c != nullptr) p.c += first * p.c_batch;
        p.d += first * p.d_batch;
        p.batch_count = g.cut_matrices;
        chunks = kQuarters;
      }
      GEMM_RETURN_IF_CUDA_ERROR(
          LaunchAddChunks(p, {g.partial, g.partial_pitch, chunks, g.turned}, stream));
    }
  }
  return cudaGetLastError();
}

}  // namespace gemm
