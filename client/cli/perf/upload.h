// How fast large matrices go to the server and come back.

#ifndef GEMMD_CLIENT_CLI_PERF_UPLOAD_H_
#define GEMMD_CLIENT_CLI_PERF_UPLOAD_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gemmd/client.h"

namespace gemm::cli {

// Transfers of one matrix in one direction.
struct TransferTally {
  int64_t transfers = 0;
  absl::Duration total;
  absl::Duration best = absl::InfiniteDuration();

  void Add(absl::Duration time);
};

struct UploadResult {
  int64_t matrix_bytes = 0;
  TransferTally put;
  TransferTally get;

  // The mean transfer's, and the best one's.
  double gigabytes_per_second(const TransferTally& tally) const;
  double best_gigabytes_per_second(const TransferTally& tally) const;
};

class Upload {
 public:
  static constexpr int64_t kColumns = 4096;  // of f32: 16 KiB a row

  // Random numbers, in as many whole rows as `bytes` has, but one at least.
  Upload(int64_t bytes, uint64_t seed);

  int64_t rows() const { return static_cast<int64_t>(data_.size()) / kColumns; }
  int64_t bytes() const { return static_cast<int64_t>(data_.size() * sizeof(float)); }

  // Puts and gets it once, which is not measured, then again and again for `duration`, once at
  // least; each Put makes a new matrix, which is deleted in the end. DATA_LOSS when what came back
  // is not what was sent, the first time or the last. `go_on` is asked before each.
  absl::StatusOr<UploadResult> Run(const Client& client, absl::Duration duration,
                                   absl::FunctionRef<bool(const UploadResult&)> go_on);

 private:
  // Adds both ways to `result`.
  absl::Status PutAndGet(const Client& client, UploadResult& result);
  absl::Status Check() const;

  std::vector<float> data_;
  std::vector<float> back_;
};

}  // namespace gemm::cli

#endif  // GEMMD_CLIENT_CLI_PERF_UPLOAD_H_
