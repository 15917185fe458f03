// The ladder of the five articles that this library began with: its rungs, what each article claims
// of them, and whether a claim holds for times measured here. Plain data and arithmetic.
//
// The articles measured other cards, so times and TFLOP/s are not judged. Ratios are: of a rung to
// another, to the vendor's library, to the card's peak.

#ifndef GEMMD_KERNELS_BENCH_CLAIMS_H_
#define GEMMD_KERNELS_BENCH_CLAIMS_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace gemm {

enum class Rung : uint8_t {
  kNaive,
  kTiled16,
  kTiled32,
  kCached8x4,
  kCached8x8,
  kBlocked1d,
  kRegister4x4,
  kRegister8x8,
  kChosen,  // what Select takes
  kPeer,
};

struct RungInfo {
  Rung rung;
  std::string_view title;
  std::string_view kernel;  // its full name; empty for the last two
  // Arithmetic intensity by design: FLOP for each byte that a block asks of global memory, and for
  // each byte that a thread asks of the level that feeds it (global or shared memory).
  double flops_per_global_byte;
  double flops_per_loaded_byte;
};
std::span<const RungInfo> Rungs();  // in order; all but the chosen kernel and the peer
const RungInfo* FindRung(Rung rung);

// Seconds of square products, by rung and size.
using LadderTimes = std::map<std::pair<Rung, int>, double>;

enum class Quantity : uint8_t {
  kTimesFaster,        // TFLOP/s of `rung` at `size` over those of `base` at `base_size`
  kOfPeer,             // TFLOP/s of `rung` over the peer's, at `size`
  kOfPeak,             // TFLOP/s of `rung` over the card's peak, at `size`
  kSpeedupGrows,       // how much more times faster than `base` at `size` than at `base_size`
  kBestOfSweep,        // TFLOP/s of 8x8 over the best other microtile's, at `size`
  kLessGlobalTraffic,  // by design
  kLessLoads,          // by design
  kTflopsOfTime,       // what the article's own time comes to: `given` seconds at `size`
};

struct Claim {
  std::string_view article;
  std::string_view statement;
  Quantity quantity;
  Rung rung;
  Rung base;
  int size;
  int base_size;
  double given;  // seconds, for kTflopsOfTime
  // Between these the claim is reproduced. A single figure is taken as itself +- 10 %.
  double low;
  double high;
};
std::span<const Claim> Claims();

struct ClaimVerdict {
  bool measured = false;  // false: a time that it needs is not there
  double value = 0;
  bool reproduced = false;
};
ClaimVerdict Judge(const Claim& claim, const LadderTimes& times, double peak_flops_per_second);

double SquareFlops(int size);

}  // namespace gemm

#endif  // GEMMD_KERNELS_BENCH_CLAIMS_H_
