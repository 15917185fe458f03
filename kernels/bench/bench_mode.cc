// bench: the chosen kernel (with --all every legal one) beside the peer's best, in turns.

#include <algorithm>
#include <cstdio>

#include "kernels/bench/session.h"
#include "kernels/bench/shape_lists.h"
#include "kernels/cuda_status.h"

namespace gemm {
namespace {

constexpr int kMaxSets = 4096;  // 64 x 64 x 64 takes 2560 to be twice the cache
constexpr int kSamples = 64;

struct Row {
  std::string name;  // of the kernel, or of the peer's way
  std::string fault;
  Summary seconds;
  bool chosen = false;
};

struct ShapeResult {
  std::vector<Row> rows;
  Row peer;  // without a name: it has none
  std::string reason;

  // 0 where either has no time.
  double TimesPeer(const Row& row) const {
    const double peer_seconds = peer.seconds.median;
    return peer_seconds > 0 && row.seconds.median > 0 ? peer_seconds / row.seconds.median : 0;
  }
};

cudaError_t Measure(Session& session, const Flags& flags, const Problem& problem,
                    ShapeResult* result) {
  Workbench& bench = session.bench();
  const cudaStream_t stream = bench.stream();
  GEMM_RETURN_IF_CUDA_ERROR(bench.arena().Create(problem, bench.device(), kMaxSets, stream));
  const std::vector<Operands>& sets = bench.arena().sets();
  ResultCheck check;
  GEMM_RETURN_IF_CUDA_ERROR(check.Create(problem, bench.arena(), kSamples));

  const Selection selection = session.selector().Explain(problem, flags.kernel);
  result->reason = selection.reason;
  std::vector<std::unique_ptr<PreparedRotation>> rotations;
  std::vector<Contender> contenders;
  std::vector<size_t> at;
  // Last first, as MeasureKernels: the reference sets the bits of its class.
  for (size_t c = selection.candidates.size(); c-- > 0;) {
    const Candidate& candidate = selection.candidates[c];
    const bool chosen = candidate.kernel.family == selection.kernel.family &&
                        candidate.kernel.config == selection.kernel.config;
    if (!candidate.why_not.empty() || !(chosen || flags.all)) continue;
    auto& rotation = rotations.emplace_back(std::make_unique<PreparedRotation>());
    GEMM_RETURN_IF_CUDA_ERROR(rotation->Create(candidate.kernel, problem, sets, bench.device()));
    const PreparedRotation* prepared = rotation.get();
    Row row;
    row.name = candidate.kernel.get().name;
    row.chosen = chosen;
    double once = 0;
    GEMM_RETURN_IF_CUDA_ERROR(
        check.Run([prepared](cudaStream_t on) { return prepared->Launch(0, on); },
                  &candidate.kernel.get().numerics, stream, &row.fault, &once));
    if (row.fault.empty()) {
      contenders.push_back({row.name, [prepared](size_t set, cudaStream_t on) {
                              return prepared->Launch(set, on);
                            }});
      at.push_back(result->rows.size());
    }
    result->rows.push_back(std::move(row));
  }
  PeerWay peer_way;
  GEMM_RETURN_IF_CUDA_ERROR(FindPeerWay(session, problem, check, &peer_way));
  result->peer.name = peer_way.name;
  result->peer.fault = peer_way.why_not;
  if (!peer_way.name.empty()) {
    Peer& peer = session.peer();
    contenders.push_back({peer_way.name, [&peer, &sets, peer_way](size_t set, cudaStream_t on) {
                            return peer.Launch(peer_way.way, sets[set], on) ? cudaSuccess
                                                                            : cudaErrorNotSupported;
                          }});
  }
  if (contenders.empty()) return cudaSuccess;
  Pace pace;
  if (flags.shape_seconds > 0) pace.seconds = flags.shape_seconds;
  std::vector<Summary> seconds;
  GEMM_RETURN_IF_CUDA_ERROR(TimeAlternately(contenders, sets.size(), pace, stream, &seconds));
  for (size_t i = 0; i < at.size(); ++i) result->rows[at[i]].seconds = seconds[i];
  if (!peer_way.name.empty()) result->peer.seconds = seconds.back();
  return cudaSuccess;
}

// Prints a row and records it. False: there is no time, since it failed its check.
bool Report(Session& session, const BenchShape& shape, const Problem& problem,
            const ShapeResult& result, const Row& row, bool is_peer) {
  if (row.name.empty()) {
    std::printf("%-22s %-30s %s\n", NameOf(shape).c_str(), "(peer)", row.fault.c_str());
    return true;
  }
  if (row.seconds.median <= 0) {
    std::printf("%-22s %-30s FAILED its check: %s\n", NameOf(shape).c_str(), row.name.c_str(),
                row.fault.c_str());
    return false;
  }
  const double us = 1e6 * row.seconds.median;
  const double tflops = 1e-12 * FlopCount(problem) / row.seconds.median;
  const double ratio = result.TimesPeer(row);
  std::printf("%-22s %-30s %11.2f %9.3f %6.1f%% %7.3f  %s\n", NameOf(shape).c_str(),
              row.name.c_str(), us, tflops, 100 * row.seconds.spread(), ratio,
              is_peer      ? "peer"
              : row.chosen ? result.reason.c_str()
                           : "");
  session.log().Write({{"kind", is_peer ? "peer" : "kernel"},
                       {"dtype", std::string(NameOf(problem.dtype))},
                       {"shape", NameOf(shape)},
                       {"kernel", row.name},
                       {"chosen", row.chosen},
                       {"reason", row.chosen ? result.reason : ""},
                       {"us", us},
                       {"spread", row.seconds.spread()},
                       {"tflops", tflops},
                       {"times_peer", ratio}});
  return true;
}

}  // namespace

int RunBench(const Flags& flags) {
  Session session(flags);
  if (const std::string fault = session.OpenWithShapes(); !fault.empty()) return Refuse(fault);

  int failed = 0;
  for (DType dtype : DTypes(flags)) {
    std::vector<double> ratios;
    std::printf("%-22s %-30s %11s %9s %7s %7s  %s\n", std::string(NameOf(dtype)).c_str(), "kernel",
                "us", "TFLOP/s", "spread", "x peer", "chosen by, or the peer's way");
    const std::string fault =
        session.ForEachShape(dtype, [&](const BenchShape& shape, const Problem& problem) {
          ShapeResult result;
          GEMM_RETURN_IF_CUDA_ERROR(Measure(session, flags, problem, &result));
          if (result.rows.empty()) {
            std::printf("%-22s %-30s %s\n", NameOf(shape).c_str(), "(none)", result.reason.c_str());
          }
          for (const Row& row : result.rows) {
            if (!Report(session, shape, problem, result, row, false)) ++failed;
            const double ratio = result.TimesPeer(row);
            if (row.chosen && ratio > 0) ratios.push_back(ratio);
          }
          if (!Report(session, shape, problem, result, result.peer, true)) ++failed;
          return cudaSuccess;
        });
    if (!fault.empty()) return Refuse(fault);
    if (!ratios.empty()) {
      const double mean = GeometricMean(ratios);
      const double worst = *std::min_element(ratios.begin(), ratios.end());
      std::printf("%s: %zu shapes, %.3f times the peer's speed in geometric mean, worst %.3f\n",
                  std::string(NameOf(dtype)).c_str(), ratios.size(), mean, worst);
      session.log().Write({{"kind", "mean"},
                           {"dtype", std::string(NameOf(dtype))},
                           {"shapes", ratios.size()},
                           {"times_peer", mean},
                           {"worst", worst}});
    }
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace gemm
