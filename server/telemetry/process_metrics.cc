#include "server/telemetry/process_metrics.h"

#include <malloc.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

namespace gemm {

using prometheus::MetricFamily;
using prometheus::MetricType;

namespace {

double ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  double total_pages = 0;
  double resident_pages = 0;
  if (!(statm >> total_pages >> resident_pages)) return -1;
  return resident_pages * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// What is allocated; the rest of what is resident is code, or kept by the allocator.
double HeapUsedBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks) + static_cast<double>(info.hblkhd);
}

double CpuSeconds() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return -1;
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double StartTimeSeconds() {
  // Field 22 of stat, in clock ticks since boot; the fields are counted from the end of the
  // command's name, which may hold anything.
  std::ifstream stat("/proc/self/stat");
  std::string text;
  std::getline(stat, text);
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return -1;
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  double ticks = 0;
  if (!(fields >> ticks)) return -1;

  std::ifstream system_stat("/proc/stat");
  for (std::string line; std::getline(system_stat, line);) {
    std::istringstream words(line);
    std::string key;
    double boot_time = 0;
    if (words >> key && key == "btime" && words >> boot_time) {
      return boot_time + ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
    }
  }
  return -1;
}

double OpenFds() {
  std::error_code error;
  double count = -1;  // the one that reads the directory
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end;
       it.increment(error)) {
    ++count;
  }
  return error ? -1 : count;
}

double MaxFds() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return -1;
  return static_cast<double>(limit.rlim_cur);
}

}  // namespace

MetricFamily OneValue(std::string name, std::string help, MetricType type, double value) {
  MetricFamily family{std::move(name), std::move(help), type, {}};
  prometheus::ClientMetric& metric = family.metric.emplace_back();
  (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  return family;
}

ProcessMetrics::ProcessMetrics() : start_time_seconds_(StartTimeSeconds()) {}

std::vector<MetricFamily> ProcessMetrics::Collect() const {
  std::vector<MetricFamily> families;
  const auto add = [&families](const char* name, const char* help, MetricType type, double value) {
    if (value >= 0) families.push_back(OneValue(name, help, type, value));
  };
  add("process_resident_memory_bytes", "Resident memory.", MetricType::Gauge, ResidentBytes());
  add("gemmd_heap_used_bytes", "Memory that allocations hold.", MetricType::Gauge, HeapUsedBytes());
  add("process_cpu_seconds_total", "User and system CPU time.", MetricType::Counter, CpuSeconds());
  add("process_start_time_seconds", "Start of the process since the epoch.", MetricType::Gauge,
      start_time_seconds_);
  add("process_open_fds", "Open file descriptors.", MetricType::Gauge, OpenFds());
  add("process_max_fds", "Limit of open file descriptors.", MetricType::Gauge, MaxFds());
  return families;
}

}  // namespace gemm
