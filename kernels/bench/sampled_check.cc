#include "kernels/bench/sampled_check.h"

#include <cmath>
#include <limits>

#include "kernels/bench/device_fill.h"
#include "kernels/cuda_status.h"

namespace gemm {
namespace {

double RoundedTo(DType dtype, double value) {
  return dtype == DType::kF32 ? static_cast<float>(value) : value;
}

Sample MakeSample(const Problem& problem, const SampledOperands& operands, int64_t q, int64_t i,
                  int64_t j) {
  const auto element = [&](const MatrixLayout& layout, uint64_t seed, int64_t row,
                           int64_t column) -> long double {
    const int64_t index = q * layout.batch_stride +
                          (layout.transposed ? column * layout.ld + row : row * layout.ld + column);
    return FilledValue(problem.dtype, operands.fill, seed, index);
  };
  long double sum = 0;
  long double magnitude = 0;
  const int64_t k = ReadsAB(problem) ? problem.k : 0;
  for (int64_t p = 0; p < k; ++p) {
    const long double product =
        element(problem.a, operands.seed_a, i, p) * element(problem.b, operands.seed_b, p, j);
    sum += product;
    magnitude += std::abs(product);
  }
  const long double alpha = RoundedTo(problem.dtype, problem.alpha);
  const long double addend = ReadsC(problem) ? RoundedTo(problem.dtype, problem.beta) *
                                                   element(problem.c, operands.seed_c, i, j)
                                             : 0.0L;
  Sample sample;
  sample.index = q * problem.d.batch_stride + i * problem.d.ld + j;
  sample.value = (k == 0 ? 0.0L : alpha * sum) + addend;
  if (operands.fill == Fill::kReals) {
    const long double unit = problem.dtype == DType::kF32 ? 0x1p-24L : 0x1p-53L;
    sample.bound = unit * std::abs(sample.value) + unit * std::abs(addend) +
                   std::abs(alpha) * 4 * std::sqrt(static_cast<long double>(k)) * unit * magnitude;
  }
  return sample;
}

}  // namespace

std::vector<Sample> MakeSamples(const Problem& problem, const SampledOperands& operands,
                                int count) {
  std::vector<Sample> samples;
  for (int64_t q : {int64_t{0}, problem.batch_count - 1}) {
    for (int64_t i : {int64_t{0}, problem.m - 1}) {
      for (int64_t j : {int64_t{0}, problem.n - 1}) {
        samples.push_back(MakeSample(problem, operands, q, i, j));
      }
    }
  }
  for (int s = 0; s < count; ++s) {
    const auto pick = [&](uint64_t which, int64_t limit) {
      return static_cast<int64_t>(RandomBits(which, static_cast<uint64_t>(s)) %
                                  static_cast<uint64_t>(limit));
    };
    samples.push_back(MakeSample(problem, operands, pick(101, problem.batch_count),
                                 pick(102, problem.m), pick(103, problem.n)));
  }
  return samples;
}

cudaError_t CheckSamples(DType dtype, const std::vector<Sample>& samples, const void* d,
                         Verdict* verdict) {
  *verdict = {};
  const auto size = static_cast<int64_t>(SizeOf(dtype));
  int wrong = 0;
  for (const Sample& sample : samples) {
    double got = 0;
    float single = 0;
    const auto* from = static_cast<const char*>(d) + sample.index * size;
    void* to = dtype == DType::kF32 ? static_cast<void*>(&single) : &got;
    GEMM_RETURN_IF_CUDA_ERROR(
        cudaMemcpy(to, from, static_cast<size_t>(size), cudaMemcpyDeviceToHost));
    if (dtype == DType::kF32) got = single;
    const long double error = std::abs(got - sample.value);
    if (error <= sample.bound) {
      if (error > 0) {
        verdict->worst_ratio =
            std::max(verdict->worst_ratio, static_cast<double>(error / sample.bound));
      }
      continue;
    }
    if (++wrong == 1) {
      verdict->fault = "element " + std::to_string(sample.index) + " of D is " +
                       std::to_string(got) + ", should be " +
                       std::to_string(static_cast<double>(sample.value));
    }
  }
  verdict->ok = wrong == 0;
  if (wrong > 0) verdict->fault += " (" + std::to_string(wrong) + " samples wrong)";
  return cudaSuccess;
}

}  // namespace gemm
