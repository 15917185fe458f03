// cuBLAS is column-major: row-major C = A B is its C^T = B^T A^T, with m and n swapped.

#include <cublasLt.h>
#include <cublas_v2.h>

#include "harness/lab.h"

namespace lab {
namespace {

constexpr size_t kWorkspaceBytes = 64 << 20;
constexpr int kHeuristics = 16;
constexpr float kOne = 1, kZero = 0;

}  // namespace

struct Peer::State {
  cudaStream_t stream;
  cublasHandle_t handle;
  cublasLtHandle_t lt;
  void* workspace;
  cublasLtMatmulDesc_t operation;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulHeuristicResult_t heuristics[kHeuristics];

  cublasStatus_t Run(int heuristic, const OperandSet& set, cudaStream_t on) {
    return cublasLtMatmul(lt, operation, &kOne, set.b, b, set.a, a, &kZero, set.c, c, set.c, c,
                          &heuristics[heuristic].algo, workspace, kWorkspaceBytes, on);
  }

  void FreeLayouts() {
    for (auto layout : {a, b, c}) {
      if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
    }
  }
};

Peer::Peer(cudaStream_t stream) : state_(new State) {
  state_->stream = stream;
  LAB_CHECK(cublasCreate(&state_->handle));
  LAB_CHECK(cublasSetStream(state_->handle, stream));
  LAB_CHECK(cudaMalloc(&state_->workspace, kWorkspaceBytes));
  LAB_CHECK(cublasSetWorkspace(state_->handle, state_->workspace, kWorkspaceBytes));
  LAB_CHECK(cublasLtCreate(&state_->lt));
  LAB_CHECK(cublasLtMatmulDescCreate(&state_->operation, CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F));
}

Peer::~Peer() {
  state_->FreeLayouts();
  cublasLtMatmulDescDestroy(state_->operation);
  cublasLtDestroy(state_->lt);
  cublasDestroy(state_->handle);
  cudaFree(state_->workspace);
  delete state_;
}

int Peer::version() const {
  int version = 0;
  LAB_CHECK(cublasGetVersion(state_->handle, &version));
  return version;
}

void Peer::Multiply(const OperandSet& set, float* c, const Shape& shape) {
  LAB_CHECK(cublasGemmEx(state_->handle, CUBLAS_OP_N, CUBLAS_OP_N, shape.n, shape.m, shape.k, &kOne,
                         set.b, CUDA_R_32F, shape.n, set.a, CUDA_R_32F, shape.k, &kZero, c,
                         CUDA_R_32F, shape.n, CUBLAS_COMPUTE_32F_PEDANTIC, CUBLAS_GEMM_DEFAULT));
}

std::vector<Candidate> Peer::Candidates(const Shape& shape, const std::vector<OperandSet>& sets) {
  std::vector<Candidate> out;
  out.push_back({"gemmEx", [this, shape, &sets](int i, cudaStream_t) {
                   const OperandSet& set = sets[i % sets.size()];
                   Multiply(set, set.c, shape);
                 }});
  State* s = state_;
  s->FreeLayouts();
  LAB_CHECK(cublasLtMatrixLayoutCreate(&s->b, CUDA_R_32F, shape.n, shape.k, shape.n));
  LAB_CHECK(cublasLtMatrixLayoutCreate(&s->a, CUDA_R_32F, shape.k, shape.m, shape.k));
  LAB_CHECK(cublasLtMatrixLayoutCreate(&s->c, CUDA_R_32F, shape.n, shape.m, shape.n));
  cublasLtMatmulPreference_t preference;
  LAB_CHECK(cublasLtMatmulPreferenceCreate(&preference));
  LAB_CHECK(cublasLtMatmulPreferenceSetAttribute(preference,
                                                 CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                 &kWorkspaceBytes, sizeof kWorkspaceBytes));
  int found = 0;
  cublasLtMatmulAlgoGetHeuristic(s->lt, s->operation, s->b, s->a, s->c, s->c, preference,
                                 kHeuristics, s->heuristics, &found);
  cublasLtMatmulPreferenceDestroy(preference);
  for (int h = 0; h < found; ++h) {
    if (s->heuristics[h].state != CUBLAS_STATUS_SUCCESS) continue;
    if (s->Run(h, sets[0], s->stream) != CUBLAS_STATUS_SUCCESS) continue;
    out.push_back({"lt" + std::to_string(h), [s, h, &sets](int i, cudaStream_t stream) {
                     s->Run(h, sets[i % sets.size()], stream);
                   }});
  }
  return out;
}

}  // namespace lab
