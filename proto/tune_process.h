// How a process that moves bulk messages over gRPC wants its allocator and gRPC set up; used by
// server and client alike.

#ifndef GEMMD_PROTO_TUNE_PROCESS_H_
#define GEMMD_PROTO_TUNE_PROCESS_H_

namespace gemm {

// To be called first in main: before any thread starts, since it writes the environment, and before
// gRPC reads that. What the environment says already about gRPC's experiments stays.
void TuneProcess();

}  // namespace gemm

#endif  // GEMMD_PROTO_TUNE_PROCESS_H_
