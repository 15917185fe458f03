#include "client/cli/perf/tally.h"

#include <algorithm>

namespace gemm::cli {
namespace {

double Seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

void Tally::AddCall(std::chrono::nanoseconds latency, std::chrono::nanoseconds wait) {
  latency_.Add(latency);
  wait_seconds_ += Seconds(wait);
}

void Tally::AddProduct(const MixShape& shape, const MultiplyReport& report, double share) {
  ++products_;
  payload_bytes_ += static_cast<double>(shape.payload_bytes());
  flops_ += shape.flops();
  const auto phases = PhasesOf(report);
  for (size_t i = 0; i < phases.size(); ++i) {
    phase_seconds_[i] += absl::ToDoubleSeconds(phases[i]) * share;
  }
}

void Tally::Merge(const Tally& other) {
  latency_.Merge(other.latency_);
  wait_seconds_ += other.wait_seconds_;
  for (size_t i = 0; i < phase_seconds_.size(); ++i) phase_seconds_[i] += other.phase_seconds_[i];
  products_ += other.products_;
  payload_bytes_ += other.payload_bytes_;
  flops_ += other.flops_;
  unsent_ += other.unsent_;
  for (const auto& [code, count] : other.errors_) errors_[code] += count;
}

int64_t Tally::failures() const {
  int64_t sum = unsent_;
  for (const auto& [code, count] : errors_) sum += count;
  return sum;
}

double Tally::mean_seconds() const { return Seconds(latency_.mean()); }

double Tally::mean_wait_seconds() const {
  return calls() == 0 ? 0 : wait_seconds_ / static_cast<double>(calls());
}

double Tally::mean_phase_seconds(size_t phase) const {
  return calls() == 0 ? 0 : phase_seconds_.at(phase) / static_cast<double>(calls());
}

double Tally::mean_rest_seconds() const {
  double rest = mean_seconds() - mean_wait_seconds();
  for (size_t i = 0; i < phase_seconds_.size(); ++i) rest -= mean_phase_seconds(i);
  return std::max(rest, 0.0);
}

}  // namespace gemm::cli
