// The checkers are checked: right results pass, and each kind of wrong one, computed here on the
// host, is caught.

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/bench/shapes.h"
#include "kernels/bench/verdict.h"

namespace gemm {
namespace {

template <typename T>
class CheckersTest : public ::testing::Test {
 protected:
  static constexpr DType kDType = std::is_same_v<T, float> ? DType::kF32 : DType::kF64;

  // A padded batch: rows, matrices and the ends of the buffer all have something behind them.
  void Make(Fill fill) {
    Problem problem = DenseProblem(kDType, 13, 17, 300, 2);
    problem.d.ld = 19;
    problem.d.batch_stride = int64_t{19} * 14;
    problem.c = problem.d;
    problem.beta = 1;
    check_case_ = {"case", problem, fill};
    data_ = MakeCaseData<T>(check_case_, 42);
    expected_ = ExpectedResult<T>(problem, data_);
    result_ = Placed(SequentialResult<T>(problem, data_));
  }

  // D's buffer with a packed result in its place.
  HostOperand<T> Placed(const std::vector<T>& packed) {
    const Problem& p = check_case_.problem;
    HostOperand<T> d = data_.d;
    size_t next = 0;
    for (int64_t q = 0; q < p.batch_count; ++q) {
      for (int64_t i = 0; i < p.m; ++i) {
        for (int64_t j = 0; j < p.n; ++j) {
          d.data()[q * p.d.batch_stride + i * p.d.ld + j] = packed[next++];
        }
      }
    }
    return d;
  }

  // What a kernel gives that leaves out the products of [from, to).
  HostOperand<T> WithoutSlab(int64_t from, int64_t to) {
    const Problem& p = check_case_.problem;
    CaseData<T> data = data_;
    for (int64_t q = 0; q < p.batch_count; ++q) {
      for (int64_t i = 0; i < p.m; ++i) {
        for (int64_t l = from; l < to; ++l) {
          data.a.data()[q * p.a.batch_stride + i * p.a.ld + l] = 0;
        }
      }
    }
    return Placed(SequentialResult<T>(p, data));
  }

  T& Element(HostOperand<T>& d, int64_t q, int64_t i, int64_t j) {
    return d.data()[q * check_case_.problem.d.batch_stride + i * check_case_.problem.d.ld + j];
  }

  bool Exact(const HostOperand<T>& d) {
    return CheckExact<T>(check_case_.problem, expected_, d).ok;
  }
  bool Bounded(const HostOperand<T>& d) {
    return CheckBounded<T>(check_case_.problem, expected_, d).ok;
  }

  CheckCase check_case_;
  CaseData<T> data_;
  Expected<T> expected_;
  HostOperand<T> result_;
};

using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(CheckersTest, Types);

TYPED_TEST(CheckersTest, RightResultsPass) {
  this->Make(Fill::kIntegers);
  EXPECT_TRUE(this->Exact(this->result_));
  this->Make(Fill::kReals);
  const Verdict verdict =
      CheckBounded<TypeParam>(this->check_case_.problem, this->expected_, this->result_);
  EXPECT_TRUE(verdict.ok) << verdict.fault;
  EXPECT_GT(verdict.worst_ratio, 0.01);  // a bound that is never neared proves nothing
  EXPECT_LT(verdict.worst_ratio, 1);
  EXPECT_TRUE(CheckCanaries<TypeParam>(this->check_case_.problem, this->data_.d, this->result_).ok);
  EXPECT_TRUE(CheckSameBits<TypeParam>(this->check_case_.problem, this->result_, this->result_).ok);
}

TYPED_TEST(CheckersTest, ADroppedSlabIsCaught) {
  this->Make(Fill::kIntegers);
  EXPECT_FALSE(this->Exact(this->WithoutSlab(128, 136)));
  this->Make(Fill::kReals);
  EXPECT_FALSE(this->Bounded(this->WithoutSlab(128, 136)));
}

TYPED_TEST(CheckersTest, ADroppedTailIsCaught) {
  this->Make(Fill::kIntegers);
  EXPECT_FALSE(this->Exact(this->WithoutSlab(299, 300)));
  this->Make(Fill::kReals);
  EXPECT_FALSE(this->Bounded(this->WithoutSlab(299, 300)));
}

TYPED_TEST(CheckersTest, AnUnwrittenRowIsCaught) {
  for (Fill fill : {Fill::kIntegers, Fill::kReals}) {
    this->Make(fill);
    HostOperand<TypeParam> d = this->result_;
    for (int64_t j = 0; j < 17; ++j) this->Element(d, 1, 12, j) = Canary<TypeParam>();
    EXPECT_FALSE(this->Exact(d));
    EXPECT_FALSE(this->Bounded(d));
  }
}

TYPED_TEST(CheckersTest, OneWrongElementIsCaughtAndNamed) {
  this->Make(Fill::kIntegers);
  HostOperand<TypeParam> d = this->result_;
  this->Element(d, 1, 3, 4) += 1;
  const Verdict verdict = CheckExact<TypeParam>(this->check_case_.problem, this->expected_, d);
  EXPECT_FALSE(verdict.ok);
  EXPECT_NE(verdict.fault.find("D[1][3, 4]"), std::string::npos) << verdict.fault;
  EXPECT_NE(verdict.fault.find("(1 wrong)"), std::string::npos) << verdict.fault;
}

TYPED_TEST(CheckersTest, ReducedPrecisionIsCaught) {
  this->Make(Fill::kReals);
  HostOperand<TypeParam> d = this->result_;
  for (TypeParam& value : d.buffer) value *= 1 + 512 * std::numeric_limits<TypeParam>::epsilon();
  EXPECT_FALSE(this->Bounded(d));
}

TYPED_TEST(CheckersTest, AWriteOutsideIsCaught) {
  this->Make(Fill::kIntegers);
  const auto ok = [&](const HostOperand<TypeParam>& d) {
    return CheckCanaries<TypeParam>(this->check_case_.problem, this->data_.d, d).ok;
  };
  HostOperand<TypeParam> d = this->result_;
  this->Element(d, 0, 5, 17) = 0;  // one past a row
  EXPECT_FALSE(ok(d));
  d = this->result_;
  d.buffer.front() = 0;
  EXPECT_FALSE(ok(d));
  d = this->result_;
  d.buffer.back() = 0;
  EXPECT_FALSE(ok(d));
}

TYPED_TEST(CheckersTest, ADifferentLastBitIsCaught) {
  this->Make(Fill::kReals);
  HostOperand<TypeParam> d = this->result_;
  this->Element(d, 0, 0, 0) = std::nextafter(this->Element(d, 0, 0, 0), TypeParam{1000});
  EXPECT_FALSE(CheckSameBits<TypeParam>(this->check_case_.problem, this->result_, d).ok);
  EXPECT_TRUE(this->Bounded(d));
}

TYPED_TEST(CheckersTest, NanMustBeWhereItBelongs) {
  this->Make(Fill::kNonFinite);
  EXPECT_TRUE(this->Exact(this->result_));
  bool any = false;
  for (size_t i = 0; i < this->expected_.value.size(); ++i) {
    any = any || std::isnan(this->expected_.value[i]);
  }
  EXPECT_TRUE(any);
  HostOperand<TypeParam> d = this->result_;
  for (TypeParam& value : d.buffer) {
    if (std::isnan(value)) value = 0;
  }
  EXPECT_FALSE(this->Exact(d));
}

TYPED_TEST(CheckersTest, OperandsThatAreNotReadAreNan) {
  this->Make(Fill::kReals);
  CheckCase check_case = this->check_case_;
  check_case.problem.alpha = 0;
  check_case.problem.beta = 0;
  const CaseData<TypeParam> data = MakeCaseData<TypeParam>(check_case, 1);
  for (const auto* operand : {&data.a, &data.b, &data.c}) {
    for (TypeParam value : operand->buffer) ASSERT_TRUE(std::isnan(value));
  }
  for (WideOf<TypeParam> value : ExpectedResult<TypeParam>(check_case.problem, data).value) {
    ASSERT_EQ(value, 0);
  }
}

}  // namespace
}  // namespace gemm
