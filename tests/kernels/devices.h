// Devices from literals, for tests that have none.

#ifndef GEMMD_TESTS_KERNELS_DEVICES_H_
#define GEMMD_TESTS_KERNELS_DEVICES_H_

#include "kernels/bench/literal_devices.h"

#endif  // GEMMD_TESTS_KERNELS_DEVICES_H_
