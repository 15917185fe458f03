#include "server/rpc/grpc_log.h"

#include <grpcpp/version_info.h>

#include "server/telemetry/logging.h"

// Later versions log through Abseil.
#define GEMMD_GRPC_HAS_LOG_FUNCTION (GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR < 65)

#if GEMMD_GRPC_HAS_LOG_FUNCTION
#include <grpc/support/log.h>
#endif

namespace gemm {

void CaptureGrpcLog() {
#if GEMMD_GRPC_HAS_LOG_FUNCTION
  gpr_set_log_function([](gpr_log_func_args* record) {
    // What gRPC calls an error mostly concerns one connection, and callers can cause it.
    const LogLevel level =
        record->severity == GPR_LOG_SEVERITY_ERROR ? LogLevel::kWarning : LogLevel::kDebug;
    Log(level, record->message, {{"source", "grpc"}});
  });
#endif
}

}  // namespace gemm
