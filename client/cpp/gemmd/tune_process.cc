#include "gemmd/tune_process.h"

#include "proto/tune_process.h"

namespace gemm {

void TuneClientProcess() { TuneProcess(); }

}  // namespace gemm
