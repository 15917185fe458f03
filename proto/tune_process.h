// How a process that moves bulk messages over gRPC wants its allocator and Abseil's locks set up;
// used by server and client alike.

#ifndef GEMMD_PROTO_TUNE_PROCESS_H_
#define GEMMD_PROTO_TUNE_PROCESS_H_

namespace gemm {

// To be called early in main. Once is enough.
void TuneProcess();

}  // namespace gemm

#endif  // GEMMD_PROTO_TUNE_PROCESS_H_
