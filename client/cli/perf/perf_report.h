// What gemmctl perf prints: what was measured on what, a row for each load point, and where the
// time of its calls went.

#ifndef GEMMD_CLIENT_CLI_PERF_PERF_REPORT_H_
#define GEMMD_CLIENT_CLI_PERF_PERF_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/cli/perf/load.h"
#include "client/cli/perf/load_point.h"
#include "client/cli/perf/shape_mix.h"
#include "client/cli/perf/tally.h"
#include "gemmd/server_info.h"
#include "nlohmann/json_fwd.hpp"

namespace gemm::cli {

struct PerfSetting {
  ServerInfo server;
  LoadSettings load;
  absl::Duration duration;
  absl::Duration warmup;
  bool by_panels = false;  // products go in panels, over the channels of one client
  std::vector<MixShape> shapes;
  std::vector<Explanation> explanations;  // of each shape
  int64_t check_calls = 0;                // made before the first load point

  int channels() const { return by_panels ? load.client.channels : load.channels; }
};

struct PerfPoint {
  LoadPoint point;
  Tally tally;
  int64_t warmup_calls = 0;             // answered
  std::vector<std::string> slo_broken;  // in words
  bool interrupted = false;
};

// "loopback", "unix socket" or "network".
std::string LinkOf(const std::string& address);

void PrintServer(const ServerInfo& server, const std::string& address);
void PrintHeader(const PerfSetting& setting);
void PrintRowTitles(const PerfSetting& setting, const LoadPoint& point);
void PrintRow(const PerfSetting& setting, const PerfPoint& point);
void PrintSplit(const PerfSetting& setting, const std::vector<PerfPoint>& points);

nlohmann::json ServerJson(const ServerInfo& server, const std::string& address);
nlohmann::json ClientJson();
nlohmann::json PerfJson(const PerfSetting& setting, const std::vector<PerfPoint>& points);

}  // namespace gemm::cli

#endif  // GEMMD_CLIENT_CLI_PERF_PERF_REPORT_H_
