#include "client/cli/perf/perf_report.h"

#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

namespace gemm::cli {
namespace {

constexpr std::pair<const char*, double> kPercentiles[] = {
    {"p50", 50}, {"p90", 90}, {"p99", 99}, {"p99.9", 99.9}, {"max", 100}};

double Seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

// Of the point, for a column.
std::string LoadOf(const LoadPoint& point) {
  return point.open() ? absl::StrFormat("%g", point.rate) : absl::StrCat(point.callers);
}

std::string ErrorsOf(const Tally& tally) {
  std::vector<std::string> words;
  for (const auto& [code, count] : tally.errors()) {
    words.push_back(absl::StrCat(absl::StatusCodeToString(code), " ", count));
  }
  if (tally.unsent() > 0) words.push_back(absl::StrCat("unsent ", tally.unsent()));
  return words.empty() ? "0" : absl::StrJoin(words, ", ");
}

std::vector<std::string> NamesOf(const std::vector<DeviceSummary>& devices) {
  std::vector<std::string> names;
  names.reserve(devices.size());
  for (const DeviceSummary& device : devices) names.push_back(device.name);
  return names;
}

nlohmann::json PointJson(const PerfPoint& point) {
  const Tally& tally = point.tally;
  nlohmann::json json = {{"seconds", tally.seconds()},
                         {"calls", tally.calls()},
                         {"products", tally.products()},
                         {"unsent", tally.unsent()},
                         {"errors", nlohmann::json::object()},
                         {"warmup_calls", point.warmup_calls},
                         {"calls_per_second", tally.calls_per_second()},
                         {"products_per_second", tally.products_per_second()},
                         {"gigabytes_per_second", tally.gigabytes_per_second()},
                         {"teraflops", tally.teraflops()},
                         {"slo_broken", point.slo_broken},
                         {"interrupted", point.interrupted}};
  if (point.point.open()) {
    json["rate"] = point.point.rate;
  } else {
    json["callers"] = point.point.callers;
  }
  for (const auto& [code, count] : tally.errors()) {
    json["errors"][absl::StatusCodeToString(code)] = count;
  }
  nlohmann::json& latency = json["latency_seconds"];
  for (const auto& [name, percent] : kPercentiles) {
    latency[name] = Seconds(tally.latency().Percentile(percent));
  }
  latency["mean"] = tally.mean_seconds();
  nlohmann::json& split = json["mean_seconds"];
  split["wait"] = tally.mean_wait_seconds();
  for (size_t i = 0; i < kPhaseNames.size(); ++i) {
    split[kPhaseNames[i]] = tally.mean_phase_seconds(i);
  }
  split["wire_and_client"] = tally.mean_rest_seconds();
  return json;
}

}  // namespace

std::string LinkOf(const std::string& address) {
  if (absl::StartsWith(address, "unix:")) return "unix socket";
  std::string host = address;
  if (absl::StartsWith(host, "dns:")) host = host.substr(host.find_last_of('/') + 1);
  for (const char* local : {"127.", "localhost:", "[::1]"}) {
    if (absl::StartsWith(host, local)) return "loopback";
  }
  return "network";
}

void PrintServer(const ServerInfo& server, const std::string& address) {
  absl::PrintF("gemmd %s (%s) at %s\n", server.version, server.commit, address);
  absl::PrintF("  device    %s\n", absl::StrJoin(NamesOf(server.devices), ", "));
}

void PrintHeader(const PerfSetting& setting) {
  const LoadSettings& load = setting.load;
  PrintServer(setting.server, load.client.address);
  absl::PrintF("  link      %s, %d channel%s, %s %s%s\n", LinkOf(load.client.address),
               setting.channels(), setting.channels() == 1 ? "" : "s",
               setting.shapes[0].resident_b ? "A and results" : "operands and results",
               setting.by_panels ? "in panels" : "inline",
               setting.shapes[0].resident_b ? ", B on the server" : "");
  absl::PrintF("  client    gemmctl %s, %d cores\n", GEMMD_VERSION,
               std::thread::hardware_concurrency());
  absl::PrintF("  load      %s a point after %s of warm-up, timeout %s, seed %d\n",
               absl::FormatDuration(setting.duration), absl::FormatDuration(setting.warmup),
               absl::FormatDuration(load.client.timeout), load.seed);
  if (load.batch > 0) absl::PrintF("  batch     %d products a call\n", load.batch);
  double weights = 0;
  for (const MixShape& shape : setting.shapes) weights += shape.weight;
  for (size_t i = 0; i < setting.shapes.size(); ++i) {
    const Explanation& explanation = setting.explanations[i];
    absl::PrintF("  shape     %s, %.4g%%: %s (%s)\n", setting.shapes[i].name(),
                 setting.shapes[i].weight / weights * 100,
                 explanation.chosen.empty() ? "no kernel" : explanation.chosen, explanation.reason);
  }
}

void PrintRowTitles(const PerfSetting& setting, const LoadPoint& point) {
  absl::PrintF("\n%8s %10s", point.open() ? "rate" : "callers", "calls/s");
  if (setting.load.batch > 0) absl::PrintF(" %10s", "products/s");
  absl::PrintF(" %8s %8s", "GB/s", "TFLOP/s");
  for (const auto& [name, percent] : kPercentiles) absl::PrintF(" %9s", name);
  absl::PrintF("  errors (times in ms)\n");
}

void PrintRow(const PerfSetting& setting, const PerfPoint& point) {
  const Tally& tally = point.tally;
  absl::PrintF("%8s %10.1f", LoadOf(point.point), tally.calls_per_second());
  if (setting.load.batch > 0) absl::PrintF(" %10.0f", tally.products_per_second());
  absl::PrintF(" %8.3f %8.4f", tally.gigabytes_per_second(), tally.teraflops());
  for (const auto& [name, percent] : kPercentiles) {
    absl::PrintF(" %9.3f", Seconds(tally.latency().Percentile(percent)) * 1e3);
  }
  absl::PrintF("  %s%s\n", ErrorsOf(tally), point.interrupted ? ", interrupted" : "");
  std::fflush(stdout);
}

void PrintSplit(const PerfSetting& setting, const std::vector<PerfPoint>& points) {
  if (points.empty()) return;
  absl::PrintF("\nThe mean call's time in ms: before it was sent, on the server%s, and the rest\n",
               setting.by_panels ? " (all panels together, which overlap)" : "");
  absl::PrintF("%8s %9s %9s", points[0].point.open() ? "rate" : "callers", "mean", "wait");
  for (const char* name : kPhaseNames) absl::PrintF(" %9s", name);
  absl::PrintF("  wire and client\n");
  for (const PerfPoint& point : points) {
    const Tally& tally = point.tally;
    absl::PrintF("%8s %9.3f %9.3f", LoadOf(point.point), tally.mean_seconds() * 1e3,
                 tally.mean_wait_seconds() * 1e3);
    for (size_t i = 0; i < kPhaseNames.size(); ++i) {
      absl::PrintF(" %9.3f", tally.mean_phase_seconds(i) * 1e3);
    }
    absl::PrintF("  %.3f\n", tally.mean_rest_seconds() * 1e3);
  }
}

nlohmann::json ServerJson(const ServerInfo& server, const std::string& address) {
  return {{"version", server.version},
          {"commit", server.commit},
          {"address", address},
          {"devices", NamesOf(server.devices)}};
}

nlohmann::json ClientJson() {
  return {{"version", GEMMD_VERSION}, {"cores", std::thread::hardware_concurrency()}};
}

nlohmann::json PerfJson(const PerfSetting& setting, const std::vector<PerfPoint>& points) {
  const LoadSettings& load = setting.load;
  nlohmann::json json = {{"server", ServerJson(setting.server, load.client.address)},
                         {"client", ClientJson()},
                         {"link",
                          {{"kind", LinkOf(load.client.address)},
                           {"channels", setting.channels()},
                           {"road", setting.shapes[0].resident_b ? "resident b" : "inline"},
                           {"by_panels", setting.by_panels}}},
                         {"load",
                          {{"duration_seconds", absl::ToDoubleSeconds(setting.duration)},
                           {"warmup_seconds", absl::ToDoubleSeconds(setting.warmup)},
                           {"batch", load.batch},
                           {"outstanding", load.outstanding},
                           {"seed", load.seed}}},
                         {"check_calls", setting.check_calls},
                         {"shapes", nlohmann::json::array()},
                         {"points", nlohmann::json::array()}};
  if (load.client.timeout < absl::InfiniteDuration()) {  // which JSON cannot say
    json["load"]["timeout_seconds"] = absl::ToDoubleSeconds(load.client.timeout);
  }
  for (size_t i = 0; i < setting.shapes.size(); ++i) {
    const MixShape& shape = setting.shapes[i];
    json["shapes"].push_back({{"name", shape.name()},
                              {"m", shape.m},
                              {"n", shape.n},
                              {"k", shape.k},
                              {"dtype", std::string(NameOf(shape.type))},
                              {"transpose_a", shape.transpose_a},
                              {"transpose_b", shape.transpose_b},
                              {"weight", shape.weight},
                              {"kernel", setting.explanations[i].chosen},
                              {"reason", setting.explanations[i].reason}});
  }
  for (const PerfPoint& point : points) json["points"].push_back(PointJson(point));
  return json;
}

}  // namespace gemm::cli
