#include "server/rpc/reply.h"

#include <gmock/gmock.h>
#include <grpcpp/support/slice.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "gemm/v1/gemm.pb.h"
#include "server/reason.h"

namespace gemm {
namespace {

// A job whose product i has `sizes[i]` bytes of the value i + 1 for a result.
class ReplyTest : public testing::Test {
 protected:
  Job MakeJob(const std::vector<size_t>& sizes) {
    Job job;
    size_t offset_bytes = 0;
    for (const size_t bytes : sizes) {
      JobProduct& product = job.products.emplace_back();
      product.output_offset_bytes = offset_bytes;
      product.output_bytes = bytes;
      product.report.kernel = "cblas_f32";
      product.report.device = "cpu";
      product.report.compute = absl::Nanoseconds(10 * job.products.size());
      offset_bytes += AlignedSize(bytes);
    }
    job.output = *pool_->Allocate(offset_bytes);
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] == 0) continue;
      std::memset(job.output.data() + job.products[i].output_offset_bytes, static_cast<int>(i + 1),
                  sizes[i]);
    }
    job.batch_problems = 9;
    job.queue = absl::Nanoseconds(40);
    return job;
  }

  template <typename Reply>
  static Reply Parse(grpc::ByteBuffer& buffer) {
    std::vector<grpc::Slice> slices;
    EXPECT_TRUE(buffer.Dump(&slices).ok());
    std::string wire;
    for (const grpc::Slice& slice : slices) {
      wire.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
    Reply reply;
    EXPECT_TRUE(reply.ParseFromString(wire));
    return reply;
  }

  PageableMemory memory_;
  std::shared_ptr<HostPool> pool_ = HostPool::Create(memory_, 64 << 20);
  const CallTimes times_ = {absl::Nanoseconds(1), absl::Nanoseconds(2), absl::Nanoseconds(3)};
};

TEST_F(ReplyTest, OneProduct) {
  for (const size_t bytes : {size_t{0}, size_t{4}, size_t{4096}, size_t{4100}, size_t{1} << 20}) {
    Job job = MakeJob({bytes});
    auto buffer = MakeMultiplyReply(job, times_);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    const auto reply = Parse<v1::MultiplyReply>(*buffer);
    ASSERT_EQ(reply.payloads_size(), 1);
    EXPECT_EQ(reply.payloads(0), std::string(bytes, '\1'));
    EXPECT_EQ(reply.report().kernel(), "cblas_f32");
    EXPECT_EQ(reply.report().device(), "cpu");
    EXPECT_EQ(reply.report().batch_problems(), 9u);
    EXPECT_EQ(reply.report().admit_ns(), 1u);
    EXPECT_EQ(reply.report().decode_ns(), 3u);
    EXPECT_EQ(reply.report().queue_ns(), 40u);
    EXPECT_EQ(reply.report().compute_ns(), 10u);
  }
}

TEST_F(ReplyTest, AFailedProductFailsItsCall) {
  Job job = MakeJob({64});
  job.products[0].status = ErrorWithReason(Reason::kMemoryFull, "no room");
  EXPECT_EQ(ReasonOf(MakeMultiplyReply(job, times_).status()), Reason::kMemoryFull);
}

TEST_F(ReplyTest, ManyProductsOfEverySizeAndOneThatFailed) {
  const std::vector<size_t> sizes = {4, 5000, 0, 64, 1 << 20, 4096, 300, 8192, 1};
  Job job = MakeJob(sizes);
  job.products[6].status = ErrorWithReason(Reason::kInvalidRequest, "no", "products[6].m");
  auto buffer = MakeMultiplyBatchReply(job, times_);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  const auto reply = Parse<v1::MultiplyBatchReply>(*buffer);
  ASSERT_EQ(reply.results_size(), 9);
  ASSERT_EQ(reply.payloads_size(), 9);
  for (int i = 0; i < 9; ++i) {
    const bool failed = i == 6;
    EXPECT_EQ(reply.results(i).has_error(), failed);
    EXPECT_EQ(reply.results(i).has_report(), !failed);
    EXPECT_EQ(reply.payloads(i), std::string(failed ? 0 : sizes[i], static_cast<char>(i + 1)));
    EXPECT_EQ(reply.results(i).report().compute_ns(), failed ? 0u : 10u * (i + 1));
  }
  EXPECT_EQ(reply.results(6).error().code(), 3);
  EXPECT_EQ(reply.results(6).error().details_size(), 2);  // ErrorInfo and BadRequest
}

TEST_F(ReplyTest, ResultsThatStayAreDescribedAndNotSent) {
  MatrixState state;
  state.name = "d";
  state.spec = {DType::kF64, int64_t{1} << 40, 3};
  state.rows_written = state.spec.rows;
  state.sealed = true;
  state.time_to_live = absl::Seconds(9);
  state.expires_in = absl::Seconds(8);
  state.memory_bytes = 77;
  state.device = 2;
  Job job = MakeJob({64, 0, 64});
  auto buffer = MakeMultiplyBatchReply(job, times_, {{1, state}});
  ASSERT_TRUE(buffer.ok());
  const auto reply = Parse<v1::MultiplyBatchReply>(*buffer);
  EXPECT_EQ(reply.payloads(1), "");
  EXPECT_EQ(reply.payloads(2), std::string(64, '\3'));
  EXPECT_FALSE(reply.results(0).has_result());
  const v1::Matrix& matrix = reply.results(1).result();
  EXPECT_EQ(matrix.name(), "d");
  EXPECT_EQ(matrix.data_type(), v1::DATA_TYPE_F64);
  EXPECT_EQ(matrix.rows(), int64_t{1} << 40);
  EXPECT_EQ(matrix.columns(), 3);
  EXPECT_EQ(matrix.rows_written(), int64_t{1} << 40);
  EXPECT_TRUE(matrix.sealed());
  EXPECT_EQ(matrix.time_to_live_ns(), 9'000'000'000u);
  EXPECT_EQ(matrix.expires_in_ns(), 8'000'000'000u);
  EXPECT_EQ(matrix.memory_bytes(), 77u);
  EXPECT_EQ(matrix.device_index(), 2);

  Job one = MakeJob({0});
  auto one_buffer = MakeMultiplyReply(one, times_, {{0, state}});
  ASSERT_TRUE(one_buffer.ok());
  const auto one_reply = Parse<v1::MultiplyReply>(*one_buffer);
  EXPECT_EQ(one_reply.result().name(), "d");
  ASSERT_EQ(one_reply.payloads_size(), 1);
  EXPECT_EQ(one_reply.payloads(0), "");
}

TEST_F(ReplyTest, LargeResultsAreNotCopiedAndGoBackToThePool) {
  Job job = MakeJob({1 << 20, 16, 1 << 20});
  const auto* begin = reinterpret_cast<const uint8_t*>(job.output.data());
  const auto* end = begin + job.output.size_bytes();
  {
    auto buffer = MakeMultiplyBatchReply(job, times_);
    ASSERT_TRUE(buffer.ok());
    std::vector<grpc::Slice> slices;
    ASSERT_TRUE(buffer->Dump(&slices).ok());
    EXPECT_EQ(std::count_if(slices.begin(), slices.end(),
                            [&](const grpc::Slice& slice) {
                              return slice.begin() >= begin && slice.end() <= end;
                            }),
              2);
    EXPECT_GT(pool_->used_bytes(), 0u);
  }
  EXPECT_EQ(pool_->used_bytes(), 0u);
}

TEST_F(ReplyTest, SmallResultsAreOneSliceAndHoldNothing) {
  Job job = MakeJob(std::vector<size_t>(100, 64));
  auto buffer = MakeMultiplyBatchReply(job, times_);
  ASSERT_TRUE(buffer.ok());
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(buffer->Dump(&slices).ok());
  EXPECT_EQ(slices.size(), 1u);
  EXPECT_EQ(pool_->used_bytes(), 0u);
}

}  // namespace
}  // namespace gemm
