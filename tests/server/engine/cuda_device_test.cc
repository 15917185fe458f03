// The GPU as a device of the engine: needs one.

#include "server/engine/cuda_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <limits>
#include <random>

#include "server/engine/engine.h"
#include "server/reason.h"

namespace gemm {
namespace {

class QuietObserver final : public EngineObserver {
 public:
  void OnBatch(const Batch&) override {}
  void OnDropped(const Job&, const absl::Status&) override {}
  void OnDeviceLost(const DeviceDescription& device) override {
    ADD_FAILURE() << "lost " << device.name;
  }
};

struct Outcome {
  absl::Status status;
  std::unique_ptr<Job> job;
};

class CudaDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    auto devices = OpenCudaDevices("");
    ASSERT_TRUE(devices.ok()) << devices.status();
    EngineOptions options;
    options.host_memory_budget_bytes = uint64_t{4} << 30;
    engine_ = std::make_unique<Engine>(options, *std::move(devices), clock_, observer_);
  }

  // A dense f32 product of small integers, so that every sum is exact; D starts as NaN.
  std::unique_ptr<Job> MakeJob(int64_t m, int64_t n, int64_t k, unsigned seed = 1) {
    auto job = std::make_unique<Job>();
    JobProduct& product = job->products.emplace_back();
    product.problem = DenseProblem(DType::kF32, m, n, k);
    const size_t a_bytes = m * k * sizeof(float);
    const size_t b_bytes = k * n * sizeof(float);
    product.a = {0, a_bytes};
    product.b = {AlignedSize(a_bytes), b_bytes};
    product.output_bytes = m * n * sizeof(float);
    job->input = *engine_->AllocateHost(AlignedSize(a_bytes) + AlignedSize(b_bytes));
    job->output = *engine_->AllocateHost(m * n * sizeof(float));
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> small(-4, 4);
    for (const InputSpan& span : {product.a, product.b}) {
      float* values = reinterpret_cast<float*>(job->input.data() + span.offset_bytes);
      std::generate_n(values, span.size_bytes / sizeof(float),
                      [&] { return static_cast<float>(small(random)); });
    }
    std::fill_n(reinterpret_cast<float*>(job->output.data()), m * n,
                std::numeric_limits<float>::quiet_NaN());
    return job;
  }

  std::future<Outcome> Submit(std::unique_ptr<Job> job) {
    auto promise = std::make_shared<std::promise<Outcome>>();
    std::future<Outcome> future = promise->get_future();
    job->done = [promise](absl::Status status, std::unique_ptr<Job> done) {
      promise->set_value({std::move(status), std::move(done)});
    };
    engine_->Submit(std::move(job));
    return future;
  }

  static void ExpectExact(const Outcome& outcome) {
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    const Job& job = *outcome.job;
    const JobProduct& product = job.products.front();
    ASSERT_TRUE(product.status.ok()) << product.status;
    const Problem& p = product.problem;
    SCOPED_TRACE(testing::Message()
                 << p.m << " x " << p.n << " x " << p.k << " by "
                 << std::string(product.report.kernel) << " in a batch of " << job.batch_problems);
    const auto* a = reinterpret_cast<const float*>(job.input.data() + product.a.offset_bytes);
    const auto* b = reinterpret_cast<const float*>(job.input.data() + product.b.offset_bytes);
    const auto* d = reinterpret_cast<const float*>(job.output.data());
    // Large products by samples: the kernels have checks of their own.
    const int64_t elements = p.m * p.n;
    const int64_t step = std::max<int64_t>(1, elements / 4000);
    for (int64_t at = 0; at < elements; at += step) {
      double sum = 0;
      for (int64_t l = 0; l < p.k; ++l) {
        sum += double{a[at / p.n * p.k + l]} * double{b[l * p.n + at % p.n]};
      }
      ASSERT_EQ(d[at], sum) << "element " << at;
    }
  }

  SystemClock clock_;
  QuietObserver observer_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(CudaDeviceTest, SaysWhatItIs) {
  const Device& device = *engine_->devices().front();
  EXPECT_EQ(device.description().kind, "cuda");
  EXPECT_NE(device.description().uuid, "");
  EXPECT_GE(device.description().compute_capability, 80);
  EXPECT_NE(device.kernel_names().size(), 0u);
  EXPECT_NE(device.Explain(DenseProblem(DType::kF32, 64, 64, 64)).chosen, "");
}

TEST_F(CudaDeviceTest, ProductsOfEverySizeAreExactAndReported) {
  for (auto [m, n, k] : {std::array<int64_t, 3>{1, 1, 1},
                         {3, 5, 7},
                         {64, 64, 64},
                         {129, 257, 65},
                         {8, 4096, 512},
                         {64, 64, 20'000},
                         {1023, 1025, 127},
                         {2048, 2048, 512}}) {
    const Outcome outcome = Submit(MakeJob(m, n, k)).get();
    ExpectExact(outcome);
    const ExecutionReport& report = outcome.job->products.front().report;
    EXPECT_NE(report.kernel, "");
    EXPECT_GT(report.launches, 0);
    EXPECT_GT(report.compute, absl::ZeroDuration());
    EXPECT_GT(report.copy_in, absl::ZeroDuration());
    EXPECT_GT(report.copy_out, absl::ZeroDuration());
  }
}

TEST_F(CudaDeviceTest, AMixInEveryLaneAtOnceIsExact) {
  std::vector<std::future<Outcome>> outcomes;
  std::mt19937 random(7);
  for (unsigned i = 0; i < 400; ++i) {
    const auto size = [&random](int64_t most) {
      return static_cast<int64_t>(1 + random() % static_cast<unsigned>(most));
    };
    outcomes.push_back(Submit(i % 40 == 0 ? MakeJob(1500, 1700, 900, i)
                                          : MakeJob(size(150), size(150), size(300), i)));
  }
  uint32_t largest_batch = 0;
  for (std::future<Outcome>& future : outcomes) {
    const Outcome outcome = future.get();
    ExpectExact(outcome);
    largest_batch = std::max(largest_batch, outcome.job->batch_problems);
  }
  EXPECT_GT(largest_batch, 1u);
}

TEST_F(CudaDeviceTest, BitsDoNotDependOnCompany) {
  const auto make = [this] {
    auto job = MakeJob(60, 50, 700);
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::generate_n(reinterpret_cast<float*>(job->input.data()),
                    job->input.size_bytes() / sizeof(float), [&] { return normal(random); });
    return job;
  };
  const Outcome alone = Submit(make()).get();
  ASSERT_TRUE(alone.status.ok()) << alone.status;
  std::vector<std::future<Outcome>> outcomes;
  for (unsigned i = 0; i < 100; ++i) {
    outcomes.push_back(Submit(make()));
    outcomes.push_back(Submit(MakeJob(30 + i, 40, 50, i)));
  }
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const Outcome outcome = outcomes[i].get();
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    if (i % 2 != 0) continue;
    EXPECT_EQ(outcome.job->products.front().report.kernel,
              alone.job->products.front().report.kernel);
    EXPECT_EQ(std::memcmp(outcome.job->output.data(), alone.job->output.data(),
                          alone.job->output.size_bytes()),
              0);
  }
}

TEST_F(CudaDeviceTest, AnUnknownKernelCannotBeForced) {
  EXPECT_EQ(OpenCudaDevices("no_such_kernel").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gemm
