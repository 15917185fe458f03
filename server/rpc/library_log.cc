#include "server/rpc/library_log.h"

#include <google/protobuf/stubs/common.h>
#include <grpcpp/version_info.h>

#include "server/telemetry/logging.h"

// Later versions of both log through Abseil.
#define GEMMD_GRPC_HAS_LOG_FUNCTION (GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR < 65)
#define GEMMD_PROTOBUF_HAS_LOG_HANDLER (GOOGLE_PROTOBUF_VERSION < 4022000)

#if GEMMD_GRPC_HAS_LOG_FUNCTION
#include <grpc/support/log.h>
#endif
#if GEMMD_PROTOBUF_HAS_LOG_HANDLER
#include <google/protobuf/stubs/logging.h>
#endif

namespace gemm {

void CaptureLibraryLogs() {
#if GEMMD_GRPC_HAS_LOG_FUNCTION
  gpr_set_log_function([](gpr_log_func_args* record) {
    // What gRPC calls an error mostly concerns one connection, and callers can cause it.
    const LogLevel level =
        record->severity == GPR_LOG_SEVERITY_ERROR ? LogLevel::kWarning : LogLevel::kDebug;
    Log(level, record->message, {{"source", "grpc"}});
  });
#endif
#if GEMMD_PROTOBUF_HAS_LOG_HANDLER
  // All that it has to say is of requests that cannot be parsed; their callers are told.
  google::protobuf::SetLogHandler([](google::protobuf::LogLevel /*level*/, const char* /*file*/,
                                     int /*line*/, const std::string& message) {
    Log(LogLevel::kDebug, message, {{"source", "protobuf"}});
  });
#endif
}

}  // namespace gemm
