// Times of kernels as records: written as JSON lines, read back, and turned into a tuning table.

#ifndef GEMMD_KERNELS_BENCH_MEASURED_TIMES_H_
#define GEMMD_KERNELS_BENCH_MEASURED_TIMES_H_

#include <span>
#include <string>
#include <vector>

#include "kernels/bench/shape_lists.h"
#include "kernels/gemm.h"
#include "kernels/tuning/tuning_table.h"

namespace gemm {

struct KernelMicroseconds {
  std::string kernel;
  double microseconds = 0;
};

struct ShapeTimes {
  DType dtype = DType::kF32;
  BenchShape shape;
  std::vector<KernelMicroseconds> kernels;
};

// One line of JSON for each kernel.
std::string ToJsonLines(const ShapeTimes& times);

// The times in a file of JSON lines, other lines left out. False if the file cannot be read or a
// line is no JSON.
bool ReadTimes(const std::string& path, std::vector<ShapeTimes>* times);

// Leaves what kernels of this build can run on the device: records outlive kernels.
void KeepLegal(const DeviceInfo& device, std::vector<ShapeTimes>* times);

// Recorded times as a table to choose by, the same as TableText makes of them. Neither copied nor
// moved: its rows point into it.
class RecordedTable {
 public:
  explicit RecordedTable(std::vector<ShapeTimes> times);
  RecordedTable(const RecordedTable&) = delete;
  RecordedTable& operator=(const RecordedTable&) = delete;

  TuningTable table() const { return {0, 0, rows_}; }

 private:
  std::vector<ShapeTimes> times_;
  std::vector<TuningRow> rows_;
};

// The text of kernels/tuning/*.inc: the array `name` with a row for each shape, in the order that
// the table wants, the fastest kernels of each. `header` is put into comments, line by line. A
// shape that is measured twice counts as it was last.
std::string TableText(std::string_view name, std::span<const std::string> header,
                      std::vector<ShapeTimes> times);

}  // namespace gemm

#endif  // GEMMD_KERNELS_BENCH_MEASURED_TIMES_H_
