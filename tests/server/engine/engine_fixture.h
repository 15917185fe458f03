// An engine over puppet devices, and what became of the jobs that a test submits to it.

#ifndef GEMMD_TESTS_SERVER_ENGINE_ENGINE_FIXTURE_H_
#define GEMMD_TESTS_SERVER_ENGINE_ENGINE_FIXTURE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "server/engine/engine.h"
#include "tests/server/engine/fake_clock.h"
#include "tests/server/engine/puppet_device.h"

namespace gemm {

class CountingObserver final : public EngineObserver {
 public:
  void OnBatch(const Batch& batch) override {
    ++batches;
    last_device = batch.device;
    for (const auto& job : batch.jobs) finished += static_cast<int>(job->products.size());
  }
  void OnDropped(const Job&, const absl::Status&) override { ++dropped; }
  void OnDeviceLost(const DeviceDescription&) override { ++lost; }

  std::atomic<int> batches{0};
  std::atomic<int> last_device{-1};
  std::atomic<int> finished{0};
  std::atomic<int> dropped{0};
  std::atomic<int> lost{0};
};

struct Outcome {
  absl::Status status;  // of the job, or else the first error of its products
  std::unique_ptr<Job> job;
};

class EngineTest : public testing::Test {
 protected:
  PuppetDevice& AddDevice() {
    devices_.push_back(std::make_unique<PuppetDevice>(static_cast<int>(devices_.size())));
    return static_cast<PuppetDevice&>(*devices_.back());
  }

  void Start() {
    engine_ = std::make_unique<Engine>(options_, std::move(devices_), clock_, observer_);
  }

  std::unique_ptr<Job> MakeJob(int64_t size = 4) {
    auto job = std::make_unique<Job>();
    job->products.emplace_back().problem = DenseProblem(DType::kF32, size, size, size);
    job->cancel = std::make_shared<CancelToken>();
    return job;
  }

  std::future<Outcome> Submit(std::unique_ptr<Job> job) {
    auto promise = std::make_shared<std::promise<Outcome>>();
    std::future<Outcome> future = promise->get_future();
    job->done = [promise](absl::Status status, std::unique_ptr<Job> done) {
      for (const JobProduct& product : done->products) status.Update(product.status);
      promise->set_value({std::move(status), std::move(done)});
    };
    engine_->Submit(std::move(job));
    return future;
  }

  EngineOptions options_;
  FakeClock clock_;
  CountingObserver observer_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace gemm

#endif  // GEMMD_TESTS_SERVER_ENGINE_ENGINE_FIXTURE_H_
