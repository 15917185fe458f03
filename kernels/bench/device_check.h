// Runs kernels on the current device and checks their results.

#ifndef GEMMD_KERNELS_BENCH_DEVICE_CHECK_H_
#define GEMMD_KERNELS_BENCH_DEVICE_CHECK_H_

#include <span>
#include <string_view>

#include "kernels/bench/report.h"
#include "kernels/bench/shapes.h"
#include "kernels/kernel.h"

namespace gemm {

// Every legal configuration on every case: against the wider reference, canaries around D, twice
// for the same bits, and bit for bit against the last family of its numerics class (the registry's
// last is the reference). `only`, when not empty, is the full name of the one kernel to check.
CheckReport CheckFamilies(std::span<const KernelFamily* const> families, const DeviceInfo& device,
                          DType dtype, CaseSet set, std::string_view only = {});

// Every configuration that groups (KernelFamily::Groups): the cases that it can run in one launch,
// and a few of them in another, have the bits that each has alone and write nothing beside D; in
// device memory and with D in mapped host memory.
CheckReport CheckGroups(std::span<const KernelFamily* const> families, const DeviceInfo& device,
                        DType dtype, CaseSet set, std::string_view only = {});

// Operands of more than 2^31 elements, by samples; needs 40 GB of device memory for f64.
CheckReport CheckLarge(std::span<const KernelFamily* const> families, const DeviceInfo& device,
                       DType dtype, std::string_view only = {});

}  // namespace gemm

#endif  // GEMMD_KERNELS_BENCH_DEVICE_CHECK_H_
