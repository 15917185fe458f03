// What a server says about itself and its choices: plain values.

#ifndef GEMMD_CLIENT_CPP_GEMMD_SERVER_INFO_H_
#define GEMMD_CLIENT_CPP_GEMMD_SERVER_INFO_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "gemmd/types.h"

namespace gemm {

struct DeviceSummary {
  int index = 0;
  std::string name;
  std::string uuid;            // empty on the CPU
  std::string kind;            // "cuda" or "cpu"
  int compute_capability = 0;  // major * 10 + minor; 0 on the CPU
  int multiprocessors = 0;     // cores on the CPU
  uint64_t memory_bytes = 0;
  bool healthy = false;
};

struct ServerInfo {
  std::string version;
  std::string commit;
  std::vector<DeviceSummary> devices;
  std::vector<std::string> kernels;        // full names, in the order in which they are considered
  std::vector<ElementType> element_types;  // those that this client knows
  uint64_t message_limit_bytes = 0;        // largest request and largest reply
  absl::Duration uptime;

  // Matrices that stay on the server: memory for them and what is taken of it, over all devices,
  // and the longest time to live that may be asked for.
  uint64_t matrix_memory_bytes = 0;
  uint64_t matrix_memory_used_bytes = 0;
  absl::Duration time_to_live_limit;
};

// A product whose kernel is asked for. Dense operands.
struct ExplainArgs {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  ElementType element_type = ElementType::kF32;
  bool transpose_a = false;
  bool transpose_b = false;
  int64_t batch_count = 1;
  Precision precision = Precision::kStrict;
};

struct KernelCandidate {
  std::string kernel;
  std::string why_not;      // empty when this kernel could run the product
  absl::Duration modelled;  // the server's estimate; zero with why_not, and on the CPU
};

struct Explanation {
  std::string chosen;
  std::string reason;  // why this one, for example "measured" or "modelled"
  std::string device;
  std::vector<KernelCandidate> candidates;  // in the order in which they are considered
};

enum class HealthState { kUnknown, kServing, kNotServing };

std::string_view NameOf(HealthState state);  // "SERVING"

}  // namespace gemm

#endif  // GEMMD_CLIENT_CPP_GEMMD_SERVER_INFO_H_
