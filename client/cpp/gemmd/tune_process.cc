#include "gemmd/tune_process.h"

#include <cstdlib>

#include "proto/tune_process.h"

namespace gemm {

void TuneClientProcess() { TuneProcess(); }

void PollConnectionsApart() { setenv("GRPC_POLL_STRATEGY", "poll", /*overwrite=*/0); }

}  // namespace gemm
