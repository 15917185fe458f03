#include "kernels/registry.h"

#include "kernels/families/families.h"

namespace gemm {

std::string_view NameOf(NumericsClass numerics) {
  switch (numerics) {
    case NumericsClass::kSequential:
      return "sequential";
    case NumericsClass::kQuarters:
      return "quarters";
    case NumericsClass::kChunkedQuarters:
      return "chunked_quarters";
    case NumericsClass::kStreamK:
      return "stream_k";
    case NumericsClass::kStreamKQuarters:
      return "stream_k_quarters";
    case NumericsClass::kChunkedLanes:
      return "chunked_lanes";
    case NumericsClass::kDealtChunks:
      return "dealt_chunks";
    case NumericsClass::kChunks:
      return "chunks";
  }
  return "unknown";
}

std::span<const KernelFamily* const> Families() {
  static const KernelFamily* const kFamilies[] = {
      &SkinnyFamily(),    &DeepFamily(),    &SlicedFamily(), &PipelinedFamily(),
      &UnpackedFamily(),  &StreamKFamily(), &SmallFamily(),  &OuterFamily(),
      &DenseFamily(),     &BoxedFamily(),   &TensorFamily(), &RegisterFamily(),
      &Blocked1dFamily(), &CachedFamily(),  &TiledFamily(),  &NaiveFamily(),
      &ReferenceFamily(),
  };
  return kFamilies;
}

}  // namespace gemm
