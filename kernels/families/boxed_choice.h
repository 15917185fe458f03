// The boxed family's blocks, and which of them suits a product.

#ifndef GEMMD_KERNELS_FAMILIES_BOXED_CHOICE_H_
#define GEMMD_KERNELS_FAMILIES_BOXED_CHOICE_H_

#include <cstdint>
#include <string>

#include "kernels/device_info.h"
#include "kernels/gemm.h"

namespace gemm {

inline constexpr int kBoxedSide = 32;      // of a box, and rows of a warp
inline constexpr int kBoxedBytes = 4096;   // of a box
inline constexpr int kMostBoxedWarps = 8;  // of a block
inline constexpr int kMostBoxedStages = 8;

// What a warp does; see boxed.cu.
struct BoxedShape {
  int columns;  // results of a thread in a row
  int most_threads;
  int registers;
  double cycles;  // for a multiply-add, with what is issued beside it

  constexpr int tile_n() const { return 8 * columns; }
  constexpr int boxes() const { return tile_n() / kBoxedSide; }  // of a stage of B
};

// NVIDIA H200, 2026-11-30, with the other numbers of the model in boxed_choice.cc.
inline constexpr BoxedShape kBoxedShapes[] = {
    {8, 384, 168, 1.15},
    {12, 384, 168, 1.07},
    {16, 256, 224, 1.09},
};

struct BoxedBlock {
  int shape = -1;  // none
  int warps;
  int stages;
  int places;  // blocks that a multiprocessor is to have at a time

  constexpr int64_t rows() const { return int64_t{warps} * kBoxedSide; }  // of a tile
};

int64_t BoxedTiles(const Problem& problem, const BoxedBlock& block);  // of the whole batch
int BoxedStageBytes(const BoxedBlock& block);
// What a block asks for, so that no more than `places` fit.
int BoxedSharedBytes(const BoxedBlock& block);

// Whether it can run, in words if not; of a problem in f32, on a device of compute capability 9.0.
std::string WhyNotBoxed(const Problem& problem);

// The fastest block by the model.
BoxedBlock BestBoxedBlock(const Problem& problem, int multiprocessors);
double BoxedSeconds(const Problem& problem, int multiprocessors, const BoxedBlock& block);

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_BOXED_CHOICE_H_
