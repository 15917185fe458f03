// What launches ask for beyond a grid and shared memory.

#ifndef GEMMD_KERNELS_FAMILIES_LAUNCH_ATTRIBUTES_H_
#define GEMMD_KERNELS_FAMILIES_LAUNCH_ATTRIBUTES_H_

#include <cuda_runtime_api.h>

namespace gemm {

// The kernel may start while the one before ends, and waits itself: ptx/dependent_launch.cuh.
inline cudaLaunchAttribute StartsEarly() {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  return attribute;
}

// So many blocks that follow each other are a cluster.
inline cudaLaunchAttribute InClustersOf(int blocks) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
  return attribute;
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_LAUNCH_ATTRIBUTES_H_
