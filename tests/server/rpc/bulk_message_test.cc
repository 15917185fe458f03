#include "proto/bulk_message.h"

#include <gtest/gtest.h>

#include "tests/server/rpc/request_bytes.h"

namespace gemm {
namespace {

std::string ReadPayload(const std::vector<Segment>& message, PayloadRange range) {
  std::string bytes(range.size_bytes, '?');
  PayloadReader(message).Copy(range, bytes.data());
  return bytes;
}

TEST(BulkMessageTest, SplitsWhatProtobufWroteHoweverItIsCut) {
  v1::MultiplyRequest request = MakeRequest(3, 5, 7);
  request.set_request_id("abc");
  request.add_payloads("");
  const std::string wire = request.SerializeAsString();
  for (size_t cut : {size_t{1}, size_t{2}, size_t{3}, size_t{7}, size_t{64}, wire.size()}) {
    const std::vector<Segment> message = Cut(wire, cut);
    const auto index = IndexBulkMessage(message, {});
    ASSERT_TRUE(index.ok()) << index.status();
    ASSERT_EQ(index->payloads.size(), 3u);
    EXPECT_EQ(ReadPayload(message, index->payloads[0]), request.payloads(0));
    EXPECT_EQ(ReadPayload(message, index->payloads[1]), request.payloads(1));
    EXPECT_EQ(index->payloads[2].size_bytes, 0u);
    v1::MultiplyRequest rest;
    ASSERT_TRUE(rest.ParseFromString(index->description));
    EXPECT_EQ(rest.request_id(), "abc");
    EXPECT_EQ(rest.product().SerializeAsString(), request.product().SerializeAsString());
  }
}

TEST(BulkMessageTest, OneReaderReadsPayloadsInAnyOrder) {
  v1::MultiplyRequest request = MakeRequest(3, 5, 7);
  request.add_payloads("");
  request.add_payloads("the last one");
  const std::string wire = request.SerializeAsString();
  for (size_t cut : {size_t{1}, size_t{5}, size_t{64}, wire.size()}) {
    const std::vector<Segment> message = Cut(wire, cut);
    const auto index = IndexBulkMessage(message, {});
    ASSERT_TRUE(index.ok()) << index.status();
    PayloadReader reader(message);
    for (int i : {0, 1, 2, 3, 3, 1, 0, 2, 0, 3, 2, 1, 1}) {
      std::string bytes(index->payloads[i].size_bytes, '?');
      reader.Copy(index->payloads[i], bytes.data());
      EXPECT_EQ(bytes, request.payloads(i)) << i << " cut at " << cut;
    }
  }
}

TEST(BulkMessageTest, ReadsLargePayloadsAndPartsOfThem) {
  v1::MultiplyRequest request;
  std::string& large = *request.add_payloads();
  for (int i = 0; large.size() < (3 << 20); ++i) large += std::to_string(i);
  const std::string wire = request.SerializeAsString();
  for (const size_t cut : {size_t{8191}, size_t{65536}, wire.size()}) {
    const std::vector<Segment> message = Cut(wire, cut);
    const auto index = IndexBulkMessage(message, {});
    ASSERT_TRUE(index.ok()) << index.status();
    const PayloadRange whole = index->payloads[0];
    EXPECT_TRUE(ReadPayload(message, whole) == large) << "cut at " << cut;
    const PayloadRange part = {whole.offset_bytes + 12345, 2 << 20};
    EXPECT_TRUE(ReadPayload(message, part) == large.substr(12345, 2 << 20)) << "cut at " << cut;
  }
}

TEST(BulkMessageTest, TakesFieldsInAnyOrder) {
  v1::MultiplyRequest payloads, rest = MakeRequest(2, 2, 2);
  payloads.mutable_payloads()->Swap(rest.mutable_payloads());
  const std::string wire = payloads.SerializeAsString() + rest.SerializeAsString();
  const std::vector<Segment> message = Cut(wire, wire.size());
  const auto index = IndexBulkMessage(message, {});
  ASSERT_TRUE(index.ok());
  EXPECT_EQ(index->description, rest.SerializeAsString());
  EXPECT_EQ(ReadPayload(message, index->payloads[1]), payloads.payloads(1));
}

TEST(BulkMessageTest, WritesWhatProtobufReads) {
  v1::MultiplyReply reply;
  reply.mutable_report()->set_kernel("k");
  const std::string payload(300, 'x');
  const std::string wire = reply.SerializeAsString() + PayloadHeader(payload.size()) + payload;
  v1::MultiplyReply parsed;
  ASSERT_TRUE(parsed.ParseFromString(wire));
  EXPECT_EQ(parsed.payloads(0), payload);
  EXPECT_EQ(parsed.report().kernel(), "k");
}

TEST(BulkMessageTest, KeepsFieldsItDoesNotKnow) {
  // field 500: varint, fixed32, fixed64 and a string, as a newer client might send them
  const std::string wire(
      "\xa0\x1f\x96\x01\xa5\x1f\x01\x02\x03\x04\xa1\x1f\x01\x02\x03\x04\x05\x06\x07"
      "\x08\xa2\x1f\x02hi",
      2 + 2 + 2 + 4 + 2 + 8 + 2 + 3);
  const auto index = IndexBulkMessage(Cut(wire, 3), {});
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->description, wire);
}

TEST(BulkMessageTest, RefusesWhatIsNotAMessage) {
  const std::string wires[] = {
      std::string("\x00\x01", 2),      // field 0
      std::string("\x80", 1),          // tag cut short
      std::string("\x08", 1),          // value missing
      std::string("\x0d\x01\x02", 3),  // fixed32 cut short
      std::string("\x09\x01\x02", 3),  // fixed64 cut short
      std::string("\x0a\x05"
                  "abc",
                  5),                                                       // string cut short
      std::string("\x0b\x0c", 2),                                           // group
      std::string("\x0f", 1),                                               // wire type 7
      std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11),      // tag beyond 64 bits
      std::string("\x80\x80\x80\x80\x80\x01\x00", 7),                       // tag beyond 32 bits
      std::string("\xc2\x3e\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12),  // payload of 2^64 - 1
  };
  for (const std::string& wire : wires) {
    for (size_t cut : {size_t{1}, wire.size()}) {
      EXPECT_EQ(IndexBulkMessage(Cut(wire, cut), {}).status().code(),
                absl::StatusCode::kInvalidArgument)
          << testing::PrintToString(wire);
    }
  }
}

TEST(BulkMessageTest, BoundsWhatProtobufWillParse) {
  v1::MultiplyRequest request;
  request.set_request_id(std::string(1000, 'r'));
  const std::string wire = request.SerializeAsString();
  EXPECT_TRUE(IndexBulkMessage(Cut(wire, 100), {.description_bytes = 2000}).ok());
  EXPECT_FALSE(IndexBulkMessage(Cut(wire, 100), {.description_bytes = 500}).ok());
  v1::MultiplyRequest many;
  for (int i = 0; i < 10; ++i) many.add_payloads("");
  EXPECT_FALSE(IndexBulkMessage(Cut(many.SerializeAsString(), 100), {.payloads = 9}).ok());
}

}  // namespace
}  // namespace gemm
