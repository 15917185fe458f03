// The outer family's tiles, and which of them suits a product.

#ifndef GEMMD_KERNELS_FAMILIES_OUTER_TILES_H_
#define GEMMD_KERNELS_FAMILIES_OUTER_TILES_H_

#include <cstdint>
#include <iterator>
#include <span>
#include <string>

#include "kernels/device_info.h"
#include "kernels/families/outer_gemm.h"
#include "kernels/gemm.h"

namespace gemm {

inline constexpr OuterTile kOuterTiles[] = {{4, 2}, {6, 4}, {8, 4}, {9, 4}};
inline constexpr int kOuterTileCount = static_cast<int>(std::size(kOuterTiles));

inline constexpr int kOuterPlaces = 3;       // blocks on a multiprocessor
inline constexpr int64_t kOuterDepth = 128;  // the longest sum

// Empty if the family can run the problem on the device, else the reason in words.
std::string WhyNotOuter(const Problem& problem, const DeviceInfo& device);

// Whether a tile's rows begin at sectors: not where they do by themselves, nor where that takes
// another tile for what it pushes out on the right, unless there are many beside it.
bool ShiftsOuter(const Problem& problem, const OuterTile& tile);

// Tiles along a row of D.
int64_t OuterTilesAlong(const Problem& problem, const OuterTile& tile);

// How long the problem should take: see cost_model.h.
double OuterSeconds(const Problem& problem, const DeviceInfo& device, int tile);

// The fastest of the tiles for the problems, each a launch.
int BestOuterTile(std::span<const Problem> problems, const DeviceInfo& device);

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_OUTER_TILES_H_
