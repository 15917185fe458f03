// What Select takes on an H200, type by type and shape by shape, against a file: a change of what
// users run shows in its diff. Where a change is meant, take the text that the test prints, or
//
//   gemm_bench --mode=explain --shapes=golden > tests/kernels/golden_choices.txt

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "kernels/bench/choices.h"
#include "kernels/bench/literal_devices.h"
#include "kernels/registry.h"

namespace gemm {
namespace {

TEST(GoldenChoices, AreThoseOfTheFile) {
  std::ifstream file(GEMMD_GOLDEN_CHOICES);
  ASSERT_TRUE(file) << GEMMD_GOLDEN_CHOICES;
  std::stringstream golden;
  golden << file.rdbuf();
  const DType dtypes[] = {DType::kF32, DType::kF64};
  const std::string now =
      ChoicesText(dtypes, GoldenShapes(), H200(), Families(), TuningFor(H200()));
  EXPECT_TRUE(now == golden.str()) << "the choices are now\n" << now;
}

TEST(Explanation, NamesTheChoiceAndWhyOthersCannot) {
  const std::string text =
      ExplanationText(BenchProblem({64, 64, 64}, DType::kF32), H200(), Families(), TuningTable{});
  EXPECT_NE(text.find("modelled"), std::string::npos);
  EXPECT_NE(text.find("reference_f32"), std::string::npos);
  EXPECT_NE(text.find("computes f64, not f32"), std::string::npos);
}

}  // namespace
}  // namespace gemm
