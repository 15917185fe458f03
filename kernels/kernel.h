// What a kernel family must offer. One family is one file in families/, registered by one line in
// registry.cc.
//
// The life of a launch: Select (select.h) picks a family and configuration; MakePlan says what the
// launch needs; the caller provides it; Encode writes the arguments; Launch enqueues the work.
// Everything but Prepare and Launch is host arithmetic that runs without a GPU.

#ifndef GEMMD_KERNELS_KERNEL_H_
#define GEMMD_KERNELS_KERNEL_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kernels/device_info.h"
#include "kernels/gemm.h"

namespace gemm {

// How a configuration sums over k. It depends on the problem alone, never on the batch, the
// alignment or where operands came from; configurations of one class agree bit for bit.
enum class NumericsClass : uint8_t {
  kSequential,  // one accumulator an element, fused multiply-adds in ascending k
  kQuarters,    // the others: families/sum_order.h
  kChunkedQuarters,
  kStreamK,
  kStreamKQuarters,
  kChunkedLanes,
  kDealtChunks,
  kChunks,
};
std::string_view NameOf(NumericsClass numerics);

struct KernelConfig {
  std::string_view name;  // "tiled_f32_32x32x32": unique, the same string everywhere
  DType dtype = DType::kF32;
  NumericsClass numerics = NumericsClass::kSequential;
};

// Problems that one launch of a grouping configuration holds.
inline constexpr int kMostGrouped = 1024;

// What the launches of one or several problems need. Byte counts may be 0.
struct Plan {
  int config = 0;
  int variant = 0;               // the family's own choice within the configuration
  int launches = 0;              // kernels enqueued
  size_t args_bytes = 0;         // host memory that Encode fills, 16-byte aligned
  size_t device_args_bytes = 0;  // leading part of it that Launch expects copied to the device
  size_t workspace_bytes = 0;    // device memory, 256-byte aligned, contents undefined
};

// Stateless after Prepare and safe to use from any thread. Bodies throw nothing.
class KernelFamily {
 public:
  virtual ~KernelFamily() = default;

  virtual std::string_view name() const = 0;  // "tiled"; the metric label
  virtual std::span<const KernelConfig> configs() const = 0;

  // Empty if the configuration can run the problem on the device, else the reason in words.
  // The problem has passed Validate; an empty D never gets here.
  virtual std::string WhyNot(const Problem& problem, const DeviceInfo& device,
                             int config) const = 0;

  // Estimated seconds on the device, launch excluded. Only for problems that WhyNot accepts.
  virtual double ModelSeconds(const Problem& problem, const DeviceInfo& device,
                              int config) const = 0;

  // Once for each device, with that device current, before the first Launch: loads every kernel
  // and sets its attributes, so that a launch never allocates or synchronises.
  virtual cudaError_t Prepare(const DeviceInfo& device) const = 0;

  // Whether products of different sizes, layouts, alpha and beta can share one launch of the
  // configuration, a group: each then has the bits that it has alone. The plan for a group has one
  // launch for up to kMostGrouped problems; without groups it has at least one for each problem.
  // What a group needs beyond one product's arguments is a table in the device arguments.
  virtual bool Groups(int /*config*/) const { return false; }

  // For problems that WhyNot accepts each by itself; empty ones are passed over.
  virtual Plan MakePlan(std::span<const Problem> problems, const DeviceInfo& device,
                        int config) const = 0;

  // Fills plan.args_bytes of host memory, which must stay untouched until the launch has finished.
  // Takes the problems that the plan was made for, in their order. D may lie in mapped host memory:
  // a launch without workspace writes each of its elements once and reads none of them, unless C is
  // D.
  virtual void Encode(const Plan& plan, std::span<const Problem> problems,
                      std::span<const Operands> operands, void* args) const = 0;

  // Enqueues on `stream` only: no allocation, no synchronisation. `device_args` is the device copy
  // of the leading plan.device_args_bytes of `args`: kernels may change it, and leave it as it was.
  // It belongs to the stream, as the workspace does.
  virtual cudaError_t Launch(const Plan& plan, const void* args, const void* device_args,
                             void* workspace, cudaStream_t stream) const = 0;
};

}  // namespace gemm

#endif  // GEMMD_KERNELS_KERNEL_H_
