#include "server/engine/cpu_device.h"

#include <cblas.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/engine/clock.h"
#include "server/reason.h"

namespace gemm {
namespace {

constexpr const char* kKernelF32 = "cblas_f32";
constexpr const char* kKernelF64 = "cblas_f64";

const char* KernelName(DType dtype) { return dtype == DType::kF32 ? kKernelF32 : kKernelF64; }

// CBLAS counts in int.
std::string WhyNot(const Problem& p) {
  constexpr int64_t kLimit = std::numeric_limits<int>::max();
  for (int64_t value : {p.m, p.n, p.k, p.a.ld, p.b.ld, p.d.ld}) {
    if (value > kLimit) {
      return absl::StrCat("a dimension or leading dimension of ", value,
                          " is over CBLAS's limit of ", kLimit);
    }
  }
  return {};
}

void CallCblas(CBLAS_TRANSPOSE op_a, CBLAS_TRANSPOSE op_b, const Problem& p, const float* a,
               const float* b, float* d) {
  cblas_sgemm(CblasRowMajor, op_a, op_b, static_cast<int>(p.m), static_cast<int>(p.n),
              static_cast<int>(p.k), static_cast<float>(p.alpha), a, static_cast<int>(p.a.ld), b,
              static_cast<int>(p.b.ld), static_cast<float>(p.beta), d, static_cast<int>(p.d.ld));
}

void CallCblas(CBLAS_TRANSPOSE op_a, CBLAS_TRANSPOSE op_b, const Problem& p, const double* a,
               const double* b, double* d) {
  cblas_dgemm(CblasRowMajor, op_a, op_b, static_cast<int>(p.m), static_cast<int>(p.n),
              static_cast<int>(p.k), p.alpha, a, static_cast<int>(p.a.ld), b,
              static_cast<int>(p.b.ld), p.beta, d, static_cast<int>(p.d.ld));
}

// C goes into D first, since CBLAS updates in place.
template <typename T>
void Multiply(const Problem& p, const T* a, const T* b, const T* c, T* d) {
  const auto op_a = p.a.transposed ? CblasTrans : CblasNoTrans;
  const auto op_b = p.b.transposed ? CblasTrans : CblasNoTrans;
  const T beta = static_cast<T>(p.beta);
  for (int64_t q = 0; q < p.batch_count; ++q, d += p.d.batch_stride) {
    for (int64_t i = 0; i < p.m; ++i) {
      T* row = d + i * p.d.ld;
      if (beta != T{0}) {
        std::memcpy(row, c + q * p.c.batch_stride + i * p.c.ld, p.n * sizeof(T));
        if (!ReadsAB(p)) std::transform(row, row + p.n, row, [beta](T x) { return x * beta; });
      } else if (!ReadsAB(p)) {
        std::fill_n(row, p.n, T{0});
      }
    }
    if (ReadsAB(p)) {
      CallCblas(op_a, op_b, p, a + q * p.a.batch_stride, b + q * p.b.batch_stride, d);
    }
  }
}

template <typename T>
void Multiply(const Job& job, const JobProduct& product) {
  const auto operand = [&job](const InputSpan& span) {
    const std::byte* base = span.matrix != nullptr ? span.matrix->data() : job.input.data();
    return reinterpret_cast<const T*>(base + span.offset_bytes);
  };
  std::byte* d = product.result != nullptr ? product.result->data()
                                           : job.output.data() + product.output_offset_bytes;
  Multiply(product.problem, operand(product.a), operand(product.b), operand(product.c),
           reinterpret_cast<T*>(d));
}

// The rate of a product that fits into the caches, the best of some: the first wakes CBLAS's
// threads, and other work on the machine holds up others.
template <typename T>
double MeasureCeiling(DType dtype) {
  constexpr int64_t kSize = 512;
  constexpr int kRuns = 8;
  constexpr absl::Duration kLongest = absl::Milliseconds(30);
  const Problem problem = DenseProblem(dtype, kSize, kSize, kSize);
  const std::vector<T> ones(kSize * kSize, T{1});
  std::vector<T> result(kSize * kSize);
  absl::Duration least = absl::InfiniteDuration();
  absl::Duration all = absl::ZeroDuration();
  for (int run = 0; run < kRuns && all < kLongest; ++run) {
    const absl::Time start = SteadyNow();
    CallCblas(CblasNoTrans, CblasNoTrans, problem, ones.data(), ones.data(), result.data());
    const absl::Duration took = SteadyNow() - start;
    least = std::min(least, took);
    all += took;
  }
  return FlopCount(problem) / absl::ToDoubleSeconds(std::max(least, absl::Microseconds(1)));
}

// A matrix in ordinary memory.
class HostMatrix final : public DeviceMatrix {
 public:
  HostMatrix(int device, const MatrixSpec& spec, void* data, HostMemory& memory)
      : DeviceMatrix(device, spec, data), memory_(memory) {}
  ~HostMatrix() override { memory_.Free(data(), MemoryBytes(spec())); }

 private:
  HostMemory& memory_;
};

class CpuDevice final : public Device {
 public:
  CpuDevice() {
    description_.name = "cpu";
    description_.kind = "cpu";
    description_.multiprocessors = static_cast<int>(std::thread::hardware_concurrency());
    description_.memory_bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                                static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    static const std::array ceilings = {MeasureCeiling<float>(DType::kF32),
                                        MeasureCeiling<double>(DType::kF64)};  // the machine's
    description_.ceiling_flops_per_second = ceilings;
  }

  const DeviceDescription& description() const override { return description_; }
  const std::vector<std::string>& kernel_names() const override { return kernel_names_; }
  HostMemory& host_memory() override { return memory_; }
  bool lost() const override { return false; }

  KernelExplanation Explain(const Problem& problem) const override {
    KernelExplanation explanation;
    for (const std::string& kernel : kernel_names_) {
      std::string why_not =
          kernel == KernelName(problem.dtype)
              ? WhyNot(problem)
              : absl::StrCat("computes another type than ", std::string(NameOf(problem.dtype)));
      if (why_not.empty()) explanation.chosen = kernel;
      explanation.candidates.push_back({kernel, std::move(why_not), 0});
    }
    explanation.reason = explanation.chosen.empty() ? "nothing can run it" : "only one";
    return explanation;
  }

  // CBLAS uses every core for one product.
  std::vector<LaneKind> lanes() const override { return {LaneKind::kAny}; }

  absl::StatusOr<std::unique_ptr<DeviceMatrix>> AllocateMatrix(const MatrixSpec& spec) override {
    void* data = memory_.Allocate(MemoryBytes(spec));
    if (data == nullptr) {
      return ErrorWithReason(
          Reason::kMemoryFull,
          absl::StrCat("the system has no ", MemoryBytes(spec), " bytes to give for the moment"));
    }
    return std::make_unique<HostMatrix>(description_.index, spec, data, memory_);
  }

  absl::Status WriteRows(const DeviceMatrix& matrix, RowRange rows, RowSource next) override {
    if (matrix.pitch_bytes() == matrix.row_bytes()) {
      next(matrix.row(rows.begin), matrix.row_bytes() * static_cast<size_t>(rows.count()));
    } else {
      for (int64_t i = rows.begin; i < rows.end; ++i) next(matrix.row(i), matrix.row_bytes());
    }
    return absl::OkStatus();
  }

  absl::Status ReadRows(const DeviceMatrix& matrix, RowRange rows, std::byte* to) override {
    for (int64_t i = rows.begin; i < rows.end; ++i, to += matrix.row_bytes()) {
      std::memcpy(to, matrix.row(i), matrix.row_bytes());
    }
    return absl::OkStatus();
  }

  void Run(int /*lane*/, Batch& batch) override {
    for (const std::unique_ptr<Job>& job : batch.jobs) {
      for (JobProduct& product : job->products) {
        if (!NeedsDevice(product)) continue;
        product.status = RunOne(*job, product);
        batch.compute += product.report.compute;
      }
    }
  }

 private:
  absl::Status RunOne(const Job& job, JobProduct& product) const {
    if (std::string why_not = WhyNot(product.problem); !why_not.empty()) {
      return ErrorWithReason(Reason::kUnsupported, why_not);
    }
    product.report.device = description_.name;
    product.report.device_index = description_.index;
    product.report.kernel = KernelName(product.problem.dtype);
    product.report.kernel_family = "cblas";
    product.report.launches = 1;
    const absl::Time start = SteadyNow();
    if (product.problem.dtype == DType::kF32) {
      Multiply<float>(job, product);
    } else {
      Multiply<double>(job, product);
    }
    product.report.compute = SteadyNow() - start;
    return absl::OkStatus();
  }

  DeviceDescription description_;
  std::vector<std::string> kernel_names_{kKernelF32, kKernelF64};
  PageableMemory memory_;
};

}  // namespace

std::unique_ptr<Device> OpenCpuDevice() { return std::make_unique<CpuDevice>(); }

}  // namespace gemm
