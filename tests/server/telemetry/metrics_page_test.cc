#include "server/telemetry/metrics_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "tests/server/telemetry/http_client.h"

namespace gemm {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kSample[] = "gemmd_build_info{commit=\"c\",version=\"v\"} 1\n";

class MetricsPageTest : public ::testing::Test {
 protected:
  std::string Request(std::string_view request) {
    return SendToMetricsPage((*page_)->port(), request);
  }

  const Metrics metrics_{{"v", "c", {}, {}}};
  absl::StatusOr<std::unique_ptr<MetricsPage>> page_ = MetricsPage::Serve("127.0.0.1", 0, metrics_);
};

TEST_F(MetricsPageTest, ServesThePage) {
  const std::string reply =
      Request("GET /metrics HTTP/1.1\r\nHost: gemmd\r\nAccept: */*\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(reply, AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr(kSample),
                           HasSubstr("\r\nContent-Type: text/plain; version=0.0.4")));
  const std::string body = reply.substr(reply.find("\r\n\r\n") + 4);
  EXPECT_THAT(reply, HasSubstr("\r\nContent-Length: " + std::to_string(body.size()) + "\r\n"));
  EXPECT_THAT(Request("GET /metrics?name=x HTTP/1.0\r\n\r\n"), HasSubstr(kSample));
}

TEST_F(MetricsPageTest, HeadHasNoBody) {
  EXPECT_THAT(Request("HEAD /metrics HTTP/1.0\r\n\r\n"),
              AllOf(HasSubstr(" 200 OK\r\n"), EndsWith("\r\n\r\n"), Not(HasSubstr(kSample))));
}

TEST_F(MetricsPageTest, RefusesAllElse) {
  for (const char* request :
       {"GET / HTTP/1.0\r\n\r\n", "GET /metrics/../etc HTTP/1.0\r\n\r\n",
        "POST /metrics HTTP/1.0\r\n\r\n", "GET\r\n\r\n", "\xff \x01\r\n\r\n"}) {
    EXPECT_THAT(Request(request), AllOf(StartsWith("HTTP/1.1 4"), Not(HasSubstr(kSample))));
  }
}

TEST_F(MetricsPageTest, TakesARequestInPieces) {
  Connection connection((*page_)->port());
  for (const char* piece : {"GET /met", "rics HTTP/1.0\r", "\nHost: x\r\n\r", "\n"}) {
    connection.Send(piece);
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_THAT(connection.Receive(), HasSubstr(kSample));
}

TEST_F(MetricsPageTest, SilentCallersHoldUpTheOthersForAFewSecondsAtMost) {
  const Connection silent[] = {Connection((*page_)->port()), Connection((*page_)->port()),
                               Connection((*page_)->port()), Connection((*page_)->port()),
                               Connection((*page_)->port())};
  const absl::Time start = absl::Now();
  EXPECT_THAT(Request("GET /metrics HTTP/1.0\r\n\r\n"), HasSubstr(kSample));
  EXPECT_LT(absl::Now() - start, absl::Seconds(4));
}

// As a scraper does that has lost its network: the page waits for it for a while, the others do
// not.
TEST_F(MetricsPageTest, CallersThatDoNotReadHoldUpNobody) {
  std::vector<std::unique_ptr<Connection>> hanging;
  for (int i = 0; i < 8; ++i) {
    Connection& connection = *hanging.emplace_back(std::make_unique<Connection>((*page_)->port()));
    connection.Send("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  const absl::Time start = absl::Now();
  EXPECT_THAT(Request("GET /metrics HTTP/1.0\r\n\r\n"), HasSubstr(kSample));
  EXPECT_LT(absl::Now() - start, absl::Seconds(4));
}

TEST_F(MetricsPageTest, ServesThousandsOfScrapesAndKeepsNothingOfThem) {
  const auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = open_files();
  std::atomic<int> served{0};
  std::vector<std::thread> scrapers;
  scrapers.reserve(4);
  for (int i = 0; i < 4; ++i) {
    scrapers.emplace_back([&] {
      for (int scrape = 0; scrape < 500; ++scrape) {
        const std::string reply = Request("GET /metrics HTTP/1.0\r\n\r\n");
        served += reply.find(kSample) != std::string::npos ? 1 : 0;
      }
    });
  }
  for (std::thread& scraper : scrapers) scraper.join();
  EXPECT_EQ(served, 4 * 500);
  // The page closes its end a moment after the scraper has all.
  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  while (open_files() > before && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(5));
  EXPECT_LE(open_files(), before);
}

TEST_F(MetricsPageTest, StopsSoonWhateverCallersDo) {
  const Connection silent((*page_)->port());
  Connection kept_alive((*page_)->port());
  kept_alive.Send("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  absl::SleepFor(absl::Milliseconds(50));
  const absl::Time start = absl::Now();
  page_->reset();
  EXPECT_LT(absl::Now() - start, absl::Seconds(3));
}

TEST_F(MetricsPageTest, SurvivesCallersThatLeave) {
  for (int i = 0; i < 20; ++i) {
    Connection connection((*page_)->port());
    const linger reset = {1, 0};
    setsockopt(connection.fd(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    connection.Send("GET /metrics HTTP/1.0\r\n\r\n");
  }
  EXPECT_THAT(Request("GET /metrics HTTP/1.0\r\n\r\n"), HasSubstr(kSample));
}

TEST_F(MetricsPageTest, SaysWhyItCannotListen) {
  const int port = (*page_)->port();
  const auto in_use = MetricsPage::Serve("127.0.0.1", port, metrics_);
  EXPECT_EQ(in_use.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(std::string(in_use.status().message()),
            "cannot listen on 127.0.0.1:" + std::to_string(port) +
                ": the address is in use, or not one of this machine (--metrics-listen)");
  EXPECT_FALSE(MetricsPage::Serve("192.0.2.1", 0, metrics_).ok());
  EXPECT_FALSE(MetricsPage::Serve("no such host", 0, metrics_).ok());
}

TEST_F(MetricsPageTest, ListensOnIpv6) {
  const auto page = MetricsPage::Serve("::1", 0, metrics_);
  if (!page.ok()) GTEST_SKIP() << "this machine has no IPv6: " << page.status();
  EXPECT_GT((*page)->port(), 0);
}

}  // namespace
}  // namespace gemm
