// What a share of packing is: the same for the device and for the test of the host's side.

#ifndef GEMMD_KERNELS_FAMILIES_FFMA_PACK_SHARE_CUH_
#define GEMMD_KERNELS_FAMILIES_FFMA_PACK_SHARE_CUH_

#include <cuda_runtime.h>

#include "kernels/families/divisor.cuh"
#include "kernels/families/ffma_gemm.h"

namespace gemm {

// A packing tile of one of the operands.
struct FfmaPackShare {
  bool is_b = false;
  int phase = 0;  // of its products
  int tile = 0;   // of its rows or columns
  int done = 0;   // the count that goes up with it

  __host__ __device__ __forceinline__ FfmaPackShare(const FfmaOwnPacking& own, int share) {
    done = share - own.of_all_phases;
    if (done < 0) {
      done = phase = Quotient(share, own.by_of_phase);
      tile = share - phase * own.of_phase;
      is_b = tile >= own.group;
      if (is_b) tile -= own.group;
    } else {
      const int group = Quotient(done, own.by_of_group);
      const int in_group = done - group * own.of_group;
      phase = Quotient(in_group, own.by_group);
      tile = (group + 1) * own.group + in_group - phase * own.group;
      done = own.phases + group;
    }
  }
};

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_FFMA_PACK_SHARE_CUH_
