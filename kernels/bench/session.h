// A GPU made ready for measuring: its families, the peer beside them, and the record of the run.

#ifndef GEMMD_KERNELS_BENCH_SESSION_H_
#define GEMMD_KERNELS_BENCH_SESSION_H_

#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kernels/bench/measure.h"
#include "kernels/bench/measured_times.h"
#include "kernels/bench/modes.h"
#include "kernels/bench/peer.h"
#include "kernels/bench/shape_lists.h"
#include "kernels/device_info.h"
#include "kernels/select.h"

namespace gemm {

using Json = nlohmann::ordered_json;

// JSON lines in a file; nothing without a name.
class RunLog {
 public:
  RunLog() = default;
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  bool Open(const std::string& path);
  void Write(const Json& line) { WriteText(line.dump() + "\n"); }
  void WriteText(const std::string& lines);

 private:
  std::FILE* file_ = nullptr;
};

// Where figures come from: the card, its driver, CUDA, the peer, the time, the command.
struct Provenance {
  std::string card;
  std::string driver;
  std::string cuda;
  std::string peer;
  std::string date;
  std::string commit;
  std::string command;
};
Json ToJson(const Provenance& provenance);
// The same in words, a line each, from what ToJson gave.
std::vector<std::string> HeaderOf(const Json& provenance);

class Session {
 public:
  explicit Session(const Flags& flags) : flags_(flags) {}

  // Empty, or what stands in the way.
  std::string Open();
  // The same, with the products that the flags name. Then body of each of them, while there is
  // time: empty, or which could not be run and why.
  std::string OpenWithShapes();
  std::string ForEachShape(
      DType dtype, const std::function<cudaError_t(const BenchShape&, const Problem&)>& body);

  const DeviceInfo& device() const { return device_; }
  std::span<const KernelFamily* const> families() const { return families_; }
  // By the table that the flags leave.
  const Selector& selector() const { return *selector_; }
  const Provenance& provenance() const { return provenance_; }
  Workbench& bench() { return *bench_; }
  Peer& peer() { return *peer_; }
  RunLog& log() { return log_; }

  // False once the budget is spent; says so once.
  bool HasTime();
  double elapsed() const;

 private:
  const Flags& flags_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  bool said_ = false;
  DeviceInfo device_;
  std::vector<const KernelFamily*> families_;
  std::optional<Selector> selector_;
  Provenance provenance_;
  std::optional<Workbench> bench_;
  std::unique_ptr<Peer> peer_;
  RunLog log_;
  std::vector<BenchShape> shapes_;
};

// The times of a product's kernels, recorded. Those that fail their check are told and counted; of
// those that were timed only roughly `with_rough` keeps the times.
[[nodiscard]] cudaError_t MeasureShape(Session& session, DType dtype, const BenchShape& shape,
                                       const MeasureOptions& options, bool with_rough,
                                       ShapeTimes* record, int* faults);

// The peer's fastest way for the product on the arena's sets, checked by samples.
struct PeerWay {
  size_t way = 0;
  std::string name;  // empty: it cannot, and `why_not` says why
  std::string why_not;
};
[[nodiscard]] cudaError_t FindPeerWay(Session& session, const Problem& problem, ResultCheck& check,
                                      PeerWay* found);

}  // namespace gemm

#endif  // GEMMD_KERNELS_BENCH_SESSION_H_
