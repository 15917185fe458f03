#include "server/server.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gemm/v1/gemm.grpc.pb.h"
#include "grpc/health/v1/health.pb.h"
#include "server/engine/cpu_device.h"
#include "server/open_devices.h"
#include "server/rpc/transport.h"
#include "tests/server/engine/puppet_device.h"
#include "tests/server/engine/run_one.h"

namespace gemm {
namespace {

// As main does, before gRPC starts.
[[maybe_unused]] const bool kPolling = (SetPolling(), true);

namespace fs = std::filesystem;
using grpc::health::v1::HealthCheckResponse;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FindNvidiaHardwareTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root_); }
  void TearDown() override { fs::remove_all(root_); }

  void Write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << "\n";
  }
  void AddPci(const std::string& slot, const std::string& vendor, const std::string& device_class) {
    Write("sys/bus/pci/devices/" + slot + "/vendor", vendor);
    Write("sys/bus/pci/devices/" + slot + "/class", device_class);
  }

  const fs::path root_ = fs::path(::testing::TempDir()) /
                         ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(FindNvidiaHardwareTest, NoneOnAnEmptyMachine) {
  EXPECT_THAT(FindNvidiaHardware(root_.string()), IsEmpty());
}

TEST_F(FindNvidiaHardwareTest, FindsDeviceNodesAndTheDriver) {
  Write("dev/nvidiactl", "");
  Write("dev/nvidia0", "");
  Write("dev/null", "");
  Write("sys/module/nvidia/version", "535.104.05");
  EXPECT_THAT(FindNvidiaHardware(root_.string()),
              ElementsAre("/dev/nvidia0", "/dev/nvidiactl", "driver 535.104.05"));
}

TEST_F(FindNvidiaHardwareTest, FindsGpusWithoutADriver) {
  AddPci("0000:1b:00.0", "0x10de", "0x030200");
  EXPECT_THAT(FindNvidiaHardware(root_.string()), ElementsAre("PCI device 0000:1b:00.0"));
}

TEST_F(FindNvidiaHardwareTest, IgnoresOtherVendorsAndOtherKindsOfDevice) {
  AddPci("0000:00:02.0", "0x8086", "0x030000");  // another vendor's GPU
  AddPci("0000:00:0a.0", "0x10de", "0x068000");  // a bridge
  Write("sys/module/nvidia/version", "535.104.05");
  EXPECT_THAT(FindNvidiaHardware(root_.string()), IsEmpty());
}

// A server on the puppet device, which computes on the CPU until told otherwise, and a client.
class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    options_.listen = "127.0.0.1:0";
    options_.metrics_listen = "127.0.0.1:0";
    auto puppet = std::make_unique<PuppetDevice>();
    puppet_ = puppet.get();
    puppet_->on_run = [this](Job& job) { return Compute(job); };
    devices_.push_back(std::move(puppet));
  }

  virtual absl::Status Compute(Job& job) { return RunOne(*cpu_, job); }

  absl::Status Start() {
    auto server = Server::Start(options_, std::move(devices_));
    if (!server.ok()) return server.status();
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel(server_->grpc_address(), grpc::InsecureChannelCredentials());
    return absl::OkStatus();
  }

  // A column of 2 times 3; `result` is the first element.
  grpc::Status Multiply(float* result, int64_t rows = 1) {
    const std::vector<float> a(rows, 2);
    const float b = 3;
    v1::MultiplyRequest request;
    v1::Product& product = *request.mutable_product();
    product.set_m(rows);
    product.set_n(1);
    product.set_k(1);
    product.set_data_type(v1::DATA_TYPE_F32);
    product.mutable_a()->set_payload(0);
    product.mutable_b()->set_payload(1);
    request.add_payloads(a.data(), a.size() * sizeof(float));
    request.add_payloads(&b, sizeof(b));
    v1::MultiplyReply reply;
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
    grpc::Status status = v1::GemmService::NewStub(channel_)->Multiply(&context, request, &reply);
    if (status.ok()) std::memcpy(result, reply.payloads(0).data(), sizeof(*result));
    return status;
  }

  HealthCheckResponse::ServingStatus Health() {
    using HealthCheckRequest = grpc::health::v1::HealthCheckRequest;
    grpc::TemplatedGenericStub<HealthCheckRequest, HealthCheckResponse> stub(channel_);
    grpc::ClientContext context;
    const HealthCheckRequest request;
    HealthCheckResponse response;
    std::promise<grpc::Status> done;
    stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", {}, &request, &response,
                   [&done](grpc::Status status) { done.set_value(std::move(status)); });
    const grpc::Status status = done.get_future().get();
    return status.ok() ? response.status() : HealthCheckResponse::UNKNOWN;
  }

  std::unique_ptr<Device> cpu_ = OpenCpuDevice();
  Options options_;
  PuppetDevice* puppet_ = nullptr;
  std::vector<std::unique_ptr<Device>> devices_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(ServerTest, ServesAndDrains) {
  ASSERT_TRUE(Start().ok());
  EXPECT_EQ(puppet_->runs(), 1);  // the self-test
  EXPECT_THAT(server_->metrics_address(), HasSubstr("127.0.0.1:"));
  EXPECT_EQ(Health(), HealthCheckResponse::SERVING);
  float result = 0;
  EXPECT_TRUE(Multiply(&result).ok());
  EXPECT_EQ(result, 6);
  server_->RequestStop();
  EXPECT_EQ(server_->Run(), Server::End::kDrained);
}

TEST_F(ServerTest, SaysNotServingButServesThroughTheDrainWindow) {
  options_.drain_window = absl::Seconds(2);
  ASSERT_TRUE(Start().ok());
  auto end = std::async(std::launch::async, [this] { return server_->Run(); });
  server_->RequestStop();
  while (Health() == HealthCheckResponse::SERVING) continue;
  EXPECT_EQ(Health(), HealthCheckResponse::NOT_SERVING);
  float result = 0;
  EXPECT_TRUE(Multiply(&result).ok());
  EXPECT_EQ(result, 6);
  EXPECT_EQ(end.get(), Server::End::kDrained);
  EXPECT_FALSE(Multiply(&result).ok());
}

TEST_F(ServerTest, FinishesWhatIsInFlightWhenStopped) {
  ASSERT_TRUE(Start().ok());
  std::promise<void> running;
  std::promise<void> release;
  puppet_->on_run = [&](Job& job) {
    running.set_value();
    release.get_future().wait();
    return Compute(job);
  };
  float result = 0;
  auto call = std::async(std::launch::async, [&] { return Multiply(&result); });
  running.get_future().wait();
  server_->RequestStop();
  auto end = std::async(std::launch::async, [this] { return server_->Run(); });
  EXPECT_EQ(end.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);
  release.set_value();
  const grpc::Status status = call.get();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(result, 6);
  EXPECT_EQ(end.get(), Server::End::kDrained);
}

TEST_F(ServerTest, EndsWhenTheLastDeviceIsLost) {
  ASSERT_TRUE(Start().ok());
  puppet_->on_run = [this](Job&) {
    puppet_->Lose();
    return absl::InternalError("illegal address");
  };
  auto end = std::async(std::launch::async, [this] { return server_->Run(); });
  float result = 0;
  EXPECT_EQ(Multiply(&result).error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(end.get(), Server::End::kDeviceLost);
}

TEST_F(ServerTest, EndsWhenTheLastDeviceIsLostThoughOneOfItsLanesNeverReturns) {
  puppet_->lane_kinds = {LaneKind::kAny, LaneKind::kAny};
  ASSERT_TRUE(Start().ok());
  std::promise<void> stuck;
  std::promise<void> release;
  std::atomic<int> runs = 0;
  puppet_->on_run = [&](Job&) {
    if (runs++ == 0) {
      stuck.set_value();
      release.get_future().wait();
    }
    puppet_->Lose();
    return absl::InternalError("illegal address");
  };
  auto end = std::async(std::launch::async, [this] { return server_->Run(); });
  float result = 0;
  auto never = std::async(std::launch::async, [&] { return Multiply(&result); });
  stuck.get_future().wait();
  float other = 0;
  EXPECT_EQ(Multiply(&other).error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(end.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  release.set_value();  // a real one would not
  EXPECT_EQ(end.get(), Server::End::kDeviceLost);
  EXPECT_FALSE(never.get().ok());
}

// Small products run on the threads that take gRPC's events.
TEST_F(ServerTest, HealthAnswersWhileDevicesHoldSmallProducts) {
  puppet_->lane_kinds = {LaneKind::kSmall, LaneKind::kSmall, LaneKind::kSmall,
                         LaneKind::kSmall, LaneKind::kSmall, LaneKind::kAny};
  ASSERT_TRUE(Start().ok());
  absl::Notification release;
  std::atomic<int> held = 0;
  puppet_->on_run = [&](Job& job) {
    ++held;
    release.WaitForNotification();
    return Compute(job);
  };
  constexpr int kCallers = 12;
  std::vector<std::future<bool>> calls;
  calls.reserve(kCallers);
  for (int i = 0; i < kCallers; ++i) {
    calls.push_back(std::async(std::launch::async, [this] {
      float result = 0;
      return Multiply(&result).ok() && result == 6;
    }));
  }
  while (held == 0) absl::SleepFor(absl::Milliseconds(1));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Health(), HealthCheckResponse::SERVING);
  release.Notify();
  for (std::future<bool>& call : calls) EXPECT_TRUE(call.get());
}

// A panel is decoded and answered by the thread of its connection.
TEST_F(ServerTest, PanelsDoNotWaitForTheExecutor) {
  options_.executor_threads = 1;
  options_.matrix_memory_bytes = 1 << 20;
  absl::Notification busy;
  absl::Notification release;
  puppet_->on_write = [&] {
    busy.Notify();
    release.WaitForNotification();
    return absl::OkStatus();
  };
  ASSERT_TRUE(Start().ok());
  const auto stub = v1::GemmService::NewStub(channel_);
  auto rows = std::async(std::launch::async, [&] {
    v1::CreateMatrixRequest create;
    create.set_name("m");
    create.set_data_type(v1::DATA_TYPE_F32);
    create.set_rows(1);
    create.set_columns(1);
    v1::CreateMatrixReply created;
    grpc::ClientContext create_context;
    if (!stub->CreateMatrix(&create_context, create, &created).ok()) return false;
    v1::WriteRowsRequest write;
    write.set_name("m");
    write.set_row_count(1);
    write.add_payloads(std::string(sizeof(float), 0));
    v1::WriteRowsReply written;
    grpc::ClientContext write_context;
    return stub->WriteRows(&write_context, write, &written).ok();
  });
  ASSERT_TRUE(busy.WaitForNotificationWithTimeout(absl::Seconds(60)));

  float result = 0;
  const grpc::Status status = Multiply(&result, /*rows=*/3 << 18);  // 3 MiB each way
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(result, 6);
  release.Notify();
  EXPECT_TRUE(rows.get());
}

TEST_F(ServerTest, RefusesToStartOnADeviceThatComputesWrongNumbers) {
  puppet_->on_run = [this](Job& job) {
    absl::Status status = Compute(job);
    job.output.data()[0] ^= std::byte{1};
    return status;
  };
  const absl::Status status = Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("wrong product"));
}

TEST_F(ServerTest, RefusesToStartOnADeviceThatFails) {
  puppet_->on_run = [](Job&) { return absl::InternalError("no kernel image"); };
  const absl::Status status = Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no kernel image"));
}

TEST_F(ServerTest, AnAddressInUseIsAnErrorThatNamesIt) {
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(OpenCpuDevice());
  const auto other = Server::Start(options_, std::move(devices));
  ASSERT_TRUE(other.ok()) << other.status();

  options_.metrics_listen = (*other)->metrics_address();
  const absl::Status metrics = Start();
  EXPECT_EQ(metrics.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(metrics.message()),
              AllOf(HasSubstr(options_.metrics_listen + ": the address is in use"),
                    HasSubstr("--metrics-listen")));

  options_.metrics_listen = "";
  options_.listen = (*other)->grpc_address();
  devices_ = std::vector<std::unique_ptr<Device>>();
  devices_.push_back(OpenCpuDevice());
  const absl::Status grpc = Start();
  EXPECT_EQ(grpc.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(grpc.message()), HasSubstr(options_.listen + ": "));
}

TEST(OpenDevicesTest, ForcesNoKernelOnTheCpu) {
  Options options;
  options.device = DeviceChoice::kCpu;
  EXPECT_TRUE(OpenDevices(options).ok());
  options.force_kernel = "tiled_f32_32x32x32";
  EXPECT_EQ(OpenDevices(options).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gemm
