// What is said of repeated timings.

#ifndef GEMMD_KERNELS_BENCH_STATISTICS_H_
#define GEMMD_KERNELS_BENCH_STATISTICS_H_

#include <span>
#include <vector>

namespace gemm {

struct Summary {
  double median = 0;
  double p10 = 0;  // a tenth of the values are at most this
  double p90 = 0;

  // (p90 - p10) / median; 0 when there is no median.
  double spread() const { return median > 0 ? (p90 - p10) / median : 0; }
};

// The median of an even count is the mean of the middle two. Of no values: all 0.
Summary Summarize(std::vector<double> values);

// Of positive values; 0 of none.
double GeometricMean(std::span<const double> values);

}  // namespace gemm

#endif  // GEMMD_KERNELS_BENCH_STATISTICS_H_
