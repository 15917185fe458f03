#include "client/cli/perf/load.h"

#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/cli/perf/arrivals.h"
#include "client/cli/perf/random.h"

namespace gemm::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

// How often those who wait look whether they should stop.
constexpr auto kGlance = std::chrono::milliseconds(50);

// Of all the slots whose results a run leaves behind.
constexpr int kSlotsToCheck = 8;

}  // namespace

// One connection and those who call over it. A caller of a closed loop is a thread that waits for
// its call; those of an open one are slots for calls that end on the client's thread.
class Load::Channel {
 public:
  // batch: as in LoadSettings.
  Channel(Client client, const Workload& workload, int batch)
      : workload_(workload),
        batch_(batch),
        products_(std::max(batch, 1)),
        client_(std::make_unique<Client>(std::move(client))) {}

  // A run: first one of these, then Cancel any number of times, then Finish when it is idle().
  void BeginClosed(int callers, Time end, Random seeds);
  void BeginOpen(double rate, int outstanding, Time start, Time end, Random seeds);
  void Cancel();
  Tally Finish();

  bool idle() const {
    absl::MutexLock lock(&mutex_);
    return busy_ == 0;
  }
  int64_t answered() const { return answered_.load(std::memory_order_relaxed); }
  int64_t failed() const { return failed_.load(std::memory_order_relaxed); }
  Time last_end() const { return last_end_; }  // of a call, after Finish

  absl::Status CheckResults(int slots) const;

 private:
  // What a run has measured; a cache line of its own for each caller.
  struct alignas(64) Record {
    Tally tally;
    Time last_end;
  };

  // Room for one call.
  struct Slot {
    std::unique_ptr<std::byte[]> d;  // room for the largest one, once for each product
    std::vector<size_t> shapes;      // of each product
    std::vector<bool> right;         // whether its D is there
    Time due;
    Time sent;

    absl::Mutex mutex;
    uint64_t calls ABSL_GUARDED_BY(mutex) = 0;
    PendingCall pending ABSL_GUARDED_BY(mutex);  // the last of them, in an open loop
  };

  void Reset(int slots, int busy, Time end);
  void CallAgainAndAgain(Slot& slot, Random shapes, Record& record);
  void SendArrivals(double rate, Time start, Random seeds);
  Slot* TakeSlot();
  void Prepare(Slot& slot, Random& shapes, Time due);
  void Send(Slot& slot);
  PendingCall BeginCall(Slot& slot);
  AnyMultiplyArgs ArgsOf(const Slot& slot, int product) const {
    return workload_.Args(slot.shapes[product], product, ResultOf(slot, product));
  }
  std::vector<AnyMultiplyArgs> ArgsOf(const Slot& slot) const;
  std::byte* ResultOf(const Slot& slot, int product) const {
    return slot.d.get() + product * workload_.largest_d_bytes();
  }
  void OnAnswer(Slot& slot, const MultiplyReport& report, Tally& tally);
  void OnAnswer(Slot& slot, const MultiplyBatchReport& report, Tally& tally);
  template <typename Report>
  void OnDone(Slot& slot, const absl::StatusOr<Report>& report, Record& record);
  void FreeSlot(Slot& slot);

  const Workload& workload_;
  const int batch_;
  const int products_;  // of a call

  // Constant during a run.
  Time end_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<std::thread> threads_;  // a closed loop's callers, or an open one's sender

  std::atomic<bool> stopping_ = false;
  Time stopped_at_;  // written before stopping_
  std::atomic<int64_t> answered_ = 0;
  std::atomic<int64_t> failed_ = 0;

  // Of each caller; of an open loop one, which the client's callbacks write, one after another.
  std::vector<Record> records_;
  Time last_end_;

  mutable absl::Mutex mutex_;
  absl::CondVar slot_freed_;
  int busy_ ABSL_GUARDED_BY(mutex_) = 0;  // callers, or the sender and the calls under way
  int64_t unsent_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Slot*> free_ ABSL_GUARDED_BY(mutex_);  // of an open loop

  std::unique_ptr<Client> client_;  // the last: its end waits for callbacks, which use the others
};

void Load::Channel::Reset(int slots, int busy, Time end) {
  end_ = end;
  stopping_ = false;
  answered_ = 0;
  failed_ = 0;
  last_end_ = Time();
  slots_.clear();
  for (int i = 0; i < slots; ++i) slots_.push_back(std::make_unique<Slot>());
  absl::MutexLock lock(&mutex_);
  unsent_ = 0;
  free_.clear();
  for (const auto& slot : slots_) free_.push_back(slot.get());
  busy_ = busy;
}

void Load::Channel::BeginClosed(int callers, Time end, Random seeds) {
  Reset(callers, callers, end);
  records_.assign(callers, Record());
  for (int i = 0; i < callers; ++i) {
    const Random shapes(static_cast<uint64_t>(seeds.Uniform() * 0x1p53), 0);
    threads_.emplace_back(
        [this, i, shapes] { CallAgainAndAgain(*slots_[i], shapes, records_[i]); });
  }
}

void Load::Channel::CallAgainAndAgain(Slot& slot, Random shapes, Record& record) {
  for (Time now = Clock::now(); now < end_ && !stopping_; now = Clock::now()) {
    Prepare(slot, shapes, now);
    if (batch_ == 0) {
      OnDone(
          slot,
          std::visit([this](const auto& args) { return client_->Multiply(args); }, ArgsOf(slot, 0)),
          record);
    } else {
      OnDone(slot, client_->MultiplyBatch(ArgsOf(slot)), record);
    }
  }
  absl::MutexLock lock(&mutex_);
  --busy_;
}

void Load::Channel::BeginOpen(double rate, int outstanding, Time start, Time end, Random seeds) {
  Reset(outstanding, /*busy=*/1, end);
  records_.assign(1, Record());
  threads_.emplace_back([this, rate, start, seeds] { SendArrivals(rate, start, seeds); });
}

void Load::Channel::SendArrivals(double rate, Time start, Random seeds) {
  // By default the kernel may wake a sleeper 50 us late, which would be part of every latency.
  prctl(PR_SET_TIMERSLACK, 1);
  PoissonArrivals arrivals(rate, seeds);
  Random shapes(static_cast<uint64_t>(seeds.Uniform() * 0x1p53), 1);
  int64_t unsent = 0;
  Time due = start + arrivals.Next();
  for (; due < end_ && !stopping_; due = start + arrivals.Next()) {
    for (Time now = Clock::now(); now < due && !stopping_; now = Clock::now()) {
      std::this_thread::sleep_until(std::min<Time>(due, now + kGlance));
    }
    if (stopping_) break;
    Slot* const slot = TakeSlot();
    if (slot == nullptr) {
      const Time until = stopping_ ? std::min(end_, stopped_at_) : end_;
      for (; due < until; due = start + arrivals.Next()) ++unsent;
      break;
    }
    Prepare(*slot, shapes, due);
    Send(*slot);
  }
  absl::MutexLock lock(&mutex_);
  unsent_ = unsent;
  --busy_;
}

// Waits for a free one; none once it is too late to send. A sender that merely woke up late is not.
Load::Channel::Slot* Load::Channel::TakeSlot() {
  absl::MutexLock lock(&mutex_);
  for (;;) {
    const Time now = Clock::now();
    if (now >= end_ + kGlance) return nullptr;
    if (!free_.empty()) break;
    if (now >= end_ || stopping_) return nullptr;
    slot_freed_.WaitWithTimeout(&mutex_,
                                absl::FromChrono(std::min<Clock::duration>(end_ - now, kGlance)));
  }
  Slot* const slot = free_.back();  // the one whose memory is warm
  free_.pop_back();
  ++busy_;
  return slot;
}

void Load::Channel::Prepare(Slot& slot, Random& shapes, Time due) {
  if (slot.d == nullptr) {
    slot.d = std::make_unique_for_overwrite<std::byte[]>(products_ * workload_.largest_d_bytes());
    slot.shapes.resize(products_);
  }
  for (size_t& shape : slot.shapes) shape = workload_.mix().Pick(shapes);
  slot.right.assign(products_, false);
  slot.due = due;
  slot.sent = Clock::now();
}

void Load::Channel::Send(Slot& slot) {
  uint64_t call = 0;
  {
    absl::MutexLock lock(&slot.mutex);
    call = ++slot.calls;
  }
  PendingCall pending = BeginCall(slot);
  absl::MutexLock lock(&slot.mutex);
  if (slot.calls == call) slot.pending = std::move(pending);  // else the next has begun already
}

PendingCall Load::Channel::BeginCall(Slot& slot) {
  const auto done = [this, &slot](const auto& report) {
    OnDone(slot, report, records_[0]);
    FreeSlot(slot);
  };
  if (batch_ > 0) return client_->MultiplyBatchAsync(ArgsOf(slot), done);
  return std::visit([&](const auto& args) { return client_->MultiplyAsync(args, done); },
                    ArgsOf(slot, 0));
}

std::vector<AnyMultiplyArgs> Load::Channel::ArgsOf(const Slot& slot) const {
  std::vector<AnyMultiplyArgs> args;
  args.reserve(products_);
  for (int i = 0; i < products_; ++i) args.push_back(ArgsOf(slot, i));
  return args;
}

void Load::Channel::OnAnswer(Slot& slot, const MultiplyReport& report, Tally& tally) {
  tally.AddProduct(workload_.mix().shapes()[slot.shapes[0]], report, 1.0);
  slot.right[0] = true;
}

void Load::Channel::OnAnswer(Slot& slot, const MultiplyBatchReport& report, Tally& tally) {
  const auto right = std::count_if(report.products.begin(), report.products.end(),
                                   [](const auto& product) { return product.ok(); });
  for (int i = 0; i < products_; ++i) {
    const absl::StatusOr<MultiplyReport>& product = report.products[i];
    if (!product.ok()) {
      tally.AddError(product.status().code());
      failed_.fetch_add(1, std::memory_order_relaxed);
      continue;
    }
    tally.AddProduct(workload_.mix().shapes()[slot.shapes[i]], *product,
                     1.0 / static_cast<double>(right));
    slot.right[i] = true;
  }
}

template <typename Report>
void Load::Channel::OnDone(Slot& slot, const absl::StatusOr<Report>& report, Record& record) {
  const Time now = Clock::now();
  record.last_end = now;
  if (report.ok()) {
    record.tally.AddCall(now - slot.due, slot.sent - slot.due);
    OnAnswer(slot, *report, record.tally);
    answered_.fetch_add(1, std::memory_order_relaxed);
  } else if (!stopping_ || !absl::IsCancelled(report.status())) {
    record.tally.AddError(report.status().code());
    failed_.fetch_add(1, std::memory_order_relaxed);
  }
}

void Load::Channel::FreeSlot(Slot& slot) {
  absl::MutexLock lock(&mutex_);
  --busy_;
  free_.push_back(&slot);
  slot_freed_.Signal();
}

void Load::Channel::Cancel() {
  if (!stopping_) stopped_at_ = Clock::now();
  stopping_ = true;
  client_->CancelCalls();
  for (const auto& slot : slots_) {
    PendingCall pending;
    {
      absl::MutexLock lock(&slot->mutex);
      pending = slot->pending;
    }
    pending.Cancel();
  }
}

Tally Load::Channel::Finish() {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  Tally tally;
  for (const Record& record : records_) {
    tally.Merge(record.tally);
    last_end_ = std::max(last_end_, record.last_end);
  }
  absl::MutexLock lock(&mutex_);
  tally.AddUnsent(unsent_);
  return tally;
}

absl::Status Load::Channel::CheckResults(int slots) const {
  for (const auto& slot : slots_) {
    const auto right = std::find(slot->right.begin(), slot->right.end(), true);
    if (right == slot->right.end()) continue;
    if (slots-- == 0) break;
    const int product = static_cast<int>(right - slot->right.begin());
    absl::Status status = workload_.Check(slot->shapes[product], product, ResultOf(*slot, product));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

Load::Load(const LoadSettings& settings, const Workload& workload)
    : settings_(settings), workload_(workload) {}

Load::~Load() = default;

absl::StatusOr<std::unique_ptr<Load>> Load::Create(const LoadSettings& settings,
                                                   const Workload& workload) {
  std::unique_ptr<Load> load(new Load(settings, workload));
  ClientOptions options = settings.client;
  options.max_retries = 0;  // what the server refuses is counted rather than tried again
  for (int i = 0; i < settings.channels; ++i) {
    absl::StatusOr<Client> client = Client::Connect(options);
    if (!client.ok()) return client.status();
    load->channels_.push_back(
        std::make_unique<Channel>(*std::move(client), workload, settings.batch));
  }
  return load;
}

Tally Load::Run(const LoadPoint& point, absl::Duration duration, uint64_t stream,
                absl::FunctionRef<bool(const LoadProgress&)> go_on) {
  const auto channels = static_cast<int>(channels_.size());
  Random seeds(settings_.seed, stream);
  // i's part of `all`, as even as whole numbers can be.
  const auto part = [channels](int all, int i) { return all / channels + (i < all % channels); };
  const Time start = Clock::now();
  const Time end = start + absl::ToChronoNanoseconds(duration);
  for (int i = 0; i < channels; ++i) {
    const Random random(static_cast<uint64_t>(seeds.Uniform() * 0x1p53), i);
    if (point.open()) {
      channels_[i]->BeginOpen(point.rate / channels, std::max(part(settings_.outstanding, i), 1),
                              start, end, random);
    } else {
      channels_[i]->BeginClosed(part(point.callers, i), end, random);
    }
  }
  std::optional<Time> stopped;
  const auto idle = [](const auto& channel) { return channel->idle(); };
  for (auto glance = std::chrono::milliseconds(1);
       !std::all_of(channels_.begin(), channels_.end(), idle);
       glance = std::min<std::chrono::milliseconds>(glance * 2, kGlance)) {
    std::this_thread::sleep_for(glance);
    LoadProgress progress{.elapsed = absl::FromChrono(Clock::now() - start)};
    for (const auto& channel : channels_) {
      progress.calls += channel->answered();
      progress.errors += channel->failed();
    }
    if (!stopped && !go_on(progress)) stopped = Clock::now();
    // Again and again: a call may have been about to begin.
    if (stopped) std::for_each(channels_.begin(), channels_.end(), [](auto& c) { c->Cancel(); });
  }
  Tally tally;
  Time last = stopped.value_or(end);
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
