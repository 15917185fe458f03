// ladder: each rung of the articles, the chosen kernel and the peer on square products, in turns,
// and what became of each article's claims.

#include <cstdio>

#include "kernels/bench/claims.h"
#include "kernels/bench/session.h"
#include "kernels/bench/shape_lists.h"
#include "kernels/cuda_status.h"

namespace gemm {
namespace {

constexpr int kSizes[] = {512, 1024, 2048, 4096, 8192};
constexpr int kMaxSets = 64;
constexpr int kSamples = 64;

// The microtile beside 8x8 answers one claim, at 4096: no seconds for it beyond.
constexpr int kLargestSweep = 4096;
bool IsSweep(Rung rung) { return rung == Rung::kCached8x4; }

struct Climber {
  Rung rung;
  std::string title;
  std::string kernel;
};

KernelRef Named(std::span<const KernelFamily* const> families, std::string_view name) {
  for (const KernelFamily* family : families) {
    for (size_t config = 0; config < family->configs().size(); ++config) {
      if (family->configs()[config].name == name) return {family, static_cast<int>(config)};
    }
  }
  return {};
}

// Times of all rungs at one size; `faults` counts kernels that failed their check.
cudaError_t Climb(Session& session, const Flags& flags, int size, LadderTimes* times,
                  std::vector<std::pair<Climber, Summary>>* rows, int* faults) {
  Workbench& bench = session.bench();
  const cudaStream_t stream = bench.stream();
  const Problem problem = BenchProblem({size, size, size}, DType::kF32);
  GEMM_RETURN_IF_CUDA_ERROR(bench.arena().Create(problem, bench.device(), kMaxSets, stream));
  const std::vector<Operands>& sets = bench.arena().sets();
  ResultCheck check;
  GEMM_RETURN_IF_CUDA_ERROR(check.Create(problem, bench.arena(), kSamples));

  std::vector<Climber> climbers;
  std::vector<KernelRef> kernels;
  for (const RungInfo& info : Rungs()) {
    if (size > kLargestSweep && IsSweep(info.rung)) continue;
    const KernelRef kernel = Named(session.families(), info.kernel);
    if (kernel.family == nullptr) {
      std::printf("%d: %s is not in this build\n", size, std::string(info.kernel).c_str());
      continue;
    }
    climbers.push_back({info.rung, std::string(info.title), std::string(info.kernel)});
    kernels.push_back(kernel);
  }
  const Selection chosen = session.selector().Select(problem);
  climbers.push_back(
      {Rung::kChosen, "chosen (" + chosen.reason + ")", std::string(chosen.kernel.get().name)});
  kernels.push_back(chosen.kernel);

  std::vector<std::unique_ptr<PreparedRotation>> rotations;
  std::vector<Contender> contenders;
  std::vector<Climber> running;
  for (size_t i = 0; i < kernels.size(); ++i) {
    auto& rotation = rotations.emplace_back(std::make_unique<PreparedRotation>());
    GEMM_RETURN_IF_CUDA_ERROR(rotation->Create(kernels[i], problem, sets, bench.device()));
    const PreparedRotation* prepared = rotation.get();
    std::string fault;
    double once = 0;
    GEMM_RETURN_IF_CUDA_ERROR(
        check.Run([prepared](cudaStream_t on) { return prepared->Launch(0, on); },
                  &kernels[i].get().numerics, stream, &fault, &once));
    if (!fault.empty()) {
      ++*faults;
      std::printf("%d: %s FAILED its check: %s\n", size, climbers[i].kernel.c_str(), fault.c_str());
      continue;
    }
    running.push_back(climbers[i]);
    contenders.push_back({climbers[i].kernel, [prepared](size_t set, cudaStream_t on) {
                            return prepared->Launch(set, on);
                          }});
  }
  PeerWay peer_way;
  GEMM_RETURN_IF_CUDA_ERROR(FindPeerWay(session, problem, check, &peer_way));
  if (!peer_way.name.empty()) {
    Peer& peer = session.peer();
    running.push_back({Rung::kPeer, "cuBLAS", peer_way.name});
    contenders.push_back({peer_way.name, [&peer, &sets, peer_way](size_t set, cudaStream_t on) {
                            return peer.Launch(peer_way.way, sets[set], on) ? cudaSuccess
                                                                            : cudaErrorNotSupported;
                          }});
  } else {
    std::printf("%d: no peer: %s\n", size, peer_way.why_not.c_str());
  }
  if (contenders.empty()) return cudaSuccess;
  Pace pace = {.graph_seconds = 1e-3, .seconds = 0.6, .min_rounds = 3, .max_rounds = 30};
  if (flags.shape_seconds > 0) pace.seconds = flags.shape_seconds;
  std::vector<Summary> seconds;
  GEMM_RETURN_IF_CUDA_ERROR(TimeAlternately(contenders, sets.size(), pace, stream, &seconds));
  for (size_t i = 0; i < running.size(); ++i) {
    (*times)[{running[i].rung, size}] = seconds[i].median;
    rows->emplace_back(running[i], seconds[i]);
  }
  return cudaSuccess;
}

void Print(Session& session, int size, const LadderTimes& times,
           const std::vector<std::pair<Climber, Summary>>& rows) {
  const auto ratio_to = [&](Rung base, double seconds) {
    const auto found = times.find({base, size});
    return found == times.end() ? 0.0 : found->second / seconds;
  };
  std::printf("%d x %d x %d\n  %-24s %-30s %11s %8s %7s %8s %8s %10s %10s\n", size, size, size,
              "rung", "kernel", "us", "TFLOP/s", "spread", "x naive", "x peer", "FLOP/B mem",
              "FLOP/B load");
  for (const auto& [climber, seconds] : rows) {
    const RungInfo* info = FindRung(climber.rung);
    const double tflops = 1e-12 * SquareFlops(size) / seconds.median;
    const double of_naive = ratio_to(Rung::kNaive, seconds.median);
    const double of_peer = ratio_to(Rung::kPeer, seconds.median);
    std::printf("  %-24s %-30s %11.1f %8.2f %6.1f%% %8.2f %8.3f", climber.title.c_str(),
                climber.kernel.c_str(), 1e6 * seconds.median, tflops, 100 * seconds.spread(),
                of_naive, of_peer);
    if (info != nullptr) {
      std::printf(" %10.2f %10.2f", info->flops_per_global_byte, info->flops_per_loaded_byte);
    }
    std::printf("\n");
    session.log().Write(
        {{"kind", "rung"},
         {"rung", climber.title},
         {"kernel", climber.kernel},
         {"size", size},
         {"us", 1e6 * seconds.median},
         {"spread", seconds.spread()},
         {"tflops", tflops},
         {"times_naive", of_naive},
         {"times_peer", of_peer},
         {"flops_per_global_byte", info == nullptr ? 0 : info->flops_per_global_byte},
         {"flops_per_loaded_byte", info == nullptr ? 0 : info->flops_per_loaded_byte}});
  }
  std::fflush(stdout);
}

}  // namespace

int RunLadder(const Flags& flags) {
  Session session(flags);
  if (const std::string fault = session.Open(); !fault.empty()) return Refuse(fault);
  LadderTimes times;
  int faults = 0;
  for (int size : kSizes) {
    if (!session.HasTime()) break;
    std::vector<std::pair<Climber, Summary>> rows;
    if (const cudaError_t error = Climb(session, flags, size, &times, &rows, &faults);
        error != cudaSuccess) {
      return Refuse("ladder: " + CudaErrorText(error));
    }
    Print(session, size, times, rows);
  }
  std::printf("\nclaims, judged by ratios on this card (peak %.1f TFLOP/s)\n",
              1e-12 * session.device().f32_flops_per_second);
  for (const Claim& claim : Claims()) {
    const ClaimVerdict verdict = Judge(claim, times, session.device().f32_flops_per_second);
    const char* words = !verdict.measured    ? "not measured"
                        : verdict.reproduced ? "reproduced"
                                             : "not reproduced";
    std::printf("  %-58s here %7.3f  %-14s  (%s)\n", std::string(claim.statement).c_str(),
                verdict.value, words, std::string(claim.article).c_str());
    session.log().Write({{"kind", "claim"},
                         {"article", std::string(claim.article)},
                         {"claim", std::string(claim.statement)},
                         {"here", verdict.value},
                         {"verdict", words}});
  }
  return faults == 0 ? 0 : 1;
}

}  // namespace gemm
