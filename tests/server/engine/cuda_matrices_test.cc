// Matrices that stay on a GPU: needs one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <future>
#include <limits>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "server/engine/cuda_device.h"
#include "server/engine/engine.h"
#include "server/reason.h"
#include "tests/server/engine/quiet_observer.h"

namespace gemm {
namespace {

class CudaMatricesTest : public testing::Test {
 protected:
  void SetUp() override {
    auto devices = OpenCudaDevices({});
    ASSERT_TRUE(devices.ok()) << devices.status();
    engine_ = std::make_unique<Engine>(EngineOptions(), *std::move(devices), clock_, observer_);
  }

  std::shared_ptr<DeviceMatrix> Allocate(int64_t rows, int64_t columns, int device = 0) {
    auto matrix = engine_->AllocateMatrix(device, {DType::kF32, rows, columns});
    EXPECT_TRUE(matrix.ok()) << matrix.status();
    return *std::move(matrix);
  }

  void Write(const DeviceMatrix& matrix, const std::vector<float>& values, RowRange rows) {
    const auto* next = reinterpret_cast<const std::byte*>(values.data()) +
                       static_cast<size_t>(rows.begin) * matrix.row_bytes();
    const absl::Status status =
        engine_->WriteRows(matrix, rows, [&next](std::byte* to, size_t bytes) {
          std::memcpy(to, next, bytes);
          next += bytes;
        });
    ASSERT_TRUE(status.ok()) << status;
  }

  std::vector<float> Read(const DeviceMatrix& matrix, RowRange rows) {
    const size_t bytes = static_cast<size_t>(rows.count()) * matrix.row_bytes();
    HostBuffer buffer = *engine_->AllocateHost(bytes);
    std::memset(buffer.data(), 0xff, bytes);
    const absl::Status status = engine_->ReadRows(matrix, rows, buffer.data());
    EXPECT_TRUE(status.ok()) << status;
    const auto* values = reinterpret_cast<const float*>(buffer.data());
    return {values, values + bytes / sizeof(float)};
  }

  static std::vector<float> SmallIntegers(int64_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 9) - 4);
    return values;
  }

  std::shared_ptr<DeviceMatrix> Put(const std::vector<float>& values, int64_t columns,
                                    int device = 0) {
    const int64_t rows = static_cast<int64_t>(values.size()) / columns;
    std::shared_ptr<DeviceMatrix> matrix = Allocate(rows, columns, device);
    Write(*matrix, values, {0, rows});
    return matrix;
  }

  static InputSpan RowsOf(const std::shared_ptr<DeviceMatrix>& matrix, RowRange rows) {
    return {static_cast<size_t>(rows.begin) * matrix->pitch_bytes(),
            static_cast<size_t>(rows.count() - 1) * matrix->pitch_bytes() + matrix->row_bytes(),
            matrix};
  }
  static MatrixLayout LayoutOf(const DeviceMatrix& matrix, int64_t rows_each) {
    return {.ld = matrix.leading_dimension(),
            .batch_stride = rows_each * matrix.leading_dimension(),
            .alignment_bytes = 4};
  }

  std::unique_ptr<Job> Run(std::unique_ptr<Job> job) {
    std::promise<std::unique_ptr<Job>> promise;
    std::future<std::unique_ptr<Job>> future = promise.get_future();
    job->done = [&promise](const absl::Status& status, std::unique_ptr<Job> done) {
      EXPECT_TRUE(status.ok()) << status;
      promise.set_value(std::move(done));
    };
    engine_->Submit(std::move(job));
    return future.get();
  }

  SteadyClock clock_;
  QuietObserver observer_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(CudaMatricesTest, RowsComeBackAsTheyWere) {
  // Dense, padded, rows longer than one piece, and more rows than one piece holds.
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>{1, 1},
                               {1000, 7},
                               {900, 257},
                               {5, 700'001},
                               {3000, 1024},
                               {100'001, 33}}) {
    SCOPED_TRACE(testing::Message() << rows << " x " << columns);
    const std::vector<float> values = SmallIntegers(rows * columns, 1);
    const auto matrix = Allocate(rows, columns);
    const int64_t cut = rows / 3;
    if (cut > 0) Write(*matrix, values, {cut, rows});
    Write(*matrix, values, {0, cut > 0 ? cut : rows});
    EXPECT_EQ(Read(*matrix, {0, rows}), values);
    const int64_t from = rows / 2;
    EXPECT_TRUE(std::equal(values.begin() + from * columns, values.end(),
                           Read(*matrix, {from, rows}).begin()));
  }
}

TEST_F(CudaMatricesTest, ManyThreadsWriteAtOnce) {
  constexpr int64_t kRows = 64;
  constexpr int64_t kColumns = 200'003;
  const std::vector<float> values = SmallIntegers(kRows * kColumns, 2);
  const auto matrix = Allocate(kRows, kColumns);
  std::vector<std::thread> threads;
  threads.reserve(12);
  for (int t = 0; t < 12; ++t) {  // more than there are lanes
    threads.emplace_back([&, t] {
      for (int64_t row = t; row < kRows; row += 12) Write(*matrix, values, {row, row + 1});
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Read(*matrix, {0, kRows}), values);
}

// op(A) rows of a matrix, op(B) transposed, C resident too, and D stays: of every size of batch.
TEST_F(CudaMatricesTest, MultipliesWhatIsThereAndLeavesTheResultThere) {
  for (auto [m, n, k, batch] : {std::array<int64_t, 4>{3, 5, 7, 1},
                                {64, 300, 257, 1},
                                {129, 1025, 511, 1},
                                {20, 270, 300, 4},
                                {1500, 1300, 700, 1}}) {
    SCOPED_TRACE(testing::Message() << m << " " << n << " " << k << " by " << batch);
    const std::vector<float> a = SmallIntegers((batch * m + 2) * k, 3);
    const std::vector<float> b = SmallIntegers(n * k, 4);
    const std::vector<float> c = SmallIntegers(batch * m * n, 5);
    const auto a_matrix = Put(a, k);
    const auto b_matrix = Put(b, k);
    const auto c_matrix = Put(c, n);
    auto job = std::make_unique<Job>();
    JobProduct& product = job->products.emplace_back();
    product.problem = DenseProblem(DType::kF32, m, n, k, batch);
    product.problem.beta = 2;
    product.problem.a = LayoutOf(*a_matrix, m);
    product.problem.b = LayoutOf(*b_matrix, n);
    product.problem.b.transposed = true;
    product.problem.b.batch_stride = 0;
    product.problem.c = LayoutOf(*c_matrix, m);
    product.a = RowsOf(a_matrix, {2, batch * m + 2});
    product.b = RowsOf(b_matrix, {0, n});
    product.c = RowsOf(c_matrix, {0, batch * m});
    product.result = Put(std::vector<float>(static_cast<size_t>(batch * m * n), NAN), n);
    product.problem.d = LayoutOf(*product.result, m);
    job->device = 0;
    job = Run(std::move(job));
    const JobProduct& done = job->products.front();
    ASSERT_TRUE(done.status.ok()) << done.status;
    const std::vector<float> d = Read(*done.result, {0, batch * m});
    const int64_t step = std::max<int64_t>(1, batch * m * n / 4000);
    for (int64_t at = 0; at < batch * m * n; at += step) {
      const int64_t row = at / n;
      double want = 2.0 * double{c[static_cast<size_t>(at)]};
      for (int64_t l = 0; l < k; ++l) {
        want += double{a[static_cast<size_t>((row + 2) * k + l)]} *
                double{b[static_cast<size_t>(at % n * k + l)]};
      }
      ASSERT_EQ(d[static_cast<size_t>(at)], want)
          << "element " << at << " by " << std::string(done.report.kernel);
    }
  }
}

TEST_F(CudaMatricesTest, ProductsOfOneJobMixWhatIsThereAndWhatTravels) {
  constexpr int64_t kSize = 96;
  const std::vector<float> a = SmallIntegers(kSize * kSize, 6);
  const auto matrix = Put(a, kSize);
  constexpr size_t kBytes = kSize * kSize * sizeof(float);
  auto job = std::make_unique<Job>();
  job->input = *engine_->AllocateHost(kBytes);
  std::memcpy(job->input.data(), a.data(), kBytes);
  job->output = *engine_->AllocateHost(4 * kBytes);
  std::memset(job->output.data(), 0xff, 4 * kBytes);
  size_t offset = 0;
  for (int i = 0; i < 8; ++i) {
    JobProduct& product = job->products.emplace_back();
    product.problem = DenseProblem(DType::kF32, kSize, kSize, kSize);
    product.a = i % 4 < 2 ? InputSpan{0, kBytes} : RowsOf(matrix, {0, kSize});
    product.b = RowsOf(matrix, {0, kSize});
    product.output_offset_bytes = offset;
    if (i % 2 == 0) {
      product.output_bytes = kBytes;
      offset += kBytes;
    } else {
      product.result = Allocate(kSize, kSize);
    }
  }
  job->device = 0;
  job = Run(std::move(job));
  std::vector<float> want(static_cast<size_t>(kSize * kSize));
  for (size_t i = 0; i < kSize; ++i) {
    for (size_t j = 0; j < kSize; ++j) {
      double sum = 0;
      for (size_t l = 0; l < kSize; ++l) sum += double{a[i * kSize + l]} * double{a[l * kSize + j]};
      want[i * kSize + j] = static_cast<float>(sum);
    }
  }
  for (const JobProduct& product : job->products) {
    ASSERT_TRUE(product.status.ok()) << product.status;
    if (product.result != nullptr) {
      EXPECT_EQ(Read(*product.result, {0, kSize}), want);
    } else {
      const auto* d =
          reinterpret_cast<const float*>(job->output.data() + product.output_offset_bytes);
      EXPECT_TRUE(std::equal(want.begin(), want.end(), d));
    }
  }
}

TEST_F(CudaMatricesTest, BitsDoNotDependOnWhereOperandsAre) {
  constexpr int64_t kM = 77;
  constexpr int64_t kN = 300;
  constexpr int64_t kK = 1111;
  std::mt19937 random(8);
  std::normal_distribution<float> normal;
  std::vector<float> a(kM * kK);
  std::vector<float> b(kK * kN);
  for (float& value : a) value = normal(random);
  for (float& value : b) value = normal(random);
  const size_t a_bytes = a.size() * sizeof(float);
  const size_t b_bytes = b.size() * sizeof(float);
  auto job = std::make_unique<Job>();
  job->input = *engine_->AllocateHost(AlignedSize(a_bytes) + b_bytes);
  std::memcpy(job->input.data(), a.data(), a_bytes);
  std::memcpy(job->input.data() + AlignedSize(a_bytes), b.data(), b_bytes);
  job->output = *engine_->AllocateHost(kM * kN * sizeof(float));
  JobProduct& product = job->products.emplace_back();
  product.problem = DenseProblem(DType::kF32, kM, kN, kK);
  product.a = {0, a_bytes};
  product.b = {AlignedSize(a_bytes), b_bytes};
  product.output_bytes = kM * kN * sizeof(float);
  job = Run(std::move(job));
  ASSERT_TRUE(job->products.front().status.ok());

  auto resident = std::make_unique<Job>();
  JobProduct& there = resident->products.emplace_back();
  const auto a_matrix = Put(a, kK);
  const auto b_matrix = Put(b, kN);
  there.problem = product.problem;
  there.problem = DenseProblem(DType::kF32, kM, kN, kK);
  there.problem.a = LayoutOf(*a_matrix, kM);
  there.problem.b = LayoutOf(*b_matrix, kK);
  there.a = RowsOf(a_matrix, {0, kM});
  there.b = RowsOf(b_matrix, {0, kK});
  there.result = Allocate(kM, kN);
  there.problem.d = LayoutOf(*there.result, kM);
  resident->device = 0;
  resident = Run(std::move(resident));
  ASSERT_TRUE(resident->products.front().status.ok());
  const std::vector<float> d = Read(*resident->products.front().result, {0, kM});
  EXPECT_EQ(std::memcmp(d.data(), job->output.data(), d.size() * sizeof(float)), 0);
}

TEST_F(CudaMatricesTest, WhatIsFreedIsThereAgain) {
  const auto memory = engine_->devices().front()->description().memory_bytes;
  const auto rows = static_cast<int64_t>(memory / 3 / 4096);
  for (int i = 0; i < 10; ++i) Allocate(rows, 1024);
}

TEST_F(CudaMatricesTest, ThereIsNoRoomForEverything) {
  const auto memory = engine_->devices().front()->description().memory_bytes;
  const auto matrix =
      engine_->AllocateMatrix(0, {DType::kF32, static_cast<int64_t>(memory / 1024), 1024});
  EXPECT_EQ(ReasonOf(matrix.status()), Reason::kMemoryFull);
  EXPECT_FALSE(engine_->devices().front()->lost());
  Allocate(10, 10);
}

TEST_F(CudaMatricesTest, OperandsOfAnotherGpuAreBroughtOver) {
  if (engine_->devices().size() < 2) GTEST_SKIP() << "there is one GPU";
  constexpr int64_t kSize = 300;
  const std::vector<float> a = SmallIntegers(kSize * kSize, 9);
  const auto here = Put(a, kSize, 0);
  const auto there = Put(a, kSize, 1);
  auto job = std::make_unique<Job>();
  JobProduct& product = job->products.emplace_back();
  product.problem = DenseProblem(DType::kF32, kSize, kSize, kSize);
  product.problem.a = product.problem.b = LayoutOf(*here, kSize);
  product.a = RowsOf(here, {0, kSize});
  product.b = RowsOf(there, {0, kSize});
  product.result = Allocate(kSize, kSize, 1);
  product.problem.d = LayoutOf(*product.result, kSize);
  job->device = 1;
  job = Run(std::move(job));
  ASSERT_TRUE(job->products.front().status.ok()) << job->products.front().status;
  EXPECT_EQ(job->products.front().report.device_index, 1);
  const std::vector<float> d = Read(*job->products.front().result, {0, kSize});
  for (size_t at = 0; at < d.size(); at += 17) {
    double want = 0;
    for (size_t l = 0; l < kSize; ++l) {
      want += double{a[at / kSize * kSize + l]} * double{a[l * kSize + at % kSize]};
    }
    ASSERT_EQ(d[at], want);
  }
}

}  // namespace
}  // namespace gemm
