#include "kernels/bench/claims.h"

#include <limits>
#include <optional>

namespace gemm {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// A block of bm x bn results asks for bm + bn elements of 4 bytes for 2 bm bn FLOP a step of k.
constexpr double PerByte(double bm, double bn) { return 2 * bm * bn / (4 * (bm + bn)); }

constexpr RungInfo kRungs[] = {
    {Rung::kNaive, "naive", "naive_f32_16x16", PerByte(1, 1), PerByte(1, 1)},
    {Rung::kTiled16, "tiled 16", "tiled_f32_16x16x16", PerByte(16, 16), PerByte(1, 1)},
    {Rung::kTiled32, "tiled 32", "tiled_f32_32x32x32", PerByte(32, 32), PerByte(1, 1)},
    {Rung::kCached8x4, "cache-blocked 8x4", "cached_f32_8x4", PerByte(8, 4), PerByte(8, 4)},
    {Rung::kCached8x8, "cache-blocked 8x8", "cached_f32_8x8", PerByte(8, 8), PerByte(8, 8)},
    {Rung::kBlocked1d, "1-D blocks, 8 a thread", "blocked1d_f32_64x64x8", PerByte(64, 64),
     PerByte(8, 1)},
    {Rung::kRegister4x4, "registers 4x4", "register_f32_64x64x8", PerByte(64, 64), PerByte(4, 4)},
    {Rung::kRegister8x8, "registers 8x8", "register_f32_128x128x8", PerByte(128, 128),
     PerByte(8, 8)},
};

constexpr std::string_view kReuse = "Tiling and Blocking for Reuse";
constexpr std::string_view kBeginners = "Tiled Matrix Multiplication in CUDA";
constexpr std::string_view kWorlds = "Naive GEMM vs Tiled GEMM";
constexpr std::string_view kOneD = "1D Block Tiling: Making Matrix Multiplication Fast in CUDA";
constexpr std::string_view kHandbook = "The CUDA Handbook, 17.3 Cache Blocking";

constexpr Claim Faster(std::string_view article, std::string_view statement, Rung rung, Rung base,
                       int size, int base_size, double low, double high) {
  return {article, statement, Quantity::kTimesFaster, rung, base, size, base_size, 0, low, high};
}
constexpr Claim OfPeer(std::string_view article, std::string_view statement, Rung rung, int size,
                       double low, double high) {
  return {article, statement, Quantity::kOfPeer, rung, Rung::kPeer, size, size, 0, low, high};
}

constexpr Claim kClaims[] = {
    {kReuse, "tiles of 32 cut device traffic by 32", Quantity::kLessGlobalTraffic, Rung::kTiled32,
     Rung::kNaive, 0, 0, 0, 28.8, 35.2},
    {kReuse, "4x4 a thread does four times the arithmetic for each load", Quantity::kLessLoads,
     Rung::kRegister4x4, Rung::kTiled32, 0, 0, 0, 3.6, 4.4},
    OfPeer(kReuse, "4x4 a thread gets close to the vendor's library", Rung::kRegister4x4, 4096, 0.8,
           kNoLimit),
    {kBeginners, "tiles of 16 cut requests to memory by 16", Quantity::kLessGlobalTraffic,
     Rung::kTiled16, Rung::kNaive, 0, 0, 0, 14.4, 17.6},
    {kWorlds, "naive runs at about 5 % of peak", Quantity::kOfPeak, Rung::kNaive, Rung::kNaive, 512,
     512, 0, 0.045, 0.055},
    Faster(kWorlds, "9x from naive (at 512) to tiled (at 2048)", Rung::kTiled32, Rung::kNaive, 2048,
           512, 8.1, 9.9),
    Faster(kWorlds, "9x from naive to tiled, at one size", Rung::kTiled32, Rung::kNaive, 2048, 2048,
           8.1, 9.9),
    Faster(kWorlds, "5 to 10x from naive to tiled at 1024", Rung::kTiled32, Rung::kNaive, 1024,
           1024, 5, 10),
    {kWorlds, "the gap widens from 1024 to 2048", Quantity::kSpeedupGrows, Rung::kTiled32,
     Rung::kNaive, 2048, 1024, 0, 1.0000001, kNoLimit},
    Faster(kWorlds, "cuBLAS is another 2x over tiled", Rung::kPeer, Rung::kTiled32, 2048, 2048, 1.8,
           2.2),
    {kWorlds, "cuBLAS's 3.9 ms at 2048 are 7.0 TFLOP/s", Quantity::kTflopsOfTime, Rung::kPeer,
     Rung::kPeer, 2048, 2048, 3.9e-3, 6.3, 7.7},
    {kOneD, "naive runs at less than 5 % of peak", Quantity::kOfPeak, Rung::kNaive, Rung::kNaive,
     2048, 2048, 0, 0, 0.05},
    OfPeer(kOneD, "1-D blocks reach 35.3 % of cuBLAS at 512", Rung::kBlocked1d, 512, 0.318, 0.388),
    OfPeer(kOneD, "1-D blocks reach 30.8 % of cuBLAS at 1024", Rung::kBlocked1d, 1024, 0.277,
           0.339),
    OfPeer(kOneD, "1-D blocks reach 42.5 % of cuBLAS at 2048", Rung::kBlocked1d, 2048, 0.383,
           0.468),
    OfPeer(kOneD, "1-D blocks reach 41.6 % of cuBLAS at 4096", Rung::kBlocked1d, 4096, 0.374,
           0.458),
    Faster(kHandbook, "8x8 without shared memory is 4.2x naive", Rung::kCached8x8, Rung::kNaive,
           4096, 4096, 3.78, 4.62),
    {kHandbook, "8x8 is the best microtile", Quantity::kBestOfSweep, Rung::kCached8x8,
     Rung::kCached8x8, 4096, 4096, 0, 1, kNoLimit},
    Faster(kHandbook, "shared memory offers more than caches", Rung::kTiled32, Rung::kCached8x8,
           4096, 4096, 1.0000001, kNoLimit),
};

double Intensity(Rung rung, Quantity quantity) {
  const RungInfo* info = FindRung(rung);
  if (info == nullptr) return 0;
  return quantity == Quantity::kLessGlobalTraffic ? info->flops_per_global_byte
                                                  : info->flops_per_loaded_byte;
}

// FLOP/s, if it was measured.
std::optional<double> Speed(const LadderTimes& times, Rung rung, int size) {
  const auto found = times.find({rung, size});
  if (found == times.end() || found->second <= 0) return std::nullopt;
  return SquareFlops(size) / found->second;
}

std::optional<double> Quotient(std::optional<double> one, std::optional<double> two) {
  if (!one || !two || *two == 0) return std::nullopt;
  return *one / *two;
}

std::optional<double> ValueOf(const Claim& claim, const LadderTimes& times, double peak) {
  const auto speed = [&](Rung rung, int size) { return Speed(times, rung, size); };
  switch (claim.quantity) {
    case Quantity::kTimesFaster:
      return Quotient(speed(claim.rung, claim.size), speed(claim.base, claim.base_size));
    case Quantity::kOfPeer:
      return Quotient(speed(claim.rung, claim.size), speed(Rung::kPeer, claim.size));
    case Quantity::kOfPeak:
      return Quotient(speed(claim.rung, claim.size), peak);
    case Quantity::kSpeedupGrows:
      return Quotient(
          Quotient(speed(claim.rung, claim.size), speed(claim.base, claim.size)),
          Quotient(speed(claim.rung, claim.base_size), speed(claim.base, claim.base_size)));
    case Quantity::kBestOfSweep:
      return Quotient(speed(claim.rung, claim.size), speed(Rung::kCached8x4, claim.size));
    case Quantity::kLessGlobalTraffic:
    case Quantity::kLessLoads:
      return Quotient(Intensity(claim.rung, claim.quantity), Intensity(claim.base, claim.quantity));
    case Quantity::kTflopsOfTime:
      return 1e-12 * SquareFlops(claim.size) / claim.given;
  }
  return std::nullopt;
}

}  // namespace

std::span<const RungInfo> Rungs() { return kRungs; }

const RungInfo* FindRung(Rung rung) {
  for (const RungInfo& info : kRungs) {
    if (info.rung == rung) return &info;
  }
  return nullptr;
}

std::span<const Claim> Claims() { return kClaims; }

ClaimVerdict Judge(const Claim& claim, const LadderTimes& times, double peak_flops_per_second) {
  const std::optional<double> value = ValueOf(claim, times, peak_flops_per_second);
  if (!value) return {};
  return {true, *value, claim.low <= *value && *value <= claim.high};
}

double SquareFlops(int size) {
  const auto n = static_cast<double>(size);
  return 2 * n * n * n;
}

}  // namespace gemm
