// The GPU as a device of the engine: needs one.

#include "server/engine/cuda_device.h"

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <limits>
#include <random>
#include <set>
#include <thread>

#include "absl/strings/match.h"
#include "server/engine/engine.h"
#include "server/reason.h"
#include "tests/server/engine/quiet_observer.h"

namespace gemm {
namespace {

struct Outcome {
  absl::Status status;
  std::unique_ptr<Job> job;
};

constexpr std::byte kCanary{0x5a};

template <typename T>
T* At(const HostBuffer& buffer, size_t offset) {
  return reinterpret_cast<T*>(buffer.data() + offset);
}

// Element (row, column) of matrix `batch` of op(X).
template <typename T>
double Element(const T* x, const MatrixLayout& layout, int64_t batch, int64_t row, int64_t column) {
  if (layout.transposed) std::swap(row, column);
  return static_cast<double>(x[batch * layout.batch_stride + row * layout.ld + column]);
}

template <typename T>
void ExpectExactProduct(const Job& job, const JobProduct& product) {
  ASSERT_TRUE(product.status.ok()) << product.status;
  const Problem& p = product.problem;
  SCOPED_TRACE(testing::Message() << p.m << " x " << p.n << " x " << p.k << " by "
                                  << std::string(product.report.kernel) << " in a batch of "
                                  << job.batch_problems);
  const T* a = At<T>(job.input, product.a.offset_bytes);
  const T* b = At<T>(job.input, product.b.offset_bytes);
  const T* c = At<T>(job.input, product.c.offset_bytes);
  const T* d = At<T>(job.output, product.output_offset_bytes);
  // Large products by samples: the kernels have checks of their own.
  const int64_t elements = p.m * p.n;
  const int64_t step = std::max<int64_t>(1, elements / 4000);
  for (int64_t batch = 0; batch < p.batch_count; ++batch) {
    for (int64_t at = 0; at < elements; at += step) {
      const int64_t row = at / p.n;
      const int64_t column = at % p.n;
      double sum = 0;
      for (int64_t l = 0; l < p.k; ++l) {
        sum += Element(a, p.a, batch, row, l) * Element(b, p.b, batch, l, column);
      }
      sum *= p.alpha;
      if (ReadsC(p)) sum += p.beta * Element(c, p.c, batch, row, column);
      ASSERT_EQ(Element(d, p.d, batch, row, column), sum) << "element " << at;
    }
  }
}

void ExpectExact(const Outcome& outcome) {
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  for (const JobProduct& product : outcome.job->products) {
    if (product.problem.dtype == DType::kF64) {
      ExpectExactProduct<double>(*outcome.job, product);
    } else {
      ExpectExactProduct<float>(*outcome.job, product);
    }
  }
}

// The bytes of the output that belong to no product.
void ExpectCanaries(const Job& job) {
  size_t at = 0;
  const auto expect_until = [&](size_t end) {
    for (; at < end; ++at) ASSERT_EQ(job.output.data()[at], kCanary) << "byte " << at;
  };
  for (const JobProduct& product : job.products) {
    expect_until(product.output_offset_bytes);
    at += product.output_bytes;
  }
  expect_until(job.output.size_bytes());
}

class CudaDeviceTest : public testing::Test {
 protected:
  void SetUp() override { Start({}); }

  void Start(const CudaOptions& cuda_options) {
    engine_ = nullptr;
    auto devices = OpenCudaDevices(cuda_options);
    ASSERT_TRUE(devices.ok()) << devices.status();
    EngineOptions options;
    options.queue.problems = 100'000;
    options.host_memory_budget_bytes = uint64_t{8} << 30;
    engine_ = std::make_unique<Engine>(options, *std::move(devices), clock_, observer_);
  }

  const Device& device() const { return *engine_->devices().front(); }

  // Operands of small integers, so that every sum is exact. Between results is a gap, and all of
  // the output is canaries.
  std::unique_ptr<Job> MakeJob(const std::vector<Problem>& problems, unsigned seed = 1) {
    auto job = std::make_unique<Job>();
    size_t input_bytes = 0;
    size_t output_bytes = 0;
    const auto span = [&input_bytes](const Problem& p, MatrixShape shape,
                                     const MatrixLayout& layout) {
      const auto bytes =
          static_cast<size_t>(ExtentElements(shape, layout, p.batch_count)) * SizeOf(p.dtype);
      InputSpan result{input_bytes, bytes};
      input_bytes += AlignedSize(bytes);
      return result;
    };
    for (const Problem& problem : problems) {
      JobProduct& product = job->products.emplace_back();
      product.problem = problem;
      product.a = span(problem, StoredA(problem), problem.a);
      product.b = span(problem, StoredB(problem), problem.b);
      if (ReadsC(problem)) product.c = span(problem, StoredC(problem), problem.c);
      product.output_offset_bytes = output_bytes;
      product.output_bytes =
          static_cast<size_t>(problem.m * problem.n * problem.batch_count) * SizeOf(problem.dtype);
      output_bytes += AlignedSize(product.output_bytes) + kOperandAlignment;
    }
    job->input = *engine_->AllocateHost(input_bytes);
    job->output = *engine_->AllocateHost(output_bytes);
    std::mt19937 random(seed);
    const auto fill = [&](auto* values, size_t count) {
      for (size_t i = 0; i < count; ++i) values[i] = static_cast<int>(random() >> 8) % 5 - 2;
    };
    for (const JobProduct& product : job->products) {
      for (const InputSpan& operand : {product.a, product.b, product.c}) {
        if (product.problem.dtype == DType::kF64) {
          fill(At<double>(job->input, operand.offset_bytes), operand.size_bytes / sizeof(double));
        } else {
          fill(At<float>(job->input, operand.offset_bytes), operand.size_bytes / sizeof(float));
        }
      }
    }
    std::fill_n(job->output.data(), output_bytes, kCanary);
    return job;
  }

  std::unique_ptr<Job> MakeJob(int64_t m, int64_t n, int64_t k, unsigned seed = 1) {
    return MakeJob({DenseProblem(DType::kF32, m, n, k)}, seed);
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

  bool HasKernel(std::string_view name) const {
    const std::vector<std::string>& names = device().kernel_names();
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  SteadyClock clock_;
  QuietObserver observer_;
  std::unique_ptr<Engine> engine_;
};

// Of all kinds: both types, transposes, padding, alpha and beta, batches, thin ones.
std::vector<Problem> MixedProblems(int count, unsigned seed) {
  std::mt19937 random(seed);
  const auto size = [&random](int most) { return 1 + static_cast<int64_t>(random() % most); };
  std::vector<Problem> problems;
  for (int i = 0; i < count; ++i) {
    Problem p = DenseProblem(i % 5 == 4 ? DType::kF64 : DType::kF32, size(i % 3 == 0 ? 4 : 130),
                             size(130), size(200), i % 7 == 6 ? 3 : 1);
    if (i % 2 == 1) {
      p.a.transposed = true;
      p.a.ld = p.m + i % 3;
      p.a.batch_stride = p.a.ld * p.k;
    }
    if (i % 4 >= 2) {
      p.b.transposed = true;
      p.b.ld = p.k;
    }
    if (i % 3 == 1) {
      p.alpha = 2;
      p.beta = -3;
    }
    problems.push_back(p);
  }
  return problems;
}

TEST_F(CudaDeviceTest, SaysWhatItIs) {
  EXPECT_EQ(device().description().kind, "cuda");
  EXPECT_NE(device().description().uuid, "");
  EXPECT_GE(device().description().compute_capability, 80);
  EXPECT_NE(device().kernel_names().size(), 0u);
  for (const double rate : device().description().ceiling_flops_per_second) {
    EXPECT_GT(rate, 1e11);
    EXPECT_LT(rate, 1e15);
  }
  EXPECT_NE(device().Explain(DenseProblem(DType::kF32, 64, 64, 64)).chosen, "");
}

TEST_F(CudaDeviceTest, ProductsOfEverySizeAreExactAndReported) {
  for (auto [m, n, k] : {std::array<int64_t, 3>{1, 1, 1},
                         {3, 5, 7},
                         {64, 64, 64},
                         {129, 257, 65},
                         {8, 4096, 512},
                         {64, 64, 20'000},
                         {1023, 1025, 127},
                         {2048, 2048, 512},
                         {4096, 2048, 1024}}) {
    const Outcome outcome = Submit(MakeJob(m, n, k)).get();
    ExpectExact(outcome);
    const ExecutionReport& report = outcome.job->products.front().report;
    EXPECT_NE(report.kernel, "");
    EXPECT_GT(report.launches, 0);
    EXPECT_GT(report.compute, absl::ZeroDuration());
    ExpectCanaries(*outcome.job);
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
    EXPECT_EQ(std::memcmp(outcome.job->output.data(), alone.job->output.data(),
                          alone.job->output.size_bytes()),
              0);
  }
}

TEST_F(CudaDeviceTest, BatchesThatCopyEnginesCarryAreExactAndWriteNothingElse) {
  std::vector<std::future<Outcome>> outcomes;
  for (unsigned i = 0; i < 60; ++i) {
    outcomes.push_back(Submit(MakeJob({DenseProblem(DType::kF32, 256, 250 - i % 3, 256),
                                       DenseProblem(DType::kF32, 129 + i, 200, 150)},
                                      i)));
  }
  for (std::future<Outcome>& future : outcomes) {
    const Outcome outcome = future.get();
    ExpectExact(outcome);
    ExpectCanaries(*outcome.job);
  }
}

TEST_F(CudaDeviceTest, MixedProductsOfOneJobAreExactAndWriteNothingElse) {
  auto job = MakeJob(MixedProblems(60, 5));
  job->products[20].status = absl::CancelledError("refused before");
  const JobProduct refused = job->products[20];
  Outcome outcome = Submit(std::move(job)).get();
  ASSERT_EQ(outcome.job->products[20].status, refused.status);
  for (size_t i = 0; i < refused.output_bytes; ++i) {
    ASSERT_EQ(outcome.job->output.data()[refused.output_offset_bytes + i], kCanary);
  }
  ExpectCanaries(*outcome.job);
  auto& products = outcome.job->products;
  products.erase(products.begin() + 20);
  ExpectExact(outcome);
}

TEST_F(CudaDeviceTest, ResultsToHostAndDeviceMemoryOfOneJobAreExact) {
  // The second is too large to be written to the host by a kernel, the third needs workspace.
  const Outcome outcome =
      Submit(
          MakeJob({DenseProblem(DType::kF32, 40, 50, 60), DenseProblem(DType::kF32, 700, 600, 30),
                   DenseProblem(DType::kF32, 64, 64, 9000), DenseProblem(DType::kF32, 33, 65, 17)}))
          .get();
  ExpectExact(outcome);
}

TEST_F(CudaDeviceTest, ProductsOfAGroupingKernelShareALaunch) {
  if (!HasKernel("small_f32")) GTEST_SKIP() << "no kernel that groups";
  Start({.force_kernel = "small_f32"});
  std::vector<Problem> problems;
  problems.reserve(300);
  for (int i = 0; i < 300; ++i) problems.push_back(DenseProblem(DType::kF32, 1 + i % 90, 40, 30));
  const Outcome outcome = Submit(MakeJob(problems)).get();
  ExpectExact(outcome);
  ExpectCanaries(*outcome.job);
  int launches = 0;
  for (const JobProduct& product : outcome.job->products) launches += product.report.launches;
  EXPECT_EQ(launches, 1);
}

TEST_F(CudaDeviceTest, ThousandsOfTinyJobsFromManyThreadsAreExact) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t) {
    threads.emplace_back([this, t] {
      std::vector<std::future<Outcome>> outcomes;
      for (unsigned i = 0; i < 500; ++i) {
        const unsigned seed = t * 500 + i;
        outcomes.push_back(Submit(MakeJob(MixedProblems(1 + i % 3, seed), seed)));
      }
      for (std::future<Outcome>& future : outcomes) {
        const Outcome outcome = future.get();
        ExpectExact(outcome);
        ExpectCanaries(*outcome.job);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CudaDeviceTest, AProductBeyondTheBudgetIsRefusedAndOthersRun) {
  constexpr uint64_t kBudget = uint64_t{600} << 20;
  Start({.memory_fraction = static_cast<double>(kBudget) /
                            static_cast<double>(device().description().memory_bytes)});
  const Outcome outcome = Submit(MakeJob(12'000, 12'000, 2)).get();  // 576 MB of result
  const absl::Status status = outcome.job->products.front().status;
  EXPECT_EQ(ReasonOf(status), Reason::kMemoryTooSmall) << status;
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(status.message(), "--device-memory")) << status;
  ExpectExact(Submit(MakeJob(64, 64, 64)).get());

  // Four that need 200 MB each, of which no more than two fit at a time: they wait.
  std::vector<std::future<Outcome>> outcomes;
  for (unsigned i = 0; i < 4; ++i) outcomes.push_back(Submit(MakeJob(7000, 7000, 64, i)));
  for (std::future<Outcome>& future : outcomes) ExpectExact(future.get());
  const MemoryUse memory = device().working_memory();
  EXPECT_LE(memory.limit_bytes, kBudget);
  EXPECT_LT(memory.used_bytes, memory.limit_bytes);
}

TEST_F(CudaDeviceTest, ABudgetThatMakesNoSenseIsRefused) {
  const absl::Status none = OpenCudaDevices({.memory_fraction = 0}).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kInvalidArgument) << none;
  const absl::Status more = OpenCudaDevices({.memory_fraction = 1.5}).status();
  EXPECT_EQ(more.code(), absl::StatusCode::kFailedPrecondition) << more;
  for (const absl::Status& status : {none, more}) {
    EXPECT_TRUE(absl::StrContains(status.message(), "--device-memory")) << status;
  }
}

TEST_F(CudaDeviceTest, WithoutFreeMemoryLargeProductsFailAloneAndLaterRun) {
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  cudaMemPool_t pool = nullptr;
  ASSERT_EQ(cudaDeviceGetDefaultMemPool(&pool, 0), cudaSuccess);
  ASSERT_EQ(cudaMemPoolTrimTo(pool, 0), cudaSuccess);
  size_t free_bytes = 0;
  size_t all_bytes = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &all_bytes), cudaSuccess);
  void* taken = nullptr;
  ASSERT_EQ(cudaMalloc(&taken, free_bytes - (size_t{300} << 20)), cudaSuccess);

  auto large_job = MakeJob(12'000, 12'000, 2);
  large_job->device = 0;
  auto large = Submit(std::move(large_job));
  auto small_job = MakeJob(100, 100, 100);
  small_job->device = 0;
  auto small = Submit(std::move(small_job));
  ExpectExact(small.get());
  Outcome outcome = large.get();
  EXPECT_EQ(ReasonOf(outcome.job->products.front().status), Reason::kMemoryFull)
      << outcome.job->products.front().status;
  EXPECT_FALSE(device().lost());

  ASSERT_EQ(cudaFree(taken), cudaSuccess);
  outcome.job->products.front().status = absl::OkStatus();
  ExpectExact(Submit(std::move(outcome.job)).get());
}

TEST_F(CudaDeviceTest, AnUnknownKernelCannotBeForced) {
  EXPECT_EQ(OpenCudaDevices({.force_kernel = "no_such_kernel"}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gemm
