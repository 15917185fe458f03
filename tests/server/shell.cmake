# Tests of options, telemetry and the server's shell.
find_package(nlohmann_json REQUIRED)

gemmd_server_test(telemetry_test
  SOURCES telemetry/logging_test.cc telemetry/metrics_test.cc
  LIBRARIES gemmd_telemetry nlohmann_json::nlohmann_json
  LABELS unit-tsan)
target_compile_definitions(telemetry_test PRIVATE
  TELEMETRY_README="${PROJECT_SOURCE_DIR}/server/telemetry/README.md")

# The page is served by threads of a library that is installed.
gemmd_server_test(metrics_page_test
  SOURCES telemetry/metrics_page_test.cc
  LIBRARIES gemmd_telemetry
  LABELS unit)

gemmd_server_test(options_test
  SOURCES options_test.cc ${PROJECT_SOURCE_DIR}/server/host_port.cc
          ${PROJECT_SOURCE_DIR}/server/option_kinds.cc ${PROJECT_SOURCE_DIR}/server/options.cc
  LIBRARIES gemmd_telemetry CLI11::CLI11
  LABELS unit-tsan)

gemmd_server_test(server_test
  SOURCES server_test.cc
  LIBRARIES gemmd_server gemmd_proto
  LABELS unit)
