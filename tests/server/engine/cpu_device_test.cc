#include "server/engine/cpu_device.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "server/reason.h"
#include "tests/server/engine/run_one.h"

namespace gemm {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Runs a problem with small-integer operands, so that every sum is exact, on the CPU device and
// compares with a plain loop. D is poisoned first; padding between rows is NaN.
template <typename T>
void CheckAs(const Problem& p, double fill_a, double fill_b, double fill_c) {
  SCOPED_TRACE(testing::Message() << "m " << p.m << " n " << p.n << " k " << p.k << " batch "
                                  << p.batch_count << " alpha " << p.alpha << " beta " << p.beta);
  ASSERT_EQ(Validate(p).has_value(), false);
  const auto device = OpenCpuDevice();
  const auto pool = HostPool::Create(device->host_memory(), uint64_t{1} << 28);
  std::mt19937 random(1);
  std::uniform_int_distribution<int> small(-4, 4);

  Job job;
  JobProduct& product = job.products.emplace_back();
  product.problem = p;
  const MatrixShape shapes[] = {StoredA(p), StoredB(p), StoredC(p)};
  const MatrixLayout layouts[] = {p.a, p.b, p.c};
  InputSpan* spans[] = {&product.a, &product.b, &product.c};
  const double fills[] = {fill_a, fill_b, fill_c};
  size_t total_bytes = 0;
  for (int i = 0; i < 3; ++i) {
    const size_t bytes = ExtentElements(shapes[i], layouts[i], p.batch_count) * sizeof(T);
    *spans[i] = {total_bytes, bytes};
    total_bytes += AlignedSize(bytes);
  }
  job.input = *pool->Allocate(total_bytes);
  T* operands[3];
  for (int i = 0; i < 3; ++i) {
    operands[i] = reinterpret_cast<T*>(job.input.data() + spans[i]->offset_bytes);
    std::fill_n(operands[i], spans[i]->size_bytes / sizeof(T), static_cast<T>(kNaN));
    const int64_t matrices =
        layouts[i].batch_stride == 0 ? std::min<int64_t>(1, p.batch_count) : p.batch_count;
    for (int64_t q = 0; q < matrices; ++q) {
      for (int64_t r = 0; r < shapes[i].rows; ++r) {
        for (int64_t c = 0; c < shapes[i].columns; ++c) {
          operands[i][q * layouts[i].batch_stride + r * layouts[i].ld + c] =
              std::isnan(fills[i]) ? static_cast<T>(kNaN) : static_cast<T>(small(random));
        }
      }
    }
  }
  product.output_bytes = p.batch_count * p.m * p.n * sizeof(T);
  job.output = *pool->Allocate(product.output_bytes);
  T* d = reinterpret_cast<T*>(job.output.data());
  std::fill_n(d, p.batch_count * p.m * p.n, static_cast<T>(kNaN));

  ASSERT_TRUE(RunOne(*device, job).ok());

  for (int64_t q = 0; q < p.batch_count; ++q) {
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = 0;
        if (ReadsAB(p)) {
          for (int64_t l = 0; l < p.k; ++l) {
            const T a = operands[0][q * p.a.batch_stride +
                                    (p.a.transposed ? l * p.a.ld + i : i * p.a.ld + l)];
            const T b = operands[1][q * p.b.batch_stride +
                                    (p.b.transposed ? j * p.b.ld + l : l * p.b.ld + j)];
            sum += double{a} * double{b};
          }
        }
        double want = ReadsAB(p) ? p.alpha * sum : 0;
        if (ReadsC(p)) want += p.beta * operands[2][q * p.c.batch_stride + i * p.c.ld + j];
        ASSERT_EQ(d[(q * p.m + i) * p.n + j], static_cast<T>(want)) << q << " " << i << " " << j;
      }
    }
  }
}

void Check(const Problem& p, double fill_a = 0, double fill_b = 0, double fill_c = 0) {
  if (p.dtype == DType::kF32) {
    CheckAs<float>(p, fill_a, fill_b, fill_c);
  } else {
    CheckAs<double>(p, fill_a, fill_b, fill_c);
  }
}

TEST(CpuDeviceTest, MultipliesEveryShapeAndTranspose) {
  for (auto [m, n, k] : {std::array<int64_t, 3>{1, 1, 1},
                         {3, 5, 7},
                         {17, 1, 33},
                         {1, 64, 9},
                         {40, 50, 60},
                         {129, 65, 31}}) {
    for (bool ta : {false, true}) {
      for (bool tb : {false, true}) {
        for (DType dtype : {DType::kF32, DType::kF64}) {
          Problem p = DenseProblem(dtype, m, n, k);
          p.a.transposed = ta;
          p.b.transposed = tb;
          p.a.ld = StoredA(p).columns + 3;
          p.b.ld = StoredB(p).columns + 1;
          p.a.batch_stride = StoredA(p).rows * p.a.ld;
          p.b.batch_stride = StoredB(p).rows * p.b.ld;
          Check(p);
          p.alpha = 2;
          p.beta = -1;
          Check(p);
        }
      }
    }
  }
}

TEST(CpuDeviceTest, BatchesAndBroadcasts) {
  Problem p = DenseProblem(DType::kF32, 6, 7, 8, 5);
  p.beta = 3;
  Check(p);
  p.b.batch_stride = 0;
  Check(p);
  p.c.batch_stride = 0;
  p.c.ld = 11;
  Check(p);
}

TEST(CpuDeviceTest, DoesNotReadWhatItNeedNot) {
  Problem p = DenseProblem(DType::kF32, 33, 17, 65);
  p.beta = 0;
  Check(p, 0, 0, kNaN);
  p.alpha = 0;
  Check(p, kNaN, kNaN, kNaN);
  p.beta = 2;
  Check(p, kNaN, kNaN, 0);
  Problem no_k = DenseProblem(DType::kF64, 9, 4, 0);
  Check(no_k);
  no_k.beta = -2;
  Check(no_k);
}

TEST(CpuDeviceTest, EachProductOfAJobHasItsPlaceAndItsStatus) {
  const auto device = OpenCpuDevice();
  const auto pool = HostPool::Create(device->host_memory(), uint64_t{1} << 20);
  Job job;
  job.input = *pool->Allocate(2 * kOperandAlignment);
  job.output = *pool->Allocate(4 * kOperandAlignment);
  std::memset(job.output.data(), 0x55, job.output.size_bytes());
  auto* input = reinterpret_cast<float*>(job.input.data());
  input[0] = 3;
  input[kOperandAlignment / sizeof(float)] = 5;
  for (size_t i = 0; i < 4; ++i) {
    JobProduct& product = job.products.emplace_back();
    product.problem = DenseProblem(DType::kF32, 1, 1, 1);
    product.problem.alpha = static_cast<double>(i + 1);
    product.a = {0, sizeof(float)};
    product.b = {kOperandAlignment, sizeof(float)};
    product.output_offset_bytes = i * kOperandAlignment;
    product.output_bytes = sizeof(float);
  }
  job.products[1].status = ErrorWithReason(Reason::kInvalidRequest, "refused before");
  job.products[2].problem.k = int64_t{1} << 31;
  EXPECT_FALSE(RunOne(*device, job).ok());
  const auto result = [&](size_t i) {
    float value;
    std::memcpy(&value, job.output.data() + i * kOperandAlignment, sizeof(value));
    return value;
  };
  EXPECT_EQ(result(0), 15);
  EXPECT_EQ(result(3), 60);
  EXPECT_EQ(ReasonOf(job.products[1].status), Reason::kInvalidRequest);
  EXPECT_EQ(ReasonOf(job.products[2].status), Reason::kUnsupported);
  EXPECT_TRUE(job.products[3].status.ok());
  EXPECT_EQ(result(1), result(2));  // untouched
}

// A matrix of small integers on the device, and the same, dense, on the host.
template <typename T>
std::shared_ptr<DeviceMatrix> Resident(Device& device, MatrixSpec spec, std::vector<T>& values) {
  std::mt19937 random(static_cast<unsigned>(spec.rows));
  values.resize(static_cast<size_t>(spec.rows * spec.columns));
  for (T& value : values) value = static_cast<T>(static_cast<int>(random() % 9) - 4);
  std::shared_ptr<DeviceMatrix> matrix = *device.AllocateMatrix(spec);
  std::memset(static_cast<void*>(matrix->data()), 0xff, MemoryBytes(spec));  // NaN
  const auto* next = reinterpret_cast<const std::byte*>(values.data());
  const auto source = [&next](std::byte* to, size_t bytes) {
    std::memcpy(to, next, bytes);
    next += bytes;
  };
  EXPECT_TRUE(device.WriteRows(*matrix, {0, 1}, source).ok());
  EXPECT_TRUE(device.WriteRows(*matrix, {1, spec.rows}, source).ok());
  return matrix;
}

TEST(CpuDeviceTest, KnowsWhatItComputesAtMost) {
  const auto device = OpenCpuDevice();
  for (const double rate : device->description().ceiling_flops_per_second) {
    EXPECT_GT(rate, 1e7);
    EXPECT_LT(rate, 1e15);
  }
}

TEST(CpuDeviceTest, RowsComeBackAsTheyWere) {
  const auto device = OpenCpuDevice();
  for (const int64_t columns : {1, 7, 256, 300, 1025}) {  // dense and padded
    std::vector<float> values;
    const auto matrix = Resident(*device, {DType::kF32, 20, columns}, values);
    std::vector<float> back(static_cast<size_t>(5 * columns));
    ASSERT_TRUE(device->ReadRows(*matrix, {9, 14}, reinterpret_cast<std::byte*>(back.data())).ok());
    EXPECT_TRUE(std::equal(back.begin(), back.end(), values.begin() + 9 * columns)) << columns;
  }
}

TEST(CpuDeviceTest, MultipliesMatricesThatAreThereAndLeavesTheResultThere) {
  const auto device = OpenCpuDevice();
  // op(A) is two matrices of 3 x 140, rows 2 to 7 of one; op(B) 140 x 260 transposed and broadcast;
  // D two of 3 x 260. Small enough for OpenBLAS to use one thread, which a sanitizer of threads can
  // follow.
  std::vector<double> a;
  std::vector<double> b;
  const auto resident_a = Resident(*device, {DType::kF64, 10, 140}, a);
  const auto resident_b = Resident(*device, {DType::kF64, 260, 140}, b);
  Job job;
  JobProduct& product = job.products.emplace_back();
  product.problem = DenseProblem(DType::kF64, 3, 260, 140, 2);
  product.problem.a.ld = resident_a->leading_dimension();
  product.problem.a.batch_stride = 3 * product.problem.a.ld;
  product.a = {2 * resident_a->pitch_bytes(), 6 * resident_a->pitch_bytes(), resident_a};
  product.problem.b.transposed = true;
  product.problem.b.ld = resident_b->leading_dimension();
  product.problem.b.batch_stride = 0;
  product.b = {0, 260 * resident_b->pitch_bytes(), resident_b};
  std::vector<double> before;
  product.result = Resident(*device, {DType::kF64, 6, 260}, before);
  product.problem.d.ld = product.result->leading_dimension();
  product.problem.d.batch_stride = 3 * product.problem.d.ld;
  ASSERT_GT(product.problem.d.ld, 260);
  for (const bool reads_c : {false, true}) {
    product.problem.beta = reads_c ? 2 : 0;
    std::vector<double> c;
    const auto resident_c = Resident(*device, {DType::kF64, 6, 260}, c);
    product.problem.c = product.problem.d;
    product.c = {0, 6 * resident_c->pitch_bytes(), resident_c};
    ASSERT_TRUE(RunOne(*device, job).ok());
    std::vector<double> d(size_t{6} * 260);
    ASSERT_TRUE(
        device->ReadRows(*job.products[0].result, {0, 6}, reinterpret_cast<std::byte*>(d.data()))
            .ok());
    for (size_t i = 0; i < 6; ++i) {
      for (size_t j = 0; j < 260; ++j) {
        double want = reads_c ? 2 * c[i * 260 + j] : 0;
        for (size_t l = 0; l < 140; ++l) want += a[(i + 2) * 140 + l] * b[j * 140 + l];
        ASSERT_EQ(d[i * 260 + j], want) << i << " " << j;
      }
    }
  }
}

TEST(CpuDeviceTest, RefusesWhatCblasCannotCount) {
  Problem p = DenseProblem(DType::kF32, 1, 1, int64_t{1} << 31);
  const auto device = OpenCpuDevice();
  Job job;
  job.products.emplace_back().problem = p;
  EXPECT_EQ(ReasonOf(RunOne(*device, job)), Reason::kUnsupported);
  const KernelExplanation explanation = device->Explain(p);
  EXPECT_EQ(explanation.chosen, "");
  EXPECT_NE(explanation.candidates[0].why_not.find("2147483647"), std::string::npos);
}

TEST(CpuDeviceTest, ExplainNamesTheKernelAndWhyNotTheOther) {
  const auto device = OpenCpuDevice();
  const KernelExplanation explanation = device->Explain(DenseProblem(DType::kF64, 2, 3, 4));
  EXPECT_EQ(explanation.chosen, "cblas_f64");
  ASSERT_EQ(explanation.candidates.size(), 2u);
  EXPECT_NE(explanation.candidates[0].why_not, "");
}

}  // namespace
}  // namespace gemm
