#include "client/cli/perf/latency_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace gemm::cli {
namespace {

// Values below 2^10 have a bucket each. From there on every power of two is split into 2^9.
constexpr int kBits = 9;
constexpr uint64_t kExact = uint64_t{1} << (kBits + 1);

size_t BucketOf(uint64_t ns) {
  if (ns < kExact) return ns;
  const int shift = std::bit_width(ns) - (kBits + 1);
  return (static_cast<size_t>(shift) << kBits) + (ns >> shift);
}

// The largest value of a bucket.
int64_t TopOf(size_t bucket) {
  if (bucket < kExact) return static_cast<int64_t>(bucket);
  const int shift = static_cast<int>(bucket >> kBits) - 1;
  const uint64_t head = bucket - (static_cast<size_t>(shift) << kBits);
  return static_cast<int64_t>(((head + 1) << shift) - 1);
}

}  // namespace

void LatencyHistogram::Add(std::chrono::nanoseconds latency) {
  const int64_t ns = std::max<int64_t>(latency.count(), 0);
  const size_t bucket = BucketOf(ns);
  if (bucket >= buckets_.size()) buckets_.resize(bucket + 1);
  ++buckets_[bucket];
  ++count_;
  max_ns_ = std::max(max_ns_, ns);
  sum_ns_ += static_cast<double>(ns);
}

void LatencyHistogram::Merge(const LatencyHistogram& other) {
  if (other.buckets_.size() > buckets_.size()) buckets_.resize(other.buckets_.size());
  for (size_t i = 0; i < other.buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  max_ns_ = std::max(max_ns_, other.max_ns_);
  sum_ns_ += other.sum_ns_;
}

std::chrono::nanoseconds LatencyHistogram::mean() const {
  if (count_ == 0) return {};
  return std::chrono::nanoseconds(std::llround(sum_ns_ / static_cast<double>(count_)));
}

std::chrono::nanoseconds LatencyHistogram::Percentile(double percent) const {
  // Without the small subtraction 99.9 % of 1000 would be rank 1000 by rounding alone.
  const double exact_rank = percent / 100 * static_cast<double>(count_);
  const auto rank = std::max<int64_t>(1, std::llround(std::ceil(exact_rank - 1e-6)));
  int64_t seen = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen >= rank) return std::chrono::nanoseconds(std::min(TopOf(i), max_ns_));
  }
  return max();
}

}  // namespace gemm::cli
