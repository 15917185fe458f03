// How a product is cut into rounds, each one run of a family's kernels (ffma_family.h): which
// operands are packed, where in the workspace things are, and what the kernels are told.

#ifndef GEMMD_KERNELS_FAMILIES_FFMA_ROUNDS_H_
#define GEMMD_KERNELS_FAMILIES_FFMA_ROUNDS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/families/ffma_family.h"
#include "kernels/families/ffma_gemm.h"
#include "kernels/families/pack_operands.h"
#include "kernels/families/tensor_boxes.h"

namespace gemm {

// What Encode leaves for Launch, which alone knows where the workspace is. Packed, A lies at its
// beginning.
struct FfmaRound {
  FfmaGemm gemm;
  TensorBoxes boxes_a;  // no matrices: the kernel reads it as it lies, or not at all
  TensorBoxes boxes_b;
  Packing packing_a;  // no matrices: nothing is to be packed, now
  Packing packing_b;
  bool packed_a;  // whether boxes come from the workspace
  bool packed_b;
  size_t offset_b;  // into it
  size_t offset_partial;
  size_t offset_kept;
  bool second_pass;
  bool packs_itself;  // in the kernel that multiplies
  bool folds;         // quarters in one block, see ffma_fold.cuh
  int cluster;        // blocks: the chunks of a tile, which then need no second pass; else 1
  FfmaFeed feed_a;
  FfmaFeed feed_b;

  void PlaceIn(void* workspace, FfmaPackCounts* counts);
};

// Elements in the workspace beyond which a product goes in rounds.
struct FfmaLimits {
  // Of an operand that is packed, unless cuts do not allow for panels of it.
  int64_t packed = int64_t{64} << 20;
  // Of sums: the second pass of one round must not evict what the cache still holds of it.
  int64_t partial = int64_t{16} << 20;
};

// A product as a configuration runs it. Its size alone decides, and what the problem promises of
// alignment, not addresses: they are not known when workspace is planned.
class FfmaRounds {
 public:
  FfmaRounds(const Problem& problem, const FfmaConfig& config, FfmaPacking packing,
             const FfmaLimits& limits = {});

  // An empty D has none. The rounds go over batches, then columns, then rows.
  int64_t count() const { return batches_ * panels_n_ * panels_m_; }
  FfmaRound Round(int64_t index, const Operands& operands) const;

  int64_t launches() const;
  bool packs_itself() const { return packs_itself_; }
  size_t workspace_bytes() const;

  // For the cost model.
  const FfmaShape& shape() const { return config_.shape; }
  double packed_elements() const;   // of the whole batch
  double partial_elements() const;  // likewise
  int64_t chunks() const { return chunks_; }
  // Of the last round: matrices whose quarters are added by a second pass.
  int64_t cut_matrices() const {
    return CutMatrices(problem_.batch_count - (batches_ - 1) * matrices_);
  }
  bool clustered() const { return clustered_; }
  int64_t chunk_length() const { return chunk_length_; }
  FfmaFeed feed_a() const { return a_.feed; }
  FfmaFeed feed_b() const { return b_.feed; }
  bool narrow_last() const;  // of FfmaGemm
  bool second_pass() const { return partial_elements_ > 0; }
  bool folds() const { return folds_; }
  bool store_16() const;      // of FfmaGemm
  double copy_slots() const;  // what copies by threads add to the time of a tile, over that time

  // The product that tiles are cut of, which has D^T for its result where it is turned.
  const Problem& problem() const { return problem_; }

  // Whether one matrix is small enough to be counted in 32 bits.
  static bool Fits(const Problem& problem, const FfmaConfig& config);

 private:
  // One operand of a matrix.
  struct Side {
    int64_t outer;  // m or n
    int64_t outer_stride;
    int64_t depth_stride;
    int64_t batch_stride;
    FfmaFeed feed;
    bool packed;
    int64_t panel;  // rows or columns that are packed at a time
    int64_t pitch;  // of what is packed

    int64_t packed_elements(int64_t depth) const { return packed ? depth * pitch : 0; }
  };
  bool IsDirect(int64_t outer, int64_t outer_stride, const MatrixLayout& layout) const;
  Side SideOf(int64_t outer, int64_t outer_stride, int64_t depth_stride,
              const MatrixLayout& layout) const;
  Side Packed(const Side& as_it_lies, int tile) const;
  void PackWhatPays();
  bool PacksItself() const;
  void FillOwnPacking(FfmaRound* round) const;
  int64_t CutMatrices(int64_t matrices) const;
  void FillSide(const Side& side, const float* from, int64_t first, int64_t outer, int64_t matrices,
                int tile, bool pack, TensorBoxes* boxes, Packing* packing, bool* packed) const;

  const bool turned_;
  const Problem problem_;
  const FfmaConfig& config_;
  const FfmaLimits limits_;
  int64_t depth_;  // k, or 0 where A and B are not read
  Side a_;
  Side b_;
  int64_t chunk_length_;
  int64_t chunks_;
  bool clustered_;  // chunks meet in clusters
  bool folds_;      // blocks sum quarters one after the other
  bool packs_itself_;
  int64_t tiles_;  // of a matrix's panel, with its chunks
  int64_t partial_pitch_;
  int64_t partial_elements_;  // of one matrix's panel
  int64_t matrices_;          // of the batch in one round
  int64_t batches_;
  int64_t panels_m_;
  int64_t panels_n_;
  size_t offset_b_;  // into the workspace
  size_t offset_partial_;
  size_t offset_kept_;
  size_t workspace_bytes_;
};

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_FFMA_ROUNDS_H_
