#include "server/telemetry/metrics_page.h"

#include <httplib.h>
#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>

#include <iterator>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace gemm {
namespace {

// Enough for a few scrapers at once; a silent caller holds a thread no longer than a time-out.
constexpr int kThreads = 4;
constexpr int kReadTimeoutSeconds = 1;
constexpr int kWriteTimeoutSeconds = 5;
constexpr char kContentType[] = "text/plain; version=0.0.4; charset=utf-8";

std::string Render(const Metrics& metrics) {
  std::vector<prometheus::MetricFamily> families;
  for (const auto& collectable : metrics.collectables()) {
    std::vector<prometheus::MetricFamily> more = collectable->Collect();
    families.insert(families.end(), std::make_move_iterator(more.begin()),
                    std::make_move_iterator(more.end()));
  }
  return prometheus::TextSerializer().Serialize(families);
}

class MetricsPageImpl final : public MetricsPage {
 public:
  explicit MetricsPageImpl(const Metrics& metrics) {
    http_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    http_.set_keep_alive_max_count(1);
    http_.set_keep_alive_timeout(kReadTimeoutSeconds);
    http_.set_read_timeout(kReadTimeoutSeconds);
    http_.set_write_timeout(kWriteTimeoutSeconds);
    // The library shares the port by default (SO_REUSEPORT): a second server would start unnoticed.
    http_.set_socket_options([](socket_t socket) {
      const int on = 1;  // a restart must not wait for old connections to time out
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    });
    http_.Get("/metrics", [&metrics](const httplib::Request&, httplib::Response& response) {
      response.set_content(Render(metrics), kContentType);
    });
  }

  ~MetricsPageImpl() override {
    http_.stop();
    if (thread_.joinable()) thread_.join();
  }

  bool Listen(const std::string& host, int port) {
    port_ = port == 0 ? http_.bind_to_any_port(host) : port;
    if (port_ <= 0 || (port != 0 && !http_.bind_to_port(host, port))) return false;
    thread_ = std::thread([this] { http_.listen_after_bind(); });
    while (!http_.is_running()) std::this_thread::yield();  // before that, stop() has no effect
    return true;
  }

  int port() const override { return port_; }

 private:
  httplib::Server http_;
  std::thread thread_;
  int port_ = -1;
};

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsPage>> MetricsPage::Serve(const std::string& host, int port,
                                                                const Metrics& metrics) {
  auto page = std::make_unique<MetricsPageImpl>(metrics);
  if (!page->Listen(host, port)) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen on ", host, ":", port,
                     ": the address is in use, or not one of this machine (--metrics-listen)"));
  }
  return page;
}

}  // namespace gemm
