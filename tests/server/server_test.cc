#include "server/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace gemm {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
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

}  // namespace
}  // namespace gemm
