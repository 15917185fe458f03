// The dense family's grids of threads, and which of them suits a product.

#ifndef GEMMD_KERNELS_FAMILIES_DENSE_CHOICE_H_
#define GEMMD_KERNELS_FAMILIES_DENSE_CHOICE_H_

#include <cstdint>
#include <string>

#include "kernels/device_info.h"
#include "kernels/gemm.h"

namespace gemm {

// What a thread does; see dense.cu.
struct DenseShape {
  int rows;     // results
  int columns;  // results
  int width;    // neighbouring columns: 4 where rows of B and D are 16-byte aligned, else 1
  int most_threads;
  int registers;
  double cycles;  // for a multiply-add, with what is issued beside it
};

// NVIDIA H200, 2026-11-30, with the other numbers of the model in dense_choice.cc.
inline constexpr DenseShape kDenseShapes[] = {
    {8, 12, 4, 384, 168, 1.15},
    {8, 8, 4, 512, 128, 1.20},
    {8, 12, 1, 384, 168, 1.32},
    {8, 8, 1, 512, 128, 1.32},
};

// A grid of threads that computes a tile, and the stages of B that its block has.
struct DenseGrid {
  int shape = -1;  // none
  int rows;
  int columns;
  int depth;  // rows of B in a stage, a multiple of 4
  int stages;
  int places;  // blocks that a multiprocessor is to have at a time
};

inline constexpr int kDenseBarrierBytes = 128;
inline constexpr int kMostDenseStages = 15;

// A stage of the ring, with what lies beside a run in its first and last 16 bytes.
constexpr int DenseStageBytes(int depth, int n) { return depth * n * 4 + 16; }

int DenseThreads(const DenseGrid& grid);
int DenseTileRows(const DenseGrid& grid);
int64_t DenseBlocks(const Problem& problem, const DenseGrid& grid);
// What a block needs.
int64_t DenseSharedBytes(int64_t n, int64_t k, const DenseGrid& grid);

// Whether it can run, in words if not; of a problem in f32, on a device of compute capability 9.0.
std::string WhyNotDense(const Problem& problem, int multiprocessors);

// The fastest grid by the model; none where nothing fits into shared memory.
DenseGrid BestDenseGrid(const Problem& problem, int multiprocessors);
double DenseSeconds(const Problem& problem, int multiprocessors, const DenseGrid& grid);

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_DENSE_CHOICE_H_
