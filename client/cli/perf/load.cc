#include "client/cli/perf/load.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "client/cli/perf/random.h"

namespace gemm::cli {
namespace {

// Of all the slots whose results a run leaves behind.
constexpr int kSlotsToCheck = 8;

}  // namespace

Load::Load(const LoadSettings& settings, const Workload& workload)
    : settings_(settings), workload_(workload) {}

absl::StatusOr<std::unique_ptr<Load>> Load::Create(const LoadSettings& settings,
                                                   const Workload& workload) {
  std::unique_ptr<Load> load(new Load(settings, workload));
  ClientOptions options = settings.client;
  options.max_retries = 0;  // what the server refuses is counted rather than tried again
  for (int i = 0; i < settings.channels; ++i) {
    absl::StatusOr<Client> client = Client::Connect(options);
    if (!client.ok()) return client.status();
    load->channels_.push_back(
        std::make_unique<LoadChannel>(*std::move(client), workload, settings.batch));
  }
  return load;
}

Tally Load::Run(const LoadPoint& point, absl::Duration duration, uint64_t stream,
                absl::FunctionRef<bool(const LoadProgress&)> go_on) {
  const auto channels = static_cast<int>(channels_.size());
  Random seeds(settings_.seed, stream);
  // i's part of `all`, as even as whole numbers can be.
  const auto part = [channels](int all, int i) { return all / channels + (i < all % channels); };
  const LoadTime start = LoadClock::now();
  const LoadTime end = start + absl::ToChronoNanoseconds(duration);
  for (int i = 0; i < channels; ++i) {
    const Random random(static_cast<uint64_t>(seeds.Uniform() * 0x1p53), i);
    if (point.open()) {
      channels_[i]->BeginOpen(point.rate / channels, std::max(part(settings_.outstanding, i), 1),
                              start, end, random);
    } else {
      channels_[i]->BeginClosed(part(point.callers, i), end, random);
    }
  }
  std::optional<LoadTime> stopped;
  const auto idle = [](const auto& channel) { return channel->idle(); };
  for (auto glance = std::chrono::milliseconds(1);
       !std::all_of(channels_.begin(), channels_.end(), idle);
       glance = std::min<std::chrono::milliseconds>(glance * 2, kGlance)) {
    std::this_thread::sleep_for(glance);
    LoadProgress progress{.elapsed = absl::FromChrono(LoadClock::now() - start)};
    for (const auto& channel : channels_) {
      progress.calls += channel->answered();
      progress.errors += channel->failed();
    }
    if (!stopped && !go_on(progress)) stopped = LoadClock::now();
    // Again and again: a call may have been about to begin.
    if (stopped) std::for_each(channels_.begin(), channels_.end(), [](auto& c) { c->Cancel(); });
  }
  Tally tally;
  LoadTime last = stopped.value_or(end);
  for (const auto& channel : channels_) {
    tally.Merge(channel->Finish());
    if (!stopped) last = std::max(last, channel->last_end());
  }
  tally.set_seconds(std::chrono::duration<double>(last - start).count());
  return tally;
}

absl::Status Load::CheckResults() const {
  const auto channels = static_cast<int>(channels_.size());
  for (const auto& channel : channels_) {
    absl::Status status = channel->CheckResults(std::max(kSlotsToCheck / channels, 1));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace gemm::cli
