// Times cubins made by ffma_streams.py: cycles per issued instruction, with 1 and 2 warps a
// scheduler, the median of 132 CTAs.
//
// usage: timeout 4 build/run_streams STREAM.cubin   (one per call: a bad patch can hang the GPU)

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                        \
  do {                                                                     \
    if (cudaError_t error_ = (call); error_ != cudaSuccess) {              \
      std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error_)); \
      std::exit(1);                                                        \
    }                                                                      \
  } while (0)

int main(int argc, char** argv) {
  constexpr int kCtas = 132, kPasses = 200, kInstructions = 1027;  // a pass
  float* out;
  CHECK(cudaMalloc(&out, 1 << 20));
  CHECK(cudaMemset(out, 0, 1 << 20));
  for (int i = 1; i < argc; ++i) {
    cudaLibrary_t library;
    cudaKernel_t kernel;
    CHECK(cudaLibraryLoadFromFile(&library, argv[i], nullptr, nullptr, 0, nullptr, nullptr, 0));
    CHECK(cudaLibraryGetKernel(&kernel, library, "FfmaStream"));
    std::printf("%-40s", argv[i]);
    for (int threads : {128, 256}) {
      int passes = kPasses;
      float seed = 0.37f;
      void* arguments[] = {&out, &passes, &seed};
      std::vector<long long> cycles(kCtas);
      for (int r = 0; r < 3; ++r) {
        CHECK(cudaLaunchKernel((const void*)kernel, dim3(kCtas), dim3(threads), arguments, 0, 0));
      }
      CHECK(cudaDeviceSynchronize());
      CHECK(cudaMemcpy(cycles.data(), out + kCtas * 256, kCtas * 8, cudaMemcpyDeviceToHost));
      std::sort(cycles.begin(), cycles.end());
      std::printf("  %d warps: %.4f", threads / 128,
                  (double)cycles[kCtas / 2] / kPasses / (1.0 * kInstructions * threads / 128));
    }
    std::printf("  cycles/instruction\n");
    CHECK(cudaLibraryUnload(library));
  }
}
