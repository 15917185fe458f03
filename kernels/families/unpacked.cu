// unpacked: f32 products on Hopper whose operands are taken as they lie, of any layout and
// alignment, without a pass that packs them. See ffma_multiply.cuh for the tile's picture and the
// ring; sums are sequential, as pipelined's.
//
//   128 x 128: 4 consumer warps, 3 stages of 32 to 33 KiB; two blocks a multiprocessor, 208
//              registers a consumer and 48 a producer thread, and 12 KiB through which rows of D
//              that are not 16-byte aligned are stored
//
// For batches and for products that are read once or twice, where a trip of A through memory costs
// more than the slots in which producers transpose it. Blocks stay and take the tiles of all
// products of a batch in turns: the first stages of the next tile come in while results are stored.
// Products whose class is quarters are summed a quarter after the other (ffma_fold.cuh), for
// batches of them; where their tiles would leave much of a last round empty, the quarters of the
// last matrices go to different blocks, and a second pass adds them (MatricesToCut).
//
// An operand that the copy engine can fetch comes by boxes; one with k contiguous is transposed and
// one that is not 16-byte aligned is copied by four producer warps, 4 bytes at a time. Beside one
// that threads bring, the other is copied too, but for a B beside an A that these transpose: where
// A has m contiguous, aligned products have boxed.cu, and those of one ragged operand are rare. One
// that copies waits for its first stage before it asks for more: where all blocks begin at once,
// that is half a microsecond.
//
// Lost (H200, 2026-11-30): transposing through registers, 4 x 4 elements a thread, 16 bytes a load
// and a store: 29.3 us against 30.0 for 256 products of 128 cubed, since less is asked for at the
// start, but 180.8 against 178.0 at 256 cubed and 3 % more at 4096, and it spilled registers; edges
// of a D that is aligned, stored as rows that are not: 34.6 us against 28.0 for 256 products of 100
// cubed, a part of it a main loop whose sums the stores tied together; copying the last column for
// those that do not exist, 17 % more at 4096x4097x4096 together with rows of D stored by the
// threads that hold them; edges of a D that is aligned by boxes of the copy engine, 135.6 us for
// 200 products of 200 cubed, where storing what exists of each thread takes 130.6. Stages of 16
// products instead of 32, twice as many: 171.8 us for 169.7 at 256 cubed, TN.

#include "kernels/families/families.h"
#include "kernels/families/ffma_family.h"
#include "kernels/families/ffma_multiply.cuh"

namespace gemm {
namespace {

// Of a thread's 128 sums of the quarters before, 64 wait in the place of a stage, 24 behind the
// ring.
constexpr FfmaShape kShape = {8, 2, 2, 1, 32, 3, 2, 8, 16, false, false, 1, 24};

// Numbers for the cost model: NVIDIA H200, 2026-11-30.
constexpr FfmaConfig kConfigs[] = {
    {"unpacked_f32_sm90_128x128x32_s3", NumericsClass::kSequential, kShape, 0.879, 0.775, 14, 14},
    {"unpacked_f32_sm90_128x128x32_s3_quarters", NumericsClass::kQuarters, kShape, 0.879, 0.775, 56,
     14},
};
constexpr auto kKernelConfigs = ToKernelConfigs(kConfigs);

template <int kFeedA, int kFeedB>
__global__ void __launch_bounds__(kShape.threads(), kShape.blocks)
    Unpacked(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
             const __grid_constant__ FfmaGemm g) {
  FfmaMultiply<FfmaKernel{kShape, static_cast<FfmaFeed>(kFeedA), static_cast<FfmaFeed>(kFeedB)},
               FfmaQuarteredTiles, 208, 48>(g, &map_a, &map_b);
}

// See FfmaRounds for the pairs that have none.
constexpr FfmaFunctions kByFeed = {{{&Unpacked<0, 0>, nullptr, nullptr},
                                    {&Unpacked<1, 0>, &Unpacked<1, 1>, &Unpacked<1, 2>},
                                    {nullptr, &Unpacked<2, 1>, &Unpacked<2, 2>}},
                                   FfmaPacking::kNone};
// How a tile is summed is data, so both share their kernels.
constexpr FfmaFunctions kFunctions[] = {kByFeed, kByFeed};

class Family final : public FfmaFamily {
 public:
  Family() : FfmaFamily("unpacked", kConfigs, kKernelConfigs, kFunctions) {}
};

}  // namespace

const KernelFamily& UnpackedFamily() {
  static const Family family;
  return family;
}

}  // namespace gemm
