// Blocks that share a multiprocessor of compute capability 9.0 as a family means them to: what each
// place has, and which choice of blocks is fastest by the model.

#ifndef GEMMD_KERNELS_FAMILIES_PLACES_H_
#define GEMMD_KERNELS_FAMILIES_PLACES_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/families/sum_order.h"

namespace gemm {

inline constexpr int kSchedulers = 4;
inline constexpr int kSchedulerRegisters = 16384;

inline int WarpsOfAScheduler(int warps) { return (warps + kSchedulers - 1) / kSchedulers; }

// Shared memory that a block asks for, so that no more than `places` fit.
inline int SharedBytesOfPlace(int places) {
  constexpr int kMultiprocessorBytes = 228 * 1024;
  constexpr int kBlockBytes = 227 * 1024;  // at most
  constexpr int kReservedBytes = 1024;     // of every block
  return std::min(kBlockBytes, (kMultiprocessorBytes / places - kReservedBytes) / 128 * 128);
}

// Of a multiprocessor's part of the blocks, in rounds of `places`; seconds_of(together) is a
// round's.
template <typename SecondsOf>
double RoundsSeconds(int64_t blocks, int multiprocessors, int places, const SecondsOf& seconds_of) {
  const int64_t each = TilesOf(blocks, std::max(1, multiprocessors));
  const int64_t full = each / places;
  const auto last = static_cast<int>(each % places);
  return static_cast<double>(full) * seconds_of(places) + (last > 0 ? seconds_of(last) : 0);
}

// The choice that takes the least time of those that see_all(see) shows; Choice() if it shows none.
template <typename Choice, typename SeeAll, typename SecondsOf>
Choice Fastest(const SeeAll& see_all, const SecondsOf& seconds_of) {
  Choice best{};
  double least = std::numeric_limits<double>::infinity();
  see_all([&](const Choice& choice) {
    const double seconds = seconds_of(choice);
    if (seconds < least) {
      least = seconds;
      best = choice;
    }
    return true;
  });
  return best;
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_PLACES_H_
