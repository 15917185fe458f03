#include "client/cli/perf/upload.h"

#include <algorithm>
#include <bit>
#include <span>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/cli/perf/random.h"

namespace gemm::cli {

void TransferTally::Add(absl::Duration time) {
  ++transfers;
  total += time;
  best = std::min(best, time);
}

double UploadResult::gigabytes_per_second(const TransferTally& tally) const {
  if (tally.transfers == 0) return 0;
  return static_cast<double>(matrix_bytes) * static_cast<double>(tally.transfers) /
         absl::ToDoubleSeconds(tally.total) * 1e-9;
}

double UploadResult::best_gigabytes_per_second(const TransferTally& tally) const {
  if (tally.transfers == 0) return 0;
  return static_cast<double>(matrix_bytes) / absl::ToDoubleSeconds(tally.best) * 1e-9;
}

Upload::Upload(int64_t bytes, uint64_t seed)
    : data_(std::max<int64_t>(bytes / (kColumns * static_cast<int64_t>(sizeof(float))), 1) *
            kColumns),
      back_(data_.size()) {
  Random random(seed, 0);
  for (float& value : data_) value = static_cast<float>(2 * random.Uniform() - 1);
}

absl::StatusOr<UploadResult> Upload::Run(const Client& client, absl::Duration duration,
                                         absl::FunctionRef<bool(const UploadResult&)> go_on) {
  UploadResult unmeasured;
  if (absl::Status status = PutAndGet(client, unmeasured); !status.ok()) return status;
  if (absl::Status status = Check(); !status.ok()) return status;
  std::fill(back_.begin(), back_.end(), 0.0f);
  UploadResult result{.matrix_bytes = bytes()};
  const absl::Time end = absl::Now() + duration;
  do {
    if (!go_on(result)) break;
    if (absl::Status status = PutAndGet(client, result); !status.ok()) return status;
  } while (absl::Now() < end);
  if (result.get.transfers > 0) {
    if (absl::Status status = Check(); !status.ok()) return status;
  }
  return result;
}

absl::Status Upload::PutAndGet(const Client& client, UploadResult& result) {
  const absl::Time start = absl::Now();
  const absl::StatusOr<MatrixInfo> matrix =
      client.Put<float>({.rows = rows(), .columns = kColumns, .data = data_});
  if (!matrix.ok()) return matrix.status();
  const absl::Time there = absl::Now();
  absl::Status got = client.Get({.name = matrix->name}, std::span<float>(back_)).status();
  const absl::Time back = absl::Now();
  client.DeleteMatrix(matrix->name).IgnoreError();  // what is left expires
  if (!got.ok()) return got;
  result.put.Add(there - start);
  result.get.Add(back - there);
  return absl::OkStatus();
}

absl::Status Upload::Check() const {
  for (size_t i = 0; i < data_.size(); ++i) {
    if (std::bit_cast<uint32_t>(data_[i]) == std::bit_cast<uint32_t>(back_[i])) continue;
    return absl::DataLossError(
        absl::StrFormat("the server's copy is wrong: element (%d, %d) is %g instead of %g",
                        i / kColumns, i % kColumns, back_[i], data_[i]));
  }
  return absl::OkStatus();
}

}  // namespace gemm::cli
