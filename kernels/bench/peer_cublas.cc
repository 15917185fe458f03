// cuBLAS is column-major: it is asked for the transpose of D, which is op(B)^T op(A)^T, and reads
// each row-major operand as the transpose of what it is, so that no operand is copied.

#include <cublasLt.h>
#include <cublas_v2.h>

#include <array>
#include <limits>

#include "kernels/bench/peer.h"
#include "kernels/cuda_raii.h"

namespace gemm {
namespace {

constexpr size_t kWorkspaceBytes = size_t{64} << 20;
constexpr int kHeuristics = 16;
// Rows of more than this many bytes have made cuBLAS compute wrong addresses.
constexpr int64_t kMaxRowBytes = int64_t{1} << 31;

// How one call of cublasGemmEx differs from another.
struct GemmExWay {
  const char* name;
  cublasComputeType_t f32;
  cublasComputeType_t f64;
  cublasGemmAlgo_t algorithm;
};
constexpr std::array<GemmExWay, 3> kGemmExWays = {{
    {"gemmEx pedantic", CUBLAS_COMPUTE_32F_PEDANTIC, CUBLAS_COMPUTE_64F_PEDANTIC,
     CUBLAS_GEMM_DEFAULT},
    {"gemmEx default", CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_64F, CUBLAS_GEMM_DEFAULT},
#if CUBLAS_VERSION >= 130000
    {"gemmEx autotune", CUBLAS_COMPUTE_32F_PEDANTIC, CUBLAS_COMPUTE_64F_PEDANTIC,
     CUBLAS_GEMM_AUTOTUNE},
#else
    {},
#endif
}};

// The column-major problem.
struct ColumnMajor {
  cudaDataType_t type;
  cublasOperation_t left_op;  // on B
  cublasOperation_t right_op;
  int64_t m, n, k;
  int64_t left_ld, right_ld, d_ld;
  int64_t left_stride, right_stride, d_stride;
  int batch_count;
};

ColumnMajor ColumnMajorOf(const Problem& problem) {
  const auto op = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  return {problem.dtype == DType::kF32 ? CUDA_R_32F : CUDA_R_64F,
          op(problem.b.transposed),
          op(problem.a.transposed),
          problem.n,
          problem.m,
          problem.k,
          problem.b.ld,
          problem.a.ld,
          problem.d.ld,
          problem.b.batch_stride,
          problem.a.batch_stride,
          problem.d.batch_stride,
          static_cast<int>(problem.batch_count)};
}

// Owners of the descriptors of one cuBLASLt problem.
class LtProblem {
 public:
  LtProblem() = default;
  ~LtProblem() { Reset(); }
  LtProblem(const LtProblem&) = delete;
  LtProblem& operator=(const LtProblem&) = delete;

  bool Create(const ColumnMajor& p) {
    Reset();
    const bool single = p.type == CUDA_R_32F;
    if (cublasLtMatmulDescCreate(&operation_,
                                 single ? CUBLAS_COMPUTE_32F_PEDANTIC : CUBLAS_COMPUTE_64F_PEDANTIC,
                                 p.type) != CUBLAS_STATUS_SUCCESS) {
      return false;
    }
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, cublasOperation_t op) {
      return cublasLtMatmulDescSetAttribute(operation_, attribute, &op, sizeof(op)) ==
             CUBLAS_STATUS_SUCCESS;
    };
    const auto stored = [](cublasOperation_t op, int64_t rows, int64_t columns) {
      return op == CUBLAS_OP_N ? std::pair(rows, columns) : std::pair(columns, rows);
    };
    const auto [left_rows, left_columns] = stored(p.left_op, p.m, p.k);
    const auto [right_rows, right_columns] = stored(p.right_op, p.k, p.n);
    return set(CUBLASLT_MATMUL_DESC_TRANSA, p.left_op) &&
           set(CUBLASLT_MATMUL_DESC_TRANSB, p.right_op) &&
           Layout(&left_, p, left_rows, left_columns, p.left_ld, p.left_stride) &&
           Layout(&right_, p, right_rows, right_columns, p.right_ld, p.right_stride) &&
           Layout(&d_, p, p.m, p.n, p.d_ld, p.d_stride);
  }

  int Heuristics(cublasLtHandle_t handle,
                 std::array<cublasLtMatmulHeuristicResult_t, kHeuristics>* results) const {
    cublasLtMatmulPreference_t preference = nullptr;
    if (cublasLtMatmulPreferenceCreate(&preference) != CUBLAS_STATUS_SUCCESS) return 0;
    const size_t workspace = kWorkspaceBytes;
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                         &workspace, sizeof(workspace));
    int found = 0;
    cublasLtMatmulAlgoGetHeuristic(handle, operation_, left_, right_, d_, d_, preference,
                                   kHeuristics, results->data(), &found);
    cublasLtMatmulPreferenceDestroy(preference);
    return found;
  }

  bool Launch(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm,
              const Operands& operands, const void* one, const void* zero, void* workspace,
              cudaStream_t stream) const {
    return cublasLtMatmul(handle, operation_, one, operands.b, left_, operands.a, right_, zero,
                          operands.d, d_, operands.d, d_, &algorithm, workspace, kWorkspaceBytes,
                          stream) == CUBLAS_STATUS_SUCCESS;
  }

 private:
  static bool Layout(cublasLtMatrixLayout_t* layout, const ColumnMajor& p, int64_t rows,
                     int64_t columns, int64_t ld, int64_t stride) {
    if (cublasLtMatrixLayoutCreate(layout, p.type, static_cast<uint64_t>(rows),
                                   static_cast<uint64_t>(columns), ld) != CUBLAS_STATUS_SUCCESS) {
      return false;
    }
    if (p.batch_count == 1) return true;
    const int32_t count = p.batch_count;
    return cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                            sizeof(count)) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                            &stride, sizeof(stride)) == CUBLAS_STATUS_SUCCESS;
  }

  void Reset() {
    if (operation_ != nullptr) cublasLtMatmulDescDestroy(operation_);
    operation_ = nullptr;
    for (cublasLtMatrixLayout_t* layout : {&left_, &right_, &d_}) {
      if (*layout != nullptr) cublasLtMatrixLayoutDestroy(*layout);
      *layout = nullptr;
    }
  }

  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t left_ = nullptr;
  cublasLtMatrixLayout_t right_ = nullptr;
  cublasLtMatrixLayout_t d_ = nullptr;
};

// The arguments of one cublasSgemmGroupedBatched of groups of one.
struct GroupedArguments {
  std::vector<cublasOperation_t> left_op, right_op;
  std::vector<int> m, n, k, left_ld, right_ld, d_ld, size;
  std::vector<float> one, zero;
};

class CublasPeer final : public Peer {
 public:
  CublasPeer() {
    ready_ = workspace_.Create(kWorkspaceBytes) == cudaSuccess &&
             cublasCreate(&handle_) == CUBLAS_STATUS_SUCCESS &&
             cublasLtCreate(&lt_handle_) == CUBLAS_STATUS_SUCCESS;
  }
  ~CublasPeer() override {
    if (handle_ != nullptr) cublasDestroy(handle_);
    if (lt_handle_ != nullptr) cublasLtDestroy(lt_handle_);
  }
  CublasPeer(const CublasPeer&) = delete;
  CublasPeer& operator=(const CublasPeer&) = delete;

  std::string version() const override {
    int version = 0;
    if (!ready_ || cublasGetVersion(handle_, &version) != CUBLAS_STATUS_SUCCESS) {
      return "cuBLAS does not start";
    }
    return "cuBLAS " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
           "." + std::to_string(version % 100);
  }

  std::vector<std::string> Prepare(const Problem& problem, std::string* why_not) override {
    ways_.clear();
    *why_not = WhyNot(problem);
    if (!why_not->empty()) return {};
    problem_ = ColumnMajorOf(problem);
    std::vector<std::string> names;
    for (const GemmExWay& way : kGemmExWays) {
      if (way.name == nullptr) continue;
      ways_.push_back({&way, {}});
      names.emplace_back(way.name);
    }
    std::array<cublasLtMatmulHeuristicResult_t, kHeuristics> results;
    const int found =
        lt_problem_.Create(problem_) ? lt_problem_.Heuristics(lt_handle_, &results) : 0;
    for (int i = 0; i < found; ++i) {
      const auto& result = results[static_cast<size_t>(i)];
      if (result.state != CUBLAS_STATUS_SUCCESS) continue;
      ways_.push_back({nullptr, result.algo});
      names.push_back("cublasLt " + std::to_string(i));
    }
    return names;
  }

  bool Launch(size_t way, const Operands& operands, cudaStream_t stream) override {
    const Way& it = ways_[way];
    return it.gemm_ex != nullptr ? GemmEx(*it.gemm_ex, operands, stream)
                                 : Lt(it.algorithm, operands, stream);
  }

  std::vector<std::string> PrepareGroup(std::span<const Problem> problems,
                                        std::span<const std::vector<Operands>> sets) override {
    if (!ready_) return {};
    group_.clear();
    group_sets_ = sets;
    grouped_ = {};
    for (const Problem& problem : problems) {
      if (!WhyNot(problem).empty()) return {};
      const ColumnMajor& p = group_.emplace_back(ColumnMajorOf(problem));
      grouped_.left_op.push_back(p.left_op);
      grouped_.right_op.push_back(p.right_op);
      grouped_.m.push_back(static_cast<int>(p.m));
      grouped_.n.push_back(static_cast<int>(p.n));
      grouped_.k.push_back(static_cast<int>(p.k));
      grouped_.left_ld.push_back(static_cast<int>(p.left_ld));
      grouped_.right_ld.push_back(static_cast<int>(p.right_ld));
      grouped_.d_ld.push_back(static_cast<int>(p.d_ld));
      grouped_.size.push_back(1);
      grouped_.one.push_back(1);
      grouped_.zero.push_back(0);
    }
    std::vector<const void*> pointers;  // of each set: the left ones, the right ones, those of D
    for (const std::vector<Operands>& set : sets) {
      for (const Operands& operands : set) pointers.push_back(operands.b);
      for (const Operands& operands : set) pointers.push_back(operands.a);
      for (const Operands& operands : set) pointers.push_back(operands.d);
    }
    const size_t bytes = pointers.size() * sizeof(void*);
    if (pointers_.Create(bytes) != cudaSuccess ||
        cudaMemcpy(pointers_.data(), pointers.data(), bytes, cudaMemcpyHostToDevice) !=
            cudaSuccess) {
      return {};
    }
    return {"gemmEx in turn", "sgemmGroupedBatched"};
  }

  bool LaunchGroup(size_t way, size_t set, cudaStream_t stream) override {
    if (way == 0) {
      for (size_t i = 0; i < group_.size(); ++i) {
        if (!GemmEx(group_[i], kGemmExWays[0], group_sets_[set][i], stream)) return false;
      }
      return true;
    }
    if (!TakeStream(stream)) return false;
    const size_t count = group_.size();
    auto* const left = static_cast<float**>(pointers_.data()) + 3 * set * count;
    return cublasSgemmGroupedBatched(
               handle_, grouped_.left_op.data(), grouped_.right_op.data(), grouped_.m.data(),
               grouped_.n.data(), grouped_.k.data(), grouped_.one.data(), left,
               grouped_.left_ld.data(), left + count, grouped_.right_ld.data(),
               grouped_.zero.data(), left + 2 * count, grouped_.d_ld.data(),
               static_cast<int>(count), grouped_.size.data()) == CUBLAS_STATUS_SUCCESS;
  }

 private:
  struct Way {
    const GemmExWay* gemm_ex;  // or null:
    cublasLtMatmulAlgo_t algorithm;
  };

  std::string WhyNot(const Problem& problem) const {
    if (!ready_) return "cuBLAS does not start";
    constexpr int64_t kMaxInt = std::numeric_limits<int>::max();
    for (int64_t size : {problem.m, problem.n, problem.k, problem.batch_count, problem.a.ld,
                         problem.b.ld, problem.d.ld}) {
      if (size > kMaxInt) return "a size or leading dimension is past 2^31 - 1";
    }
    for (int64_t ld : {problem.a.ld, problem.b.ld, problem.d.ld}) {
      if (ld * static_cast<int64_t>(SizeOf(problem.dtype)) > kMaxRowBytes) {
        return "a row is past 2^31 bytes";
      }
    }
    return {};
  }

  bool GemmEx(const GemmExWay& way, const Operands& operands, cudaStream_t stream) {
    return GemmEx(problem_, way, operands, stream);
  }

  bool GemmEx(const ColumnMajor& p, const GemmExWay& way, const Operands& operands,
              cudaStream_t stream) {
    const bool single = p.type == CUDA_R_32F;
    if (!TakeStream(stream)) return false;
    const cublasComputeType_t compute = single ? way.f32 : way.f64;
    if (p.batch_count == 1) {
      return cublasGemmEx(
                 handle_, p.left_op, p.right_op, static_cast<int>(p.m), static_cast<int>(p.n),
                 static_cast<int>(p.k), one(p), operands.b, p.type, static_cast<int>(p.left_ld),
                 operands.a, p.type, static_cast<int>(p.right_ld), zero(p), operands.d, p.type,
                 static_cast<int>(p.d_ld), compute, way.algorithm) == CUBLAS_STATUS_SUCCESS;
    }
    return cublasGemmStridedBatchedEx(
               handle_, p.left_op, p.right_op, static_cast<int>(p.m), static_cast<int>(p.n),
               static_cast<int>(p.k), one(p), operands.b, p.type, static_cast<int>(p.left_ld),
               p.left_stride, operands.a, p.type, static_cast<int>(p.right_ld), p.right_stride,
               zero(p), operands.d, p.type, static_cast<int>(p.d_ld), p.d_stride, p.batch_count,
               compute, way.algorithm) == CUBLAS_STATUS_SUCCESS;
  }

  // Setting the stream takes the workspace back: in this order, and outside of a capture.
  bool TakeStream(cudaStream_t stream) {
    if (stream == stream_ && stream != nullptr) return true;
    if (cublasSetStream(handle_, stream) != CUBLAS_STATUS_SUCCESS ||
        cublasSetWorkspace(handle_, workspace_.data(), kWorkspaceBytes) != CUBLAS_STATUS_SUCCESS) {
      return false;
    }
    stream_ = stream;
    return true;
  }

  bool Lt(const cublasLtMatmulAlgo_t& algorithm, const Operands& operands, cudaStream_t stream) {
    return lt_problem_.Launch(lt_handle_, algorithm, operands, one(problem_), zero(problem_),
                              workspace_.data(), stream);
  }

  const void* one(const ColumnMajor& p) const {
    return p.type == CUDA_R_32F ? static_cast<const void*>(&one_f32_) : &one_f64_;
  }
  const void* zero(const ColumnMajor& p) const {
    return p.type == CUDA_R_32F ? static_cast<const void*>(&zero_f32_) : &zero_f64_;
  }

  const float one_f32_ = 1;
  const float zero_f32_ = 0;
  const double one_f64_ = 1;
  const double zero_f64_ = 0;
  bool ready_ = false;
  DeviceBuffer workspace_;
  cublasHandle_t handle_ = nullptr;
  cublasLtHandle_t lt_handle_ = nullptr;
  cudaStream_t stream_ = nullptr;  // that the handle has
  ColumnMajor problem_ = {};
  LtProblem lt_problem_;
  std::vector<Way> ways_;
  std::vector<ColumnMajor> group_;
  std::span<const std::vector<Operands>> group_sets_;
  GroupedArguments grouped_;
  DeviceBuffer pointers_;
};

}  // namespace

std::unique_ptr<Peer> MakePeer() { return std::make_unique<CublasPeer>(); }

}  // namespace gemm
