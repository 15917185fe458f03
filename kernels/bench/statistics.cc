#include "kernels/bench/statistics.h"

#include <algorithm>
#include <cmath>

namespace gemm {

Summary Summarize(std::vector<double> values) {
  Summary summary;
  if (values.empty()) return summary;
  std::sort(values.begin(), values.end());
  const size_t count = values.size();
  summary.median = (values[(count - 1) / 2] + values[count / 2]) / 2;
  summary.p10 = values[(count - 1) / 10];
  summary.p90 = values[count - 1 - (count - 1) / 10];
  return summary;
}

double GeometricMean(std::span<const double> values) {
  if (values.empty()) return 0;
  double sum = 0;
  for (double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

}  // namespace gemm
