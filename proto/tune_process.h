// How a process that moves bulk messages over gRPC wants its allocator and Abseil's locks set up.

#ifndef GEMMD_PROTO_TUNE_PROCESS_H_
#define GEMMD_PROTO_TUNE_PROCESS_H_

namespace gemm {

// For clients and servers. To be called early in main. Once is enough.
void TuneProcess();

// The same for a server, whose threads besides share four of glibc's arenas, unless the environment
// has a MALLOC_ARENA_MAX. Each arena keeps the most that it has ever held; by default there is one
// for each thread, up to eight a core.
void TuneServerProcess();

}  // namespace gemm

#endif  // GEMMD_PROTO_TUNE_PROCESS_H_
