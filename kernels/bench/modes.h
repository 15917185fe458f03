// The modes of gemm_bench, one file each, and what they share.

#ifndef GEMMD_KERNELS_BENCH_MODES_H_
#define GEMMD_KERNELS_BENCH_MODES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/device_info.h"
#include "kernels/gemm.h"
#include "kernels/tuning/tuning_table.h"

namespace gemm {

struct Flags {
  std::vector<std::string> dtypes = {"f32", "f64"};
  std::string kernel;  // only this one; empty: all
  int device = 0;
  bool portable = false;  // as if the GPU were of a kind without kernels of its own
  // What to multiply: words that name shapes, or the name of a list.
  std::vector<std::string> words;
  std::string shapes;
  // check
  bool quick = false;
  bool large = false;
  // The other modes.
  bool all = false;          // bench: every legal kernel, not only the chosen one
  bool no_table = false;     // choose by the model alone
  bool unseen = false;       // regret: choose without the rows of the product itself
  double budget = 300;       // seconds after which no new shape is begun
  double shape_seconds = 0;  // of replays of one shape; 0: the mode's own
  std::string json;          // JSON lines go here too
  std::string out;           // tune: the table
  std::string from;          // tune, regret: recorded times instead of a GPU
  std::string table;         // choose by these recorded times instead of the library's table
  std::string commit;        // recorded with the figures
  std::string command;       // as it was typed
};

std::vector<DType> DTypes(const Flags& flags);

// Makes the flags' GPU the current one and says what choices depend on; with --portable as another
// kind of GPU of its size would. Empty, or what stands in the way.
std::string OpenDevice(const Flags& flags, DeviceInfo* device);

// The table that the flags leave for a device. An unreadable one has been refused by then.
TuningTable TableFor(const Flags& flags, const DeviceInfo& device);

// Each returns the exit status: 0, 1 when a kernel failed a check, 2 when it could not be run.
int RunCheck(const Flags& flags);
int RunBench(const Flags& flags);
int RunLadder(const Flags& flags);
int RunTune(const Flags& flags);
int RunRegret(const Flags& flags);
int RunRepeat(const Flags& flags);
int RunExplain(const Flags& flags);
int RunGroup(const Flags& flags);

// Says on stderr what stands in the way; 2.
int Refuse(const std::string& what);

}  // namespace gemm

#endif  // GEMMD_KERNELS_BENCH_MODES_H_
