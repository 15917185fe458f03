// Every kernel on a real GPU. A machine without one fails here: it was asked for by label.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "kernels/bench/device_check.h"
#include "kernels/bench/prepared_launch.h"
#include "kernels/cuda_device_info.h"
#include "kernels/cuda_raii.h"
#include "kernels/cuda_status.h"
#include "kernels/families/strided_gemm.h"
#include "kernels/families/sum_order.h"
#include "kernels/registry.h"
#include "tests/kernels/wrong_family.h"

#define ASSERT_CUDA(expression)                                      \
  do {                                                               \
    const cudaError_t cuda_error = (expression);                     \
    ASSERT_EQ(cuda_error, cudaSuccess) << CudaErrorText(cuda_error); \
  } while (false)

namespace gemm {
namespace {

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_CUDA(cudaSetDevice(0));
    ASSERT_CUDA(ReadDeviceInfo(0, &device_));
  }

  DeviceInfo device_;
};

class GpuKernels : public GpuTest, public ::testing::WithParamInterface<DType> {};

std::string Text(const CheckReport& report) {
  std::string text;
  for (size_t i = 0; i < report.failures.size() && i < 20; ++i) {
    const CheckFailure& failure = report.failures[i];
    text += failure.kernel + ": " + failure.case_name + ": " + failure.checker + ": " +
            failure.fault + "\n";
  }
  return text;
}

TEST_P(GpuKernels, AreRightOnEveryShape) {
  const CheckReport report = CheckFamilies(Families(), device_, GetParam(), CaseSet::kFull);
  EXPECT_EQ(report.failed(), 0) << Text(report);
  std::set<std::string> checked;
  for (const KernelTally& tally : report.kernels) {
    EXPECT_GT(tally.passed, 0) << tally.kernel;
    checked.insert(tally.kernel);
  }
  for (const KernelFamily* family : Families()) {
    for (const KernelConfig& config : family->configs()) {
      if (config.dtype != GetParam()) continue;
      EXPECT_EQ(checked.count(std::string(config.name)), 1u) << config.name;
    }
  }
}

TEST_P(GpuKernels, HaveTheSameBitsInAGroup) {
  const CheckReport report = CheckGroups(Families(), device_, GetParam(), CaseSet::kFull);
  EXPECT_EQ(report.failed(), 0) << Text(report);
  for (const KernelFamily* family : Families()) {
    for (size_t config = 0; config < family->configs().size(); ++config) {
      const KernelConfig& kernel = family->configs()[config];
      if (kernel.dtype != GetParam() || !family->Groups(static_cast<int>(config))) continue;
      const auto tally =
          std::find_if(report.kernels.begin(), report.kernels.end(),
                       [&](const KernelTally& t) { return t.kernel == kernel.name; });
      ASSERT_NE(tally, report.kernels.end()) << kernel.name;
      EXPECT_GT(tally->passed, 0) << kernel.name;
    }
  }
}

TEST_P(GpuKernels, ReachBeyond32BitIndices) {
  const CheckReport report = CheckLarge(Families(), device_, GetParam());
  EXPECT_EQ(report.failed(), 0) << Text(report);
  EXPECT_GT(report.passed(), 0);
}

// The first `count` of them.
float AddInOrder(std::span<const float> lanes, int64_t count) {
  float total = lanes[0];
  for (int64_t lane = 1; lane < count; ++lane) total += lanes[static_cast<size_t>(lane)];
  return total;
}

// One element's sum as sum_order.h defines it: of a row of op(A) and a column of op(B).
float SumInOrder(NumericsClass numerics, const Problem& problem, int64_t row, int64_t column,
                 const float* a, const float* b) {
  const int64_t k = problem.k;
  const auto sequential = [&](int64_t begin, int64_t end) {
    float sum = 0;
    for (int64_t l = begin; l < std::min(end, k); ++l) sum = std::fmaf(a[l], b[l], sum);
    return sum;
  };
  const auto quartered = [&](int64_t begin, int64_t end, int64_t quarter) {
    float sum = 0;
    for (int q = 0; q < kQuarters; ++q) {
      const float part = sequential(begin + q * quarter, std::min(begin + (q + 1) * quarter, end));
      sum = q == 0 ? part : sum + part;
    }
    return sum;
  };
  if (numerics == NumericsClass::kStreamK || numerics == NumericsClass::kStreamKQuarters) {
    const StreamKOrder order(problem, numerics);
    const auto summed = [&](int64_t begin, int64_t end) {
      return numerics == NumericsClass::kStreamK
                 ? sequential(begin, end)
                 : quartered(begin, end, QuarterLength(std::min(end, k) - begin));
    };
    const int64_t tile = order.TileAt(row / order.tile_m, column / order.tile_n);
    if (tile < order.whole_tiles) return summed(0, k);
    // The sharers whose shares have stages of this tile, in order.
    const int64_t first = (tile - order.whole_tiles) * order.stages;
    std::optional<float> total;
    for (int64_t sharer = 0; sharer < order.sharers; ++sharer) {
      const int64_t begin = std::max(order.Start(sharer), first) - first;
      const int64_t end = std::min(order.Start(sharer + 1), first + order.stages) - first;
      if (begin >= end) continue;
      const float part = summed(begin * order.stage, end * order.stage);
      total = total ? *total + part : part;
    }
    return *total;
  }
  if (numerics == NumericsClass::kDealtChunks) {
    const DeepOrder order(problem);
    std::array<float, kDeepChunkLanes> lanes = {};
    for (int64_t chunk = 0; chunk < order.chunks; ++chunk) {
      const int64_t begin = chunk * order.chunk_length;
      std::array<float, kDeepWays> ways = {};
      for (int64_t l = 0; l < std::min(order.chunk_length, k - begin); ++l) {
        float& way = ways[static_cast<size_t>(l / kDeepBlock % kDeepWays)];
        way = std::fmaf(a[begin + l], b[begin + l], way);
      }
      const float sum = ((ways[0] + ways[1]) + ways[2]) + ways[3];
      float& lane = lanes[static_cast<size_t>(chunk % kDeepChunkLanes)];
      lane = chunk < kDeepChunkLanes ? sum : lane + sum;
    }
    return AddInOrder(lanes, std::min<int64_t>(kDeepChunkLanes, order.chunks));
  }
  int64_t length = ChunkLength(numerics, problem);
  if (numerics == NumericsClass::kChunkedLanes) {
    const LaneOrder order(problem);
    length = order.LengthAt((problem.m <= problem.n ? column : row) / order.strip, k);
  }
  // Chunks of a single result are added in lanes, others as by one lane.
  const bool single = numerics == NumericsClass::kChunkedLanes && problem.m * problem.n == 1;
  const int64_t chunk_lanes = single ? kDeepChunkLanes : 1;
  std::array<float, kDeepChunkLanes> totals = {};
  for (int64_t chunk = 0; chunk < TilesOf(k, length); ++chunk) {
    const int64_t begin = chunk * length;
    float sum = 0;
    if (numerics == NumericsClass::kSequential) {
      sum = sequential(begin, begin + length);
    } else if (numerics == NumericsClass::kChunkedLanes && std::min(problem.m, problem.n) == 1) {
      std::array<float, kLineLanes> lanes = {};
      for (int64_t l = 0; l < std::min(length, k - begin); ++l) {
        float& lane = lanes[static_cast<size_t>(l % kLineLanes)];
        lane = std::fmaf(a[begin + l], b[begin + l], lane);
      }
      for (size_t half = kLineLanes / 2; half > 0; half /= 2) {
        for (size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
      }
      sum = lanes[0];
    } else if (numerics == NumericsClass::kChunkedLanes) {
      const auto lanes = static_cast<size_t>(LanesOf(std::min(problem.m, problem.n)));
      std::array<std::array<float, 4>, kLaneWarps> warps = {};
      for (int64_t l = 0; l < std::min(length, k - begin); ++l) {
        float& lane = warps[static_cast<size_t>(l / kLaneBlock % kLaneWarps)]
                           [static_cast<size_t>(l / kLaneGranule) % lanes];
        lane = std::fmaf(a[begin + l], b[begin + l], lane);
      }
      for (auto& warp : warps) {
        for (size_t half = lanes / 2; half > 0; half /= 2) {
          for (size_t i = 0; i < half; ++i) warp[i] += warp[i + half];
        }
        sum = &warp == warps.data() ? warp[0] : sum + warp[0];
      }
    } else {
      sum = quartered(begin, begin + length, length / kQuarters);
    }
    float& total = totals[static_cast<size_t>(chunk % chunk_lanes)];
    total = chunk < chunk_lanes ? sum : total + sum;
  }
  return AddInOrder(totals, std::min(chunk_lanes, TilesOf(k, length)));
}

// Every element of D as the class defines it. Operands are copied to where k is contiguous, and
// elements are shared out among threads.
std::vector<float> ResultInOrder(NumericsClass numerics, const Problem& problem,
                                 const StridedGemm<float>& p) {
  const auto gather = [&](const float* from, int64_t outer, int64_t outer_stride,
                          int64_t depth_stride) {
    std::vector<float> to;
    to.reserve(static_cast<size_t>(outer * problem.k));
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t l = 0; l < problem.k; ++l) {
        to.push_back(from[o * outer_stride + l * depth_stride]);
      }
    }
    return to;
  };
  const std::vector<float> a = gather(p.a, problem.m, p.a_row, p.a_column);
  const std::vector<float> b = gather(p.b, problem.n, p.b_column, p.b_row);
  std::vector<float> result(static_cast<size_t>(problem.m * problem.n));
  const auto elements = static_cast<int64_t>(result.size());
  const auto workers = static_cast<int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  std::vector<std::thread> threads;
  for (int64_t worker = 0; worker < workers; ++worker) {
    threads.emplace_back([&, worker] {
      for (int64_t e = worker * elements / workers; e < (worker + 1) * elements / workers; ++e) {
        const int64_t i = e / problem.n;
        const int64_t j = e % problem.n;
        const float sum =
            SumInOrder(numerics, problem, i, j, a.data() + i * problem.k, b.data() + j * problem.k);
        result[static_cast<size_t>(e)] = std::fmaf(p.alpha, sum, p.beta * p.c[e]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return result;
}

// A class is a promise about bits, so it is checked against its definition, not only kernel against
// kernel.
TEST_F(GpuTest, KernelsSumAsTheirClassDefines) {
  // Many have rows of every alignment, which come by copies or by boxes.
  const int64_t shapes[][3] = {
      {67, 45, 333},    {300, 200, 1111},  {9, 600, 2100},    {600, 30, 700},  {64, 64, 33000},
      {600, 1100, 700}, {12, 33000, 131},  {700, 900, 141},   {3, 45, 5000},   {600, 2, 333},
      {1, 1, 90000},    {40, 700, 3000},   {24, 1100, 600},   {16, 520, 3001}, {1100, 13, 900},
      {33, 2100, 1000}, {33, 8457, 600},   {7, 603, 901},     {14, 603, 901},  {31, 601, 701},
      {62, 61, 33001},  {1130, 1090, 333}, {1023, 1025, 299}, {1, 1503, 2901}, {1, 1, 1003},
      {2301, 1, 5001},  {1, 2301, 5001},   {1, 513, 3001},    {515, 1, 20001}, {1, 70001, 130},
      {70001, 1, 131},  {1, 1, 16385},     {1, 1, 3000},      {19, 266, 2807}, {950, 31, 1125}};
  std::set<NumericsClass> seen;
  for (const auto& shape : shapes) {
    for (const bool transposed : {false, true}) {
      Problem problem = DenseProblem(DType::kF32, shape[0], shape[1], shape[2]);
      problem.a.transposed = transposed;
      problem.b.transposed = transposed;
      problem.a.ld = StoredA(problem).columns;
      problem.b.ld = StoredB(problem).columns;
      problem.alpha = 0.1;
      problem.beta = -0.7;
      const CaseData<float> data = MakeCaseData<float>({"bits", problem, Fill::kReals}, 7);
      DeviceBuffer a;
      DeviceBuffer b;
      DeviceBuffer c;
      DeviceBuffer d;
      Stream stream;
      ASSERT_CUDA(stream.Create());
      const auto upload = [](const HostOperand<float>& from, int64_t elements, DeviceBuffer* to) {
        const size_t bytes = static_cast<size_t>(elements) * sizeof(float);
        GEMM_RETURN_IF_CUDA_ERROR(to->Create(bytes));
        GEMM_RETURN_IF_CUDA_ERROR(
            cudaMemcpy(to->data(), from.data(), bytes, cudaMemcpyHostToDevice));
        return cudaDeviceSynchronize();
      };
      ASSERT_CUDA(upload(data.a, problem.m * problem.k, &a));
      ASSERT_CUDA(upload(data.b, problem.k * problem.n, &b));
      ASSERT_CUDA(upload(data.c, problem.m * problem.n, &c));
      ASSERT_CUDA(upload(data.d, problem.m * problem.n, &d));
      const Operands operands{a.data(), b.data(), c.data(), d.data()};
      const StridedGemm<float> p =
          MakeStridedGemm<float>(problem, {data.a.data(), data.b.data(), data.c.data(), nullptr});
      std::map<NumericsClass, std::vector<float>> expected;
      for (const KernelFamily* family : Families()) {
        ASSERT_CUDA(family->Prepare(device_));
        for (size_t config = 0; config < family->configs().size(); ++config) {
          const KernelConfig& kernel = family->configs()[config];
          if (kernel.dtype != DType::kF32) continue;
          if (!family->WhyNot(problem, device_, static_cast<int>(config)).empty()) continue;
          seen.insert(kernel.numerics);
          std::vector<float>& sums = expected[kernel.numerics];
          if (sums.empty()) sums = ResultInOrder(kernel.numerics, problem, p);
          PreparedLaunch launch;
          ASSERT_CUDA(launch.Create({family, static_cast<int>(config)}, {&problem, 1},
                                    {&operands, 1}, device_));
          ASSERT_CUDA(launch.Launch(stream.get()));
          ASSERT_CUDA(cudaStreamSynchronize(stream.get()));
          std::vector<float> result(sums.size());
          ASSERT_CUDA(cudaMemcpy(result.data(), d.data(), result.size() * sizeof(float),
                                 cudaMemcpyDeviceToHost));
          EXPECT_EQ(std::memcmp(result.data(), sums.data(), result.size() * sizeof(float)), 0)
              << kernel.name << " " << problem.m << "x" << problem.n << "x" << problem.k
              << (transposed ? " TT" : " NN");
        }
      }
    }
  }
  EXPECT_GE(seen.size(), device_.compute_capability == 90 ? 7u : 2u);
}

// The same of f64, whose classes are two. The first row and column have products that vanish below
// zero: their sum is -0 and has to stay so, whatever lies beyond the end of k.
TEST_F(GpuTest, F64KernelsSumAsTheirClassDefines) {
  const int64_t shapes[][3] = {{67, 45, 333},  {130, 200, 1111}, {9, 600, 2100}, {600, 3, 5000},
                               {33, 31, 9001}, {16, 32, 256},    {100, 100, 1},  {5, 7, 18}};
  std::set<NumericsClass> seen;
  for (const auto& shape : shapes) {
    for (const bool transposed : {false, true}) {
      Problem problem = DenseProblem(DType::kF64, shape[0], shape[1], shape[2]);
      problem.a.transposed = problem.b.transposed = transposed;
      problem.a.ld = StoredA(problem).columns;
      problem.b.ld = StoredB(problem).columns;
      problem.alpha = 0.1;
      CaseData<double> data = MakeCaseData<double>({"bits", problem, Fill::kReals}, 7);
      const StridedGemm<double> p =
          MakeStridedGemm<double>(problem, {data.a.data(), data.b.data(), nullptr, nullptr});
      for (int64_t l = 0; l < problem.k; ++l) {
        data.a.data()[l * p.a_column] = -1e-200;
        data.b.data()[l * p.b_row] = 1e-200;
      }
      const auto in_order = [&](NumericsClass numerics) {
        const int64_t length = ChunkLength(numerics, problem);
        std::vector<double> result;
        for (int64_t e = 0; e < problem.m * problem.n; ++e) {
          double total = 0;
          for (int64_t begin = 0; begin < problem.k; begin += length) {
            double sum = 0;
            for (int64_t l = begin; l < std::min(begin + length, problem.k); ++l) {
              sum = std::fma(p.a[e / problem.n * p.a_row + l * p.a_column],
                             p.b[e % problem.n * p.b_column + l * p.b_row], sum);
            }
            total = begin == 0 ? sum : total + sum;
          }
          result.push_back(p.alpha * total);
        }
        return result;
      };
      DeviceBuffer a;
      DeviceBuffer b;
      DeviceBuffer d;
      Stream stream;
      ASSERT_CUDA(stream.Create());
      const auto bytes = [](int64_t elements) {
        return static_cast<size_t>(elements) * sizeof(double);
      };
      ASSERT_CUDA(a.Create(bytes(problem.m * problem.k)));
      ASSERT_CUDA(b.Create(bytes(problem.k * problem.n)));
      ASSERT_CUDA(d.Create(bytes(problem.m * problem.n)));
      ASSERT_CUDA(cudaMemcpy(a.data(), data.a.data(), bytes(problem.m * problem.k),
                             cudaMemcpyHostToDevice));
      ASSERT_CUDA(cudaMemcpy(b.data(), data.b.data(), bytes(problem.k * problem.n),
                             cudaMemcpyHostToDevice));
      ASSERT_CUDA(cudaDeviceSynchronize());
      const Operands operands{a.data(), b.data(), nullptr, d.data()};
      std::map<NumericsClass, std::vector<double>> expected;
      for (const KernelFamily* family : Families()) {
        ASSERT_CUDA(family->Prepare(device_));
        for (size_t config = 0; config < family->configs().size(); ++config) {
          const KernelConfig& kernel = family->configs()[config];
          if (kernel.dtype != DType::kF64) continue;
          if (!family->WhyNot(problem, device_, static_cast<int>(config)).empty()) continue;
          seen.insert(kernel.numerics);
          std::vector<double>& sums = expected[kernel.numerics];
          if (sums.empty()) sums = in_order(kernel.numerics);
          EXPECT_TRUE(std::signbit(sums[0]) && sums[0] == 0);
          PreparedLaunch launch;
          ASSERT_CUDA(launch.Create({family, static_cast<int>(config)}, {&problem, 1},
                                    {&operands, 1}, device_));
          ASSERT_CUDA(launch.Launch(stream.get()));
          ASSERT_CUDA(cudaStreamSynchronize(stream.get()));
          std::vector<double> result(sums.size());
          ASSERT_CUDA(cudaMemcpy(result.data(), d.data(), result.size() * sizeof(double),
                                 cudaMemcpyDeviceToHost));
          EXPECT_EQ(std::memcmp(result.data(), sums.data(), result.size() * sizeof(double)), 0)
              << kernel.name << " " << problem.m << "x" << problem.n << "x" << problem.k
              << (transposed ? " TT" : " NN");
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), device_.compute_capability == 90 ? 2u : 1u);
}

// Bits do not depend on the company: a batch in one launch and each product alone.
TEST_F(GpuTest, BatchesHaveTheBitsOfTheirProducts) {
  struct Shape {
    int64_t m, n, k, count;
    bool transposed;
  };
  constexpr Shape kShapes[] = {
      {64, 64, 65536, 19, false},  // in rounds of 16
      {2, 130, 9000, 19, false},  {5, 4096, 256, 19, false},  {200, 100, 600, 19, false},
      {300, 600, 700, 19, false}, {29, 1023, 845, 18, false}, {29, 1023, 845, 17, true},
      {1023, 31, 339, 16, false}, {1023, 31, 339, 15, true},  {12, 301, 1101, 18, false},
      {301, 9, 1101, 19, true},   {20, 8500, 517, 3, true},   {23, 25, 3151, 24, false},
      {84, 57, 4412, 11, true},   {300, 29, 1370, 9, false},  {40, 47, 2227, 300, true}};
  for (const Shape& shape : kShapes) {
    const auto of_shape = [&shape](int64_t count) {
      Problem problem = DenseProblem(DType::kF32, shape.m, shape.n, shape.k, count);
      problem.a.transposed = problem.b.transposed = shape.transposed;
      problem.a.ld = StoredA(problem).columns;
      problem.b.ld = StoredB(problem).columns;
      return problem;
    };
    Problem batch = of_shape(shape.count);
    batch.a.batch_stride = 0;
    const Problem one = of_shape(1);
    const CaseData<float> data = MakeCaseData<float>({"batch", batch, Fill::kReals}, 11);
    DeviceBuffer a;
    DeviceBuffer b;
    DeviceBuffer d;
    DeviceBuffer alone;
    Stream stream;
    ASSERT_CUDA(stream.Create());
    const size_t result_bytes = static_cast<size_t>(batch.m * batch.n) * sizeof(float);
    const size_t a_bytes = static_cast<size_t>(batch.m * batch.k) * sizeof(float);
    const size_t b_bytes = static_cast<size_t>(batch.k * batch.n) * sizeof(float);
    ASSERT_CUDA(a.Create(a_bytes));
    ASSERT_CUDA(b.Create(b_bytes * shape.count));
    ASSERT_CUDA(d.Create(result_bytes * shape.count));
    ASSERT_CUDA(alone.Create(result_bytes));
    ASSERT_CUDA(cudaMemcpy(a.data(), data.a.data(), a_bytes, cudaMemcpyHostToDevice));
    ASSERT_CUDA(cudaMemcpy(b.data(), data.b.data(), b_bytes * shape.count, cudaMemcpyHostToDevice));
    ASSERT_CUDA(cudaDeviceSynchronize());
    const Operands batch_operands{a.data(), b.data(), nullptr, d.data()};
    const Operands one_operands{a.data(),
                                static_cast<char*>(b.data()) + b_bytes * (shape.count - 1), nullptr,
                                alone.data()};
    for (const KernelFamily* family : Families()) {
      ASSERT_CUDA(family->Prepare(device_));
      for (size_t config = 0; config < family->configs().size(); ++config) {
        const KernelRef kernel{family, static_cast<int>(config)};
        if (kernel.get().dtype != DType::kF32) continue;
        if (!family->WhyNot(batch, device_, kernel.config).empty()) continue;
        PreparedLaunch together;
        PreparedLaunch single;
        ASSERT_CUDA(together.Create(kernel, {&batch, 1}, {&batch_operands, 1}, device_));
        ASSERT_CUDA(single.Create(kernel, {&one, 1}, {&one_operands, 1}, device_));
        ASSERT_CUDA(together.Launch(stream.get()));
        ASSERT_CUDA(single.Launch(stream.get()));
        ASSERT_CUDA(cudaStreamSynchronize(stream.get()));
        std::vector<char> last(result_bytes);
        std::vector<char> result(result_bytes);
        ASSERT_CUDA(cudaMemcpy(last.data(),
                               static_cast<char*>(d.data()) + result_bytes * (shape.count - 1),
                               result_bytes, cudaMemcpyDeviceToHost));
        ASSERT_CUDA(cudaMemcpy(result.data(), alone.data(), result_bytes, cudaMemcpyDeviceToHost));
        EXPECT_EQ(last, result) << kernel.get().name;
      }
    }
  }
}

// An operand that is not read may be a null pointer, and several problems may go in one launch.
TEST_P(GpuKernels, RunSeveralProblemsAndLeaveNullsAlone) {
  const size_t size = SizeOf(GetParam());
  // One shape of each numerics class.
  const int64_t shapes[][3] = {{33, 65, 17}, {33, 65, 200}, {3, 65, 9000}, {770, 833, 140}};
  for (const auto& shape : shapes) {
    const auto make = [&](int64_t m, int64_t n, int64_t k, int64_t batch_count) {
      Problem problem = DenseProblem(GetParam(), m, n, k, batch_count);
      problem.alpha = 0;
      return problem;
    };
    const auto [m, n, k] = std::tuple(shape[0], shape[1], shape[2]);
    const std::array<Problem, 3> problems = {make(m, n, k, 2), make(m, 0, k, 1), make(m, n, k, 1)};
    // A sum of no products is sequential.
    const std::array<Problem, 3> without_sum = {make(m, n, k, 2), make(m, 0, k, 1),
                                                DenseProblem(GetParam(), m, n, 0)};
    const size_t bytes = size * static_cast<size_t>(m * n) * 3;
    DeviceBuffer d;
    Stream stream;
    ASSERT_CUDA(stream.Create());
    ASSERT_CUDA(d.Create(bytes));
    const std::array<Operands, 3> operands = {
        Operands{.d = d.data()}, Operands{},
        Operands{.d = static_cast<char*>(d.data()) + bytes / 3 * 2}};
    for (const KernelFamily* family : Families()) {
      ASSERT_CUDA(family->Prepare(device_));
      for (size_t config = 0; config < family->configs().size(); ++config) {
        const KernelRef kernel{family, static_cast<int>(config)};
        if (!family->WhyNot(problems[0], device_, kernel.config).empty()) continue;
        ASSERT_CUDA(cudaMemsetAsync(d.data(), 0xff, bytes, stream.get()));
        PreparedLaunch launch;
        ASSERT_CUDA(launch.Create(
            kernel, kernel.get().numerics == NumericsClass::kSequential ? without_sum : problems,
            operands, device_));
        ASSERT_CUDA(launch.Launch(stream.get()));
        ASSERT_CUDA(cudaStreamSynchronize(stream.get()));
        std::vector<char> result(bytes);
        ASSERT_CUDA(cudaMemcpy(result.data(), d.data(), bytes, cudaMemcpyDeviceToHost));
        EXPECT_EQ(result, std::vector<char>(bytes, 0)) << kernel.get().name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GpuKernels, ::testing::Values(DType::kF32, DType::kF64),
                         [](const auto& type) { return std::string(NameOf(type.param)); });

class WrongKernels : public GpuTest {
 protected:
  // The checkers that caught a kernel.
  static std::set<std::string> Caught(const CheckReport& report, const std::string& kernel) {
    std::set<std::string> checkers;
    for (const CheckFailure& failure : report.failures) {
      if (failure.kernel == kernel) checkers.insert(failure.checker);
    }
    return checkers;
  }
};

TEST_F(WrongKernels, AreCaughtByEachCheckThatShould) {
  const std::array<const KernelFamily*, 2> families = {&WrongFamily(), Families().back()};
  const CheckReport report = CheckFamilies(families, device_, DType::kF32, CaseSet::kQuick);
  using Names = std::set<std::string>;
  for (const char* kernel : {"wrong_f32_slab", "wrong_f32_tail", "wrong_f32_row"}) {
    const Names caught = Caught(report, kernel);
    EXPECT_EQ(caught.count("exact"), 1u) << kernel;
    EXPECT_EQ(caught.count("bounded"), 1u) << kernel;
    EXPECT_EQ(caught.count("class"), 1u) << kernel;
  }
  EXPECT_EQ(Caught(report, "wrong_f32_reads_c").count("exact"), 1u);
  EXPECT_EQ(Caught(report, "wrong_f32_outside").count("canaries"), 1u);
  EXPECT_EQ(Caught(report, "wrong_f32_backward"), Names{"class"});
  EXPECT_EQ(Caught(report, "wrong_f32_unstable").count("repeat"), 1u);
  EXPECT_EQ(Caught(report, "reference_f32"), Names{});
}

TEST_F(WrongKernels, AreCaughtInGroups) {
  const std::array<const KernelFamily*, 1> families = {&WrongFamily()};
  const CheckReport report = CheckGroups(families, device_, DType::kF32, CaseSet::kQuick);
  EXPECT_EQ(Caught(report, "wrong_f32_group"), (std::set<std::string>{"group", "group to host"}));
}

TEST_F(WrongKernels, AreCaughtBySamples) {
  const std::array<const KernelFamily*, 1> families = {&WrongFamily()};
  const CheckReport report = CheckLarge(families, device_, DType::kF32);
  for (const char* kernel : {"wrong_f32_slab", "wrong_f32_tail", "wrong_f32_row"}) {
    EXPECT_EQ(Caught(report, kernel).count("large"), 1u) << kernel;
  }
}

TEST_F(GpuTest, DeviceFactsAreThere) {
  EXPECT_GE(device_.compute_capability, 80);
  EXPECT_EQ(device_.uuid.substr(0, 4), "GPU-");
  EXPECT_EQ(device_.uuid.size(), 40u);
  EXPECT_GT(device_.f32_flops_per_second, 1e12);
  EXPECT_GT(device_.f64_flops_per_second, 1e10);
  EXPECT_GT(device_.memory_bytes_per_second, 1e11);
  EXPECT_GT(device_.l2_bytes, 0u);
}

}  // namespace
}  // namespace gemm
