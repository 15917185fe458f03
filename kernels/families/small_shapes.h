// The small family's tiles, and which of them suits a launch.

#ifndef GEMMD_KERNELS_FAMILIES_SMALL_SHAPES_H_
#define GEMMD_KERNELS_FAMILIES_SMALL_SHAPES_H_

#include <cstdint>
#include <iterator>
#include <span>

#include "kernels/device_info.h"
#include "kernels/families/small_gemm.h"
#include "kernels/gemm.h"

namespace gemm {

// small.cu says what each is for.
inline constexpr SmallShape kSmallShapes[] = {
    {8, 16, 2, 2, 1, 32, 8, 128, 3},
    {8, 16, 4, 2, 1, 32, 6, 0, 3},
    {16, 8, 4, 8, 1, 16, 4, 0, 4},
    {4, 8, 8, 4, 4, 64, 3, 128, 2},
};
inline constexpr int kSmallShapeCount = static_cast<int>(std::size(kSmallShapes));

inline constexpr int64_t kMostSmallTiles = (int64_t{1} << 31) - 1;  // of a launch

// 0 for an empty product. More than a launch takes saturates just beyond it.
int64_t SmallTilesOf(const Problem& problem, const SmallShape& shape);

// How long the problems should take in one launch of a shape: see cost_model.h.
double SmallSeconds(std::span<const Problem> problems, const DeviceInfo& device, int shape);

// The fastest of the shapes [first, first + count) for them.
int BestSmallShape(std::span<const Problem> problems, const DeviceInfo& device, int first,
                   int count);

// The fastest grid of threads for a problem, or none where its operands are not such as a grid
// takes; and how long it should take.
SmallGrid BestSmallGrid(const Problem& problem, const DeviceInfo& device);
double SmallGridSeconds(const Problem& problem, const DeviceInfo& device, const SmallGrid& grid);

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_SMALL_SHAPES_H_
