// What the parts of the harness share: a product, its operands, and ways to compute it.

#ifndef GEMMD_KERNELS_LAB_HARNESS_LAB_H_
#define GEMMD_KERNELS_LAB_HARNESS_LAB_H_

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

// Laboratory manners: say what failed and stop.
#define LAB_CHECK(call)                                                                      \
  do {                                                                                       \
    if (auto error_ = (call); static_cast<int>(error_) != 0) {                               \
      std::printf("%s:%d: %s: %d %s\n", __FILE__, __LINE__, #call, static_cast<int>(error_), \
                  cudaGetErrorString(cudaGetLastError()));                                   \
      std::exit(1);                                                                          \
    }                                                                                        \
  } while (0)

namespace lab {

// Row-major C (m x n) = A (m x k) B (k x n).
struct Shape {
  int m, n, k;
  double flops() const { return 2.0 * m * n * k; }
};

// One of several sets of operands that timing goes through, so that L2 is cold.
struct OperandSet {
  float* a;
  float* b;
  float* c;
  float* a_transposed;  // null if this shape has no variant that reads it
};

struct Context {
  cudaStream_t stream;
  int sms;
  float* workspace;
  size_t workspace_bytes;
  int* counters;          // zero between launches
  std::string cubin_dir;  // with compiled/ and rebuilt/
  bool only_rebuilt;      // leave out the compiled form of what has been rebuilt
  bool checking = false;  // variants that take A^T as given make it first
};

// A way to compute the product of operand set `set % sets`.
struct Candidate {
  std::string name;
  std::function<void(int set, cudaStream_t stream)> launch;
};

// Our kernels for this shape. `context` and `sets` must outlive them.
std::vector<Candidate> OurCandidates(const Context& context, const Shape& shape,
                                     const std::vector<OperandSet>& sets);

void FillIntegers(float* p, size_t size, unsigned seed, cudaStream_t stream);  // -2 .. 2
void FillReals(float* p, size_t size, unsigned seed, cudaStream_t stream);     // [-1, 1)
void MakeTransposed(const OperandSet& set, const Shape& shape, cudaStream_t stream);
// The sum in order of k, by fused multiply-add: what "bits-equal" means.
void Reference(const OperandSet& set, float* c, const Shape& shape, cudaStream_t stream);

struct Difference {
  unsigned different, nans;
  float largest;
};
Difference Compare(const float* x, const float* y, size_t size, cudaStream_t stream);

// cuBLAS: GemmEx and up to 16 heuristics of cublasLt, all COMPUTE_32F_PEDANTIC.
class Peer {
 public:
  explicit Peer(cudaStream_t stream);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  int version() const;
  void Multiply(const OperandSet& set, float* c, const Shape& shape);
  // Valid until the next call. Leaves out heuristics that fail.
  std::vector<Candidate> Candidates(const Shape& shape, const std::vector<OperandSet>& sets);

 private:
  struct State;
  State* state_;
};

}  // namespace lab

#endif  // GEMMD_KERNELS_LAB_HARNESS_LAB_H_
