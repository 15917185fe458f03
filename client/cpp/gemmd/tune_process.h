// For programs whose main business is large products.

#ifndef GEMMD_CLIENT_CPP_GEMMD_TUNE_PROCESS_H_
#define GEMMD_CLIENT_CPP_GEMMD_TUNE_PROCESS_H_

namespace gemm {

// Sets glibc's allocator up for messages of megabytes, as gemmd does with its own: memory that gRPC
// has freed is kept for the next message rather than given back to the kernel, and the process
// stays as large as its busiest moment. Also tells Abseil not to look for locks that wait in a
// circle, which builds of it without NDEBUG do at every lock of gRPC's. To be called early in main;
// the library never does it by itself, since it changes the whole process.
void TuneClientProcess();

}  // namespace gemm

#endif  // GEMMD_CLIENT_CPP_GEMMD_TUNE_PROCESS_H_
