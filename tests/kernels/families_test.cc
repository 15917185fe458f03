// The host side of the real families, on machines without a GPU or its driver.

#include "kernels/families/families.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/bench/literal_devices.h"
#include "kernels/bench/shapes.h"
#include "kernels/families/boxed_choice.h"
#include "kernels/families/dense_choice.h"
#include "kernels/families/outer_tiles.h"
#include "kernels/families/simt_family.h"
#include "kernels/families/skinny_cut.h"
#include "kernels/families/sum_order.h"
#include "kernels/registry.h"
#include "kernels/select.h"

namespace gemm {
namespace {

const KernelFamily& Reference() { return *Families().back(); }

// Calls body(family, config) for every configuration of a type.
template <typename Body>
void ForEachKernel(DType dtype, Body body) {
  for (const KernelFamily* family : Families()) {
    for (size_t config = 0; config < family->configs().size(); ++config) {
      if (family->configs()[config].dtype == dtype) body(*family, static_cast<int>(config));
    }
  }
}

TEST(Families, HaveUniqueNamesThatStartWithTheFamily) {
  std::set<std::string_view> kernels;
  std::set<std::string_view> families;
  for (const KernelFamily* family : Families()) {
    EXPECT_TRUE(families.insert(family->name()).second) << family->name();
    for (const KernelConfig& config : family->configs()) {
      EXPECT_TRUE(kernels.insert(config.name).second) << config.name;
      EXPECT_EQ(config.name.substr(0, family->name().size() + 1),
                std::string(family->name()) + "_");
      EXPECT_NE(config.name.find(NameOf(config.dtype)), std::string_view::npos) << config.name;
    }
  }
  EXPECT_EQ(Reference().name(), "reference");
}

TEST(Families, RunEveryCheckedCaseOfTheirTypeAndClassAlone) {
  for (DType dtype : {DType::kF32, DType::kF64}) {
    const DType other = dtype == DType::kF32 ? DType::kF64 : DType::kF32;
    for (const CheckCase& check_case : CheckCases(dtype, CaseSet::kFull)) {
      bool streamed = false;
      ForEachKernel(dtype, [&](const KernelFamily& family, int config) {
        // Sequential kernels run everything, but for matrices with gaps, ragged ones and long sums;
        // the others what is summed in their order.
        const NumericsClass numerics = family.configs()[config].numerics;
        bool runs = MayBeSummed(check_case.problem, numerics);
        if (numerics == NumericsClass::kStreamK) {
          // One of its two tiles.
          runs = runs && family.WhyNot(check_case.problem, H200(), config).empty();
          streamed = streamed || runs;
        }
        if (&family == &DenseFamily()) runs = WhyNotDense(check_case.problem, 132).empty();
        if (&family == &BoxedFamily()) runs = WhyNotBoxed(check_case.problem).empty();
        // Long tiles take an A that is transposed on its way, of any alignment, and a B by boxes.
        const std::string_view name = family.configs()[config].name;
        if (name.find("_32x128x64_") != std::string_view::npos) {
          Problem p = check_case.problem;
          if (IsTurned(p)) {
            std::swap(p.a, p.b);
            p.a.transposed = !p.a.transposed;
            p.b.transposed = !p.b.transposed;
          }
          runs = runs && ReadsAB(p) && !p.a.transposed && !p.b.transposed &&
                 p.b.alignment_bytes % 16 == 0 && p.b.ld % 4 == 0 &&
                 (p.batch_count == 1 || p.b.batch_stride % 4 == 0);
        }
        if (name == "skinny_f32_sm90_clusters") {
          runs = runs && std::min(check_case.problem.m, check_case.problem.n) > 1;
        }
        if (name == "skinny_f32_sequential") {
          runs = std::min(check_case.problem.m, check_case.problem.n) == 1;
        }
        if (&family == &OuterFamily()) {
          runs = check_case.problem.k <= kOuterDepth || !ReadsAB(check_case.problem);
        }
        EXPECT_EQ(family.WhyNot(check_case.problem, H200(), config).empty(), runs)
            << family.configs()[config].name << ": " << check_case.name;
        if (!runs) return;
        const double seconds = family.ModelSeconds(check_case.problem, H200(), config);
        EXPECT_GT(seconds, 0) << family.configs()[config].name << ": " << check_case.name;
        EXPECT_LT(seconds, 10) << family.configs()[config].name << ": " << check_case.name;
      });
      EXPECT_EQ(streamed, MayBeSummed(check_case.problem, NumericsClass::kStreamK))
          << check_case.name;
    }
    ForEachKernel(other, [&](const KernelFamily& family, int config) {
      EXPECT_NE(family.WhyNot(DenseProblem(dtype, 8, 8, 8), H200(), config), "");
    });
  }
}

TEST(Families, ReferenceTakesWhatOthersCannot) {
  // 2^45 columns are more blocks than a grid has in any direction.
  const Problem wide = DenseProblem(DType::kF32, 1, int64_t{1} << 45, 1);
  ASSERT_FALSE(Validate(wide));
  ForEachKernel(DType::kF32, [&](const KernelFamily& family, int config) {
    EXPECT_EQ(family.WhyNot(wide, H200(), config).empty(), &family == &Reference())
        << family.name();
  });
  EXPECT_EQ(Select(wide, H200(), Families()).reason, "only one");
}

TEST(Families, PlanLaunchesForEachProblemThatIsNotEmpty) {
  const std::vector<Problem> all = {
      DenseProblem(DType::kF32, 3, 5, 7), DenseProblem(DType::kF32, 0, 5, 7),
      DenseProblem(DType::kF32, 3, 5, 7, 0), DenseProblem(DType::kF32, 300, 500, 0, 4)};
  const std::vector<Operands> operands(all.size());
  ForEachKernel(DType::kF32, [&](const KernelFamily& family, int config) {
    std::vector<Problem> problems = all;
    if (!family.WhyNot(all.back(), H200(), config).empty()) problems.pop_back();
    const Plan plan = family.MakePlan(problems, H200(), config);
    EXPECT_EQ(plan.config, config);
    EXPECT_GE(plan.launches, family.Groups(config) ? 1 : static_cast<int>(problems.size()) - 2);
    EXPECT_GT(plan.args_bytes, 0u);
    EXPECT_LE(plan.device_args_bytes, plan.args_bytes);
    // Encode stays inside what it asked for.
    std::vector<unsigned char> args(plan.args_bytes + 1, 0xa5);
    family.Encode(plan, problems, operands, args.data());
    EXPECT_EQ(args.back(), 0xa5);
  });
  const Plan nothing = Reference().MakePlan({}, H200(), 0);
  EXPECT_EQ(nothing.launches, 0);
  EXPECT_EQ(nothing.args_bytes, 0u);
}

// A group's launches hold kMostGrouped problems each, whatever lies between them.
TEST(Families, PlanOneLaunchForAGroup) {
  for (const size_t count : {1, 2, kMostGrouped, kMostGrouped + 1, 3 * kMostGrouped}) {
    std::vector<Problem> problems;
    for (size_t i = 0; i < count; ++i) {
      const auto size = static_cast<int64_t>(1 + i % 70);
      problems.push_back(DenseProblem(DType::kF32, size, 71 - size, 3 + size, 1 + size % 3));
      problems.push_back(DenseProblem(DType::kF32, 0, 5, 7));
    }
    const std::vector<Operands> operands(problems.size());
    int grouping = 0;
    ForEachKernel(DType::kF32, [&](const KernelFamily& family, int config) {
      if (!family.Groups(config) || !family.WhyNot(problems[0], H200(), config).empty()) return;
      ++grouping;
      const Plan plan = family.MakePlan(problems, H200(), config);
      EXPECT_EQ(plan.launches, (count + kMostGrouped - 1) / kMostGrouped);
      EXPECT_EQ(plan.workspace_bytes, 0u);
      EXPECT_EQ(plan.device_args_bytes == 0, count == 1);
      std::vector<unsigned char> args(plan.args_bytes + 1, 0xa5);
      family.Encode(plan, problems, operands, args.data());
      EXPECT_EQ(args.back(), 0xa5);
    });
    EXPECT_GT(grouping, 0);
  }
}

// Chunks cost workspace; large batches go in rounds instead of growing it.
TEST(Families, KeepChunkSumsWithinARound) {
  Problem one = DenseProblem(DType::kF32, 64, 64, 16320);
  for (MatrixLayout* layout : {&one.a, &one.b, &one.d}) layout->alignment_bytes = 256;
  Problem many = one;
  many.batch_count = 1000;
  int with_chunks = 0;
  ForEachKernel(DType::kF32, [&](const KernelFamily& family, int config) {
    if (!family.WhyNot(one, H200(), config).empty()) return;
    const Plan plan = family.MakePlan({&one, 1}, H200(), config);
    if (family.configs()[config].numerics == NumericsClass::kSequential) {
      // At most A, packed.
      EXPECT_LE(plan.workspace_bytes, size_t{64} * 16320 * 4) << family.configs()[config].name;
      return;
    }
    ++with_chunks;
    EXPECT_EQ(plan.launches, 2);
    const int64_t chunks = ChunkCount(family.configs()[config].numerics, one);
    const int64_t round = (int64_t{16} << 20) / (chunks * 64 * 64);
    EXPECT_EQ(plan.workspace_bytes, static_cast<size_t>(chunks * 64 * 64 * 4));
    const Plan batch = family.MakePlan({&many, 1}, H200(), config);
    EXPECT_EQ(batch.launches, 2 * ((1000 + round - 1) / round));
    EXPECT_EQ(batch.workspace_bytes, static_cast<size_t>(round * chunks * 64 * 64 * 4));
  });
  EXPECT_GT(with_chunks, 0);
}

TEST(Families, NeedHopperWhereTheyAreBuiltForIt) {
  DeviceInfo ampere = H200();
  ampere.compute_capability = 80;
  const std::vector<CheckCase> cases = CheckCases(DType::kF32, CaseSet::kFull);
  ForEachKernel(DType::kF32, [&](const KernelFamily& family, int config) {
    const std::string_view name = family.configs()[config].name;
    if (name.find("_sm90") == std::string_view::npos) return;
    int runs = 0;
    for (const CheckCase& check_case : cases) {
      if (!family.WhyNot(check_case.problem, H200(), config).empty()) continue;
      ++runs;
      EXPECT_EQ(family.WhyNot(check_case.problem, ampere, config),
                "needs a device of compute capability 9.0")
          << name << ": " << check_case.name;
    }
    EXPECT_GT(runs, 0) << name;
  });
}

// However many matrices, they need no more than a bounded workspace, and none where the batch alone
// fills the device.
TEST(Families, SumLanesWithinABoundedWorkspace) {
  const auto workspace = [](int64_t m, int64_t n, int64_t k, int64_t batch_count) {
    Problem problem = DenseProblem(DType::kF32, m, n, k, batch_count);
    problem.a.alignment_bytes = problem.b.alignment_bytes = 256;
    size_t most = 0;
    for (const int capability : {80, 90}) {
      DeviceInfo device = H200();
      device.compute_capability = capability;
      int kernels = 0;
      ForEachKernel(DType::kF32, [&](const KernelFamily& family, int config) {
        if (family.configs()[config].numerics != NumericsClass::kChunkedLanes) return;
        if (capability == 80 && family.configs()[config].name != "skinny_f32_lanes") return;
        const bool line = std::min(m, n) == 1;
        if (line && family.configs()[config].name != "skinny_f32_lanes") return;
        EXPECT_EQ(family.WhyNot(problem, device, config), "");
        const Plan plan = family.MakePlan({&problem, 1}, device, config);
        EXPECT_EQ(plan.launches, plan.workspace_bytes > 0 ? 2 : 1);
        most = std::max(most, plan.workspace_bytes);
        ++kernels;
      });
      EXPECT_EQ(kernels, capability == 80 || std::min(m, n) == 1 ? 1 : 2);
    }
    return most;
  };
  EXPECT_EQ(workspace(8, 1024, 4096, 1), size_t{4} * 8 * 1024 * 4);
  EXPECT_EQ(workspace(8, 4096, 4096, 1), 0u);
  EXPECT_EQ(workspace(8, 4096, 4096, 17), 0u);
  EXPECT_GT(workspace(1, 1, 500000, 1000), 0u);
  EXPECT_EQ(workspace(1, 1, 16000, 1), 0u);
  for (int64_t batch_count : {1, 10, 100, 1000, 100000}) {
    EXPECT_LE(workspace(40, 64, 500000, batch_count), size_t{64} << 20) << batch_count;
  }
}

// One row or column comes from registers, so that it needs no room for a ring; more do, and say so.
TEST(Families, SumRowsWithoutSharedMemory) {
  DeviceInfo little = Portable(H200());
  little.shared_bytes_per_block = size_t{99} << 10;
  const auto why_not = [&](int64_t m, int64_t n, int32_t alignment_bytes) {
    Problem problem = DenseProblem(DType::kF32, m, n, 5001);
    problem.a.alignment_bytes = problem.b.alignment_bytes = alignment_bytes;
    std::string found = "no such kernel";
    ForEachKernel(DType::kF32, [&](const KernelFamily& family, int config) {
      if (family.configs()[config].name == "skinny_f32_lanes") {
        found = family.WhyNot(problem, little, config);
      }
    });
    return found;
  };
  for (const int32_t alignment_bytes : {4, 256}) {
    EXPECT_EQ(why_not(1, 1, alignment_bytes), "");
    EXPECT_EQ(why_not(1, 4096, alignment_bytes), "");
    EXPECT_EQ(why_not(4096, 1, alignment_bytes), "");
    EXPECT_NE(why_not(4, 4096, alignment_bytes).find("bytes of shared memory"), std::string::npos);
  }
}

// A narrow operand whose rows are not aligned is copied to where they are, for boxes. Operands may
// lie better than the problem says, so there is room wherever they might be.
// Blocks that stay count strips in 32 bits, a step beyond the last.
TEST(Families, RefuseMoreSingleRowsThanTheyCanCount) {
  int kernels = 0;
  ForEachKernel(DType::kF32, [&](const KernelFamily& family, int config) {
    const std::string_view name = family.configs()[config].name;
    const bool sequential = name == "skinny_f32_sequential";
    if (!sequential && name != "skinny_f32_lanes") return;
    ++kernels;
    Problem problem = DenseProblem(DType::kF32, 1, 4, sequential ? 8 : 4096);
    problem.a.batch_stride = problem.b.batch_stride = 0;
    for (const int64_t count : {(int64_t{1} << 30), (int64_t{1} << 31) - 1}) {
      problem.batch_count = count;
      ASSERT_FALSE(Validate(problem)) << count;
      const std::string why = family.WhyNot(problem, H200(), config);
      EXPECT_EQ(why.find("strips in all") != std::string::npos, count > (int64_t{1} << 30)) << why;
    }
  });
  EXPECT_EQ(kernels, 2);
}

TEST(Families, KeepRoomToPackANarrowOperand) {
  const auto plan = [](Problem problem, int32_t alignment_bytes) {
    problem.a.alignment_bytes = problem.b.alignment_bytes = alignment_bytes;
    Plan found;
    ForEachKernel(DType::kF32, [&](const KernelFamily& family, int config) {
      if (family.configs()[config].name == "skinny_f32_lanes") {
        found = family.MakePlan({&problem, 1}, H200(), config);
      }
    });
    return found;
  };
  const Problem even = DenseProblem(DType::kF32, 32, 1760, 1760);
  EXPECT_EQ(plan(even, 256).launches, 1);
  EXPECT_EQ(plan(even, 256).workspace_bytes, 0u);
  const Problem odd = DenseProblem(DType::kF32, 31, 4096, 4097);
  EXPECT_EQ(plan(odd, 256).launches, 3);
  // Not where it takes as long to pack it as to copy its elements from where they are.
  EXPECT_EQ(plan(DenseProblem(DType::kF32, 31, 2001, 601), 256).launches, 1);
  EXPECT_EQ(plan(DenseProblem(DType::kF32, 12, 4097, 4097), 256).launches, 1);
  Problem batch = DenseProblem(DType::kF32, 1760, 31, 1760, 4);
  EXPECT_EQ(plan(batch, 256).workspace_bytes, size_t{4} * 1760 * 32 * 4);
  batch.b.batch_stride = 0;
  EXPECT_EQ(plan(batch, 256).workspace_bytes, size_t{4} * 1760 * 32);
  // By copies from where it is, as far as one knows.
  const Problem few = DenseProblem(DType::kF32, 8, 8192, 260);
  EXPECT_EQ(plan(few, 4).launches, 1);
  EXPECT_EQ(plan(few, 4).workspace_bytes, size_t{4} * 8 * 260);
}

// Strips of ragged matrices are shared out among persistent blocks where they fill the device, and
// no plan depends on where operands begin, which it does not know.
TEST(Families, ShareOutTheStripsOfRaggedBatches) {
  const auto shares = [](const Problem& problem, bool boxes = true) {
    std::set<bool> found;
    for (const int bases : {0, 1, 2, 3}) {
      const SkinnyCut cut = CutSkinny(problem, false, boxes, bases % 2 != 0, bases / 2 != 0);
      found.insert(cut.kind == SkinnyKind::kBatch);
    }
    EXPECT_EQ(found.size(), 1u);
    return *found.begin();
  };
  const Problem ragged = DenseProblem(DType::kF32, 1023, 29, 845, 30);
  EXPECT_TRUE(shares(ragged));
  EXPECT_TRUE(shares(DenseProblem(DType::kF32, 12, 787, 709, 55)));
  EXPECT_FALSE(shares(ragged, false));
  // Too few strips, one product, too many rows, or so few that copies are faster.
  EXPECT_FALSE(shares(DenseProblem(DType::kF32, 1023, 29, 845, 8)));
  EXPECT_FALSE(shares(DenseProblem(DType::kF32, 9001, 29, 845, 1)));
  EXPECT_FALSE(shares(DenseProblem(DType::kF32, 1023, 33, 845, 30)));
  EXPECT_FALSE(shares(DenseProblem(DType::kF32, 1023, 4, 845, 30)));
  // Aligned rows, with k contiguous or not.
  EXPECT_FALSE(shares(DenseProblem(DType::kF32, 1024, 32, 1024, 30)));
  EXPECT_TRUE(shares(DenseProblem(DType::kF32, 12, 788, 708, 55)));
  EXPECT_FALSE(shares(DenseProblem(DType::kF32, 12, 788, 260, 55)));
  // Nothing to sum.
  Problem scaled = ragged;
  scaled.alpha = 0;
  EXPECT_FALSE(shares(scaled));
}

TEST(StridedGemm, TurnsTransposesIntoStrides) {
  Problem problem = DenseProblem(DType::kF32, 3, 5, 7, 2);
  problem.a.transposed = true;
  problem.a.ld = 4;
  problem.alpha = 2;
  const StridedGemm<float> p = MakeStridedGemm<float>(problem, {});
  EXPECT_EQ(p.a_row, 1);
  EXPECT_EQ(p.a_column, 4);
  EXPECT_EQ(p.b_row, 5);
  EXPECT_EQ(p.b_column, 1);
  EXPECT_EQ(p.k, 7);
  EXPECT_EQ(p.alpha, 2);
}

TEST(StridedGemm, UnreadOperandsLeaveAnEmptySum) {
  Problem problem = DenseProblem(DType::kF32, 3, 5, 7);
  problem.alpha = 0;
  EXPECT_EQ(MakeStridedGemm<float>(problem, {}).k, 0);
  problem = DenseProblem(DType::kF32, 3, 5, 0);
  problem.alpha = std::numeric_limits<double>::infinity();
  EXPECT_EQ(MakeStridedGemm<float>(problem, {}).alpha, 0);  // not infinity times the empty sum
}

}  // namespace
}  // namespace gemm
