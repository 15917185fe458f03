// What is chosen of the real families where no measured row decides, and that many threads may ask.

#include <gtest/gtest.h>

#include <string_view>
#include <thread>
#include <vector>

#include "kernels/bench/literal_devices.h"
#include "kernels/bench/shape_lists.h"
#include "kernels/registry.h"
#include "kernels/select.h"

namespace gemm {
namespace {

// What the cost model takes on an H200 where no measured row does: what users run on other cards.
// The table's choices are in golden_choices.txt.
TEST(Model, ChoicesAreTheseUntilMeasuredOtherwise) {
  struct Choice {
    DType dtype;
    int64_t m, n, k, batch_count;
    const char* kernel;
  };
  const Choice choices[] = {
      {DType::kF32, 1, 1, 1, 1, "naive_f32_16x16"},
      {DType::kF32, 64, 64, 64, 1, "small_f32"},
      {DType::kF32, 128, 128, 128, 1, "small_f32"},
      {DType::kF32, 256, 256, 256, 1, "small_f32"},
      {DType::kF32, 512, 512, 512, 1, "small_f32_quarters"},
      {DType::kF32, 1024, 1024, 1024, 1, "sliced_f32_sm90_32x128x64_s2"},
      {DType::kF32, 1023, 1025, 1027, 1, "sliced_f32_sm90_64x64x64_s3"},
      {DType::kF32, 2048, 2048, 2048, 1, "pipelined_f32_sm90_256x128x32_s4"},
      {DType::kF32, 4096, 4096, 4096, 1, "stream_k_f32_sm90_128x256x32_s4"},
      {DType::kF32, 1, 4096, 4096, 1, "skinny_f32_lanes"},
      {DType::kF32, 8, 4096, 4096, 1, "skinny_f32_sm90_clusters"},
      {DType::kF32, 128, 4096, 4096, 1, "sliced_f32_sm90_64x64x64_s3_chunks"},
      {DType::kF32, 64, 64, 65536, 1, "deep_f32_sm90"},
      {DType::kF32, 8192, 8192, 64, 1, "pipelined_f32_sm90_256x128x32_s4"},
      {DType::kF32, 1148, 1022, 39, 1, "outer_f32"},
      {DType::kF32, 350, 2531, 21, 1, "outer_f32"},
      {DType::kF32, 5223, 5644, 1, 1, "outer_f32"},
      {DType::kF32, 6144, 4, 2048, 1, "skinny_f32_sm90_clusters"},
      {DType::kF32, 64, 64, 64, 256, "small_f32"},
      {DType::kF32, 4096, 1, 4096, 1, "skinny_f32_lanes"},
      {DType::kF32, 4096, 16, 4096, 1, "skinny_f32_sm90_clusters"},
      {DType::kF32, 32, 4096, 4096, 1, "skinny_f32_sm90_clusters"},
      {DType::kF32, 1536, 1536, 1536, 1, "sliced_f32_sm90_48x96x64_s2"},
      {DType::kF64, 128, 128, 128, 1, "tensor_f64_sm90_16x32x32_s8"},
      {DType::kF64, 256, 256, 256, 1, "tensor_f64_sm90_16x32x32_s8"},
      {DType::kF64, 512, 512, 512, 1, "tensor_f64_sm90_32x32x32_s5"},
      {DType::kF64, 8, 4096, 4096, 1, "tensor_f64_sm90_16x32x32_s8_chunks"},
      {DType::kF64, 4096, 4096, 4096, 1, "tensor_f64_sm90_128x128x16_s6"},
  };
  for (const Choice& choice : choices) {
    const Problem problem =
        BenchProblem({choice.m, choice.n, choice.k, choice.batch_count}, choice.dtype);
    EXPECT_EQ(Select(problem, H200(), Families(), {}, TuningTable{}).kernel.get().name,
              choice.kernel)
        << choice.m << " x " << choice.n << " x " << choice.k << " batch " << choice.batch_count;
  }
}

TEST(Model, TakesTheReferenceOnlyWhereNothingElseRuns) {
  for (DType dtype : {DType::kF32, DType::kF64}) {
    for (int64_t m : {1, 17, 512, 8192}) {
      for (int64_t n : {1, 100, 4096}) {
        for (int64_t k : {0, 1, 64, 5000}) {
          const Selection selection =
              Select(DenseProblem(dtype, m, n, k), H200(), Families(), {}, TuningTable{});
          EXPECT_NE(selection.kernel.family, Families().back()) << m << " " << n << " " << k;
        }
      }
    }
  }
}

// As the lanes of a device do: its Selector and the families are one for all.
TEST(Selector, ServesManyThreadsAtOnce) {
  const Selector selector(H200(), Families());
  const std::vector<BenchShape> shapes = GoldenShapes();
  const auto choose = [&](std::vector<std::string_view>* names) {
    for (const BenchShape& shape : shapes) {
      names->push_back(selector.Select(BenchProblem(shape, DType::kF32)).kernel.get().name);
    }
  };
  std::vector<std::string_view> alone;
  choose(&alone);
  std::vector<std::vector<std::string_view>> together(4);
  std::vector<std::thread> threads;
  threads.reserve(together.size());
  for (std::vector<std::string_view>& names : together) threads.emplace_back(choose, &names);
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<std::string_view>& names : together) EXPECT_EQ(names, alone);
}

}  // namespace
}  // namespace gemm
