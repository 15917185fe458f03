// A device that does what a test tells it: waits, fails, dies.

#ifndef GEMMD_TESTS_SERVER_ENGINE_PUPPET_DEVICE_H_
#define GEMMD_TESTS_SERVER_ENGINE_PUPPET_DEVICE_H_

#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "server/engine/device.h"

namespace gemm {

class PuppetDevice final : public Device {
 public:
  explicit PuppetDevice(int index = 0) {
    description_.index = index;
    description_.name = "puppet";
    description_.kind = "puppet";
  }

  // What Run does with a job, on a lane's thread; the status is for each product that has none of
  // its own by then. Set these two before the engine starts.
  std::function<absl::Status(Job&)> on_run = [](Job&) { return absl::OkStatus(); };
  std::vector<LaneKind> lane_kinds{LaneKind::kAny};
  // Before the engine starts; 0: unknown.
  void set_ceiling_flops_per_second(double rate) {
    description_.ceiling_flops_per_second = {rate, rate};
  }
  void Lose() { lost_ = true; }
  int runs() const { return runs_; }
  int last_lane() const { return last_lane_; }  // of the latest to begin

  const DeviceDescription& description() const override { return description_; }
  const std::vector<std::string>& kernel_names() const override { return kernel_names_; }
  HostMemory& host_memory() override { return memory_; }
  bool lost() const override { return lost_; }
  KernelExplanation Explain(const Problem&) const override { return {"puppet", "only one", {}}; }

  std::vector<LaneKind> lanes() const override { return lane_kinds; }

  // Matrices without memory; `on_write` is what WriteRows returns.
  std::function<absl::Status()> on_write = [] { return absl::OkStatus(); };
  absl::StatusOr<std::unique_ptr<DeviceMatrix>> AllocateMatrix(const MatrixSpec& spec) override {
    return std::make_unique<DeviceMatrix>(description_.index, spec, nullptr);
  }
  absl::Status WriteRows(const DeviceMatrix&, RowRange, RowSource) override { return on_write(); }
  absl::Status ReadRows(const DeviceMatrix&, RowRange, std::byte*) override {
    return absl::OkStatus();
  }

  void Run(int lane, Batch& batch) override {
    last_lane_ = lane;
    for (const std::unique_ptr<Job>& job : batch.jobs) {
      ++runs_;
      const absl::Status status = on_run(*job);
      for (JobProduct& product : job->products) {
        if (!NeedsDevice(product)) continue;
        product.report.kernel = "puppet";
        product.status = status;
      }
    }
  }

 private:
  DeviceDescription description_;
  std::vector<std::string> kernel_names_{"puppet"};
  PageableMemory memory_;
  std::atomic<bool> lost_{false};
  std::atomic<int> runs_{0};
  std::atomic<int> last_lane_{-1};
};

}  // namespace gemm

#endif  // GEMMD_TESTS_SERVER_ENGINE_PUPPET_DEVICE_H_
