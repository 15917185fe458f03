// Of engines whose devices are to stay.

#ifndef GEMMD_TESTS_SERVER_ENGINE_QUIET_OBSERVER_H_
#define GEMMD_TESTS_SERVER_ENGINE_QUIET_OBSERVER_H_

#include <gtest/gtest.h>

#include "server/engine/engine.h"

namespace gemm {

class QuietObserver final : public EngineObserver {
 public:
  void OnBatch(const Batch&) override {}
  void OnDropped(const Job&, const absl::Status&) override {}
  void OnDeviceLost(const DeviceDescription& device) override {
    ADD_FAILURE() << "lost " << device.name;
  }
};

}  // namespace gemm

#endif  // GEMMD_TESTS_SERVER_ENGINE_QUIET_OBSERVER_H_
