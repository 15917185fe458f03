// What a run of checks found, kernel by kernel.

#ifndef GEMMD_KERNELS_BENCH_REPORT_H_
#define GEMMD_KERNELS_BENCH_REPORT_H_

#include <string>
#include <string_view>
#include <vector>

#include "kernels/bench/verdict.h"

namespace gemm {

struct CheckFailure {
  std::string kernel;
  std::string case_name;
  std::string checker;  // "runs", "exact", "bounded", "canaries", "repeat", "class", "group",
                        // "group to host", "large"
  std::string fault;
};

struct KernelTally {
  std::string kernel;
  int passed = 0;
  int failed = 0;
  double worst_ratio = 0;  // of error to bound, over the bounded checks
  std::string worst_case;
};

struct CheckReport {
  std::vector<KernelTally> kernels;
  std::vector<CheckFailure> failures;
  bool device_lost = false;  // a CUDA error that nothing survives: the rest was not run

  void Add(std::string_view kernel, const std::string& case_name, const char* checker,
           const Verdict& verdict);
  void Merge(CheckReport other);
  int passed() const;
  int failed() const;

 private:
  KernelTally& TallyOf(std::string_view kernel);
};

}  // namespace gemm

#endif  // GEMMD_KERNELS_BENCH_REPORT_H_
