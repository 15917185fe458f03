// For programs whose main business is large products.

#ifndef GEMMD_CLIENT_CPP_GEMMD_TUNE_PROCESS_H_
#define GEMMD_CLIENT_CPP_GEMMD_TUNE_PROCESS_H_

namespace gemm {

// Sets the whole process up for messages of megabytes, as gemmd does with its own: glibc's
// allocator keeps freed memory rather than giving it back to the kernel, and gRPC reads and waits
// in steps of what is expected (its environment variable GRPC_EXPERIMENTS, unless set already).
// Calls of 16 MiB each way take about a fifth less time; the process stays as large as its busiest
// moment.
//
// To be called first in main: before any thread starts, since it writes the environment, and before
// gRPC's first use, which reads it. The library never does it by itself.
void TuneClientProcess();

}  // namespace gemm

#endif  // GEMMD_CLIENT_CPP_GEMMD_TUNE_PROCESS_H_
