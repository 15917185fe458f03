// Choices in words: what would run each shape, for people and for the golden file of the tests.

#ifndef GEMMD_KERNELS_BENCH_CHOICES_H_
#define GEMMD_KERNELS_BENCH_CHOICES_H_

#include <span>
#include <string>
#include <vector>

#include "kernels/bench/shape_lists.h"
#include "kernels/select.h"

namespace gemm {

// One line a type and shape: "f32  4096x4096x4096  register_f32_128x128x8  measured".
std::string ChoicesText(std::span<const DType> dtypes, std::span<const BenchShape> shapes,
                        const DeviceInfo& device, std::span<const KernelFamily* const> families,
                        const TuningTable& table);

// One choice with every candidate: its modelled and measured time, or why it cannot run.
std::string ExplanationText(const Problem& problem, const DeviceInfo& device,
                            std::span<const KernelFamily* const> families,
                            const TuningTable& table);

}  // namespace gemm

#endif  // GEMMD_KERNELS_BENCH_CHOICES_H_
