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

// For programs that move much over several connections at once, by Put, Get or large products. By
// default gRPC has one epoll set a process and one thread at a time that waits on it, which wakes
// the next one for each event: the connections are read at the pace of wake-ups. This has each
// thread poll its own connections (GRPC_POLL_STRATEGY=poll, unless that is set). 4096x8192x8192
// with B on the server then takes 20.8 ms over loopback where it took 24.0 (16 cores and an H200,
// 2026-11-30). Small calls of many threads that share a connection become slower: 5 to 8 thousand
// a second where it were 11 to 12 (16 threads, 2 busy cores). Before anything uses gRPC.
void PollConnectionsApart();

}  // namespace gemm

#endif  // GEMMD_CLIENT_CPP_GEMMD_TUNE_PROCESS_H_
