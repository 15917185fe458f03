// The servers that gemmd is compared with. Each takes any request and answers with as many bytes as
// the metadata gemmd-bench-reply-bytes asks for.

#ifndef GEMMD_SERVER_BENCH_ECHO_SERVERS_H_
#define GEMMD_SERVER_BENCH_ECHO_SERVERS_H_

#include <string>

namespace gemm::bench {

inline constexpr char kReplyBytesKey[] = "gemmd-bench-reply-bytes";
inline constexpr char kEchoMethod[] = "/gemm.v1.GemmService/Multiply";

// Serves on `address` and writes one line, the address to connect to, to standard output; returns
// when standard input ends.

// The floor: gemmd's own connections, and the least that it could do with a message. Each call is
// taken at its headers, its message copied once into a pool's memory, the reply sent from such
// memory.
void ServeFloor(const std::string& address);

// What a server does that was written without a thought: gRPC's defaults, slices in and out.
void ServePlainEcho(const std::string& address);

// A handler on the generated protobuf classes, on gRPC's defaults.
void ServeStubs(const std::string& address);

}  // namespace gemm::bench

#endif  // GEMMD_SERVER_BENCH_ECHO_SERVERS_H_
