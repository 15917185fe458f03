// The products that are measured: shapes in words, and lists of them.

#ifndef GEMMD_KERNELS_BENCH_SHAPE_LISTS_H_
#define GEMMD_KERNELS_BENCH_SHAPE_LISTS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/gemm.h"

namespace gemm {

// "4096x7168x16384", "64x64x64b256" for a batch of 256, "100x200x300:TN" for A stored transposed.
struct BenchShape {
  int64_t m = 1;
  int64_t n = 1;
  int64_t k = 1;
  int64_t batch_count = 1;
  bool transpose_a = false;
  bool transpose_b = false;

  friend bool operator==(const BenchShape&, const BenchShape&) = default;
};

std::string NameOf(const BenchShape& shape);
std::optional<BenchShape> ParseShape(std::string_view text);

// Dense, aligned to 256 bytes, alpha 1, beta 0: what is measured.
Problem BenchProblem(const BenchShape& shape, DType dtype);

// What the project's targets are stated on.
std::vector<BenchShape> TargetShapes();
// Shapes that speech and vision models multiply, as Baidu's DeepBench lists them: a selection.
std::vector<BenchShape> DeepBenchShapes();
// Shapes that nobody chose: a third near square, a third with one thin side, a third of any sizes,
// with transposes and a few batches. The same seed gives the same shapes.
std::vector<BenchShape> RandomShapes(uint64_t seed, int count);
// Others that nobody chose, spread more evenly: m and n of any octave up to 8192, k of any up to
// 16384 or, of a third, up to 64; half of them in multiples of 4 or 8.
std::vector<BenchShape> SpreadShapes(uint64_t seed, int count);
// What the golden file of choices holds.
std::vector<BenchShape> GoldenShapes();

// "list", "deepbench", "golden", "random:SEED", "spread:SEED" or either with ":COUNT"; or the words
// that each name one shape, or three numbers m n k. Nothing and a reason in `fault` when they say
// neither, or name a product that is too large in one of the types.
std::vector<BenchShape> ReadShapes(const std::string& list, std::span<const std::string> words,
                                   std::string* fault);

}  // namespace gemm

#endif  // GEMMD_KERNELS_BENCH_SHAPE_LISTS_H_
