#include "client/cli/perf/load_channel.h"

#include <sys/prctl.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "client/cli/perf/arrivals.h"

namespace gemm::cli {

void LoadChannel::Reset(int slots, int busy, LoadTime end) {
  end_ = end;
  stopping_ = false;
  answered_ = 0;
  failed_ = 0;
  last_end_ = LoadTime();
  slots_.clear();
  for (int i = 0; i < slots; ++i) slots_.push_back(std::make_unique<Slot>());
  absl::MutexLock lock(&mutex_);
  unsent_ = 0;
  free_.clear();
  for (const auto& slot : slots_) free_.push_back(slot.get());
  busy_ = busy;
}

void LoadChannel::BeginClosed(int callers, LoadTime end, Random seeds) {
  Reset(callers, callers, end);
  records_.assign(callers, Record());
  for (int i = 0; i < callers; ++i) {
    const Random shapes(static_cast<uint64_t>(seeds.Uniform() * 0x1p53), 0);
    threads_.emplace_back(
        [this, i, shapes] { CallAgainAndAgain(*slots_[i], shapes, records_[i]); });
  }
}

void LoadChannel::CallAgainAndAgain(Slot& slot, Random shapes, Record& record) {
  for (LoadTime now = LoadClock::now(); now < end_ && !stopping_; now = LoadClock::now()) {
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

void LoadChannel::BeginOpen(double rate, int outstanding, LoadTime start, LoadTime end,
                            Random seeds) {
  Reset(outstanding, /*busy=*/1, end);
  records_.assign(1, Record());
  threads_.emplace_back([this, rate, start, seeds] { SendArrivals(rate, start, seeds); });
}

void LoadChannel::SendArrivals(double rate, LoadTime start, Random seeds) {
  // By default the kernel may wake a sleeper 50 us late, which would be part of every latency.
  prctl(PR_SET_TIMERSLACK, 1);
  PoissonArrivals arrivals(rate, seeds);
  Random shapes(static_cast<uint64_t>(seeds.Uniform() * 0x1p53), 1);
  int64_t unsent = 0;
  LoadTime due = start + arrivals.Next();
  for (; due < end_ && !stopping_; due = start + arrivals.Next()) {
    for (LoadTime now = LoadClock::now(); now < due && !stopping_; now = LoadClock::now()) {
      std::this_thread::sleep_until(std::min<LoadTime>(due, now + kGlance));
    }
    if (stopping_) break;
    Slot* const slot = TakeSlot();
    if (slot == nullptr) {
      const LoadTime until = stopping_ ? std::min(end_, stopped_at_) : end_;
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
LoadChannel::Slot* LoadChannel::TakeSlot() {
  absl::MutexLock lock(&mutex_);
  for (;;) {
    const LoadTime now = LoadClock::now();
    if (now >= end_ + kGlance) return nullptr;
    if (!free_.empty()) break;
    if (now >= end_ || stopping_) return nullptr;
    slot_freed_.WaitWithTimeout(
        &mutex_, absl::FromChrono(std::min<LoadClock::duration>(end_ - now, kGlance)));
  }
  Slot* const slot = free_.back();  // the one whose memory is warm
  free_.pop_back();
  ++busy_;
  return slot;
}

void LoadChannel::Prepare(Slot& slot, Random& shapes, LoadTime due) {
  if (slot.d == nullptr) {
    slot.d = std::make_unique_for_overwrite<std::byte[]>(products_ * workload_.largest_d_bytes());
    slot.shapes.resize(products_);
  }
  for (size_t& shape : slot.shapes) shape = workload_.mix().Pick(shapes);
  slot.right.assign(products_, false);
  slot.due = due;
  slot.sent = LoadClock::now();
}

void LoadChannel::Send(Slot& slot) {
  uint64_t call = 0;
  {
    absl::MutexLock lock(&slot.mutex);
    call = ++slot.calls;
  }
  PendingCall pending = BeginCall(slot);
  absl::MutexLock lock(&slot.mutex);
  if (slot.calls == call) slot.pending = std::move(pending);  // else the next has begun already
}

PendingCall LoadChannel::BeginCall(Slot& slot) {
  const auto done = [this, &slot](const auto& report) {
    OnDone(slot, report, records_[0]);
    FreeSlot(slot);
  };
  if (batch_ > 0) return client_->MultiplyBatchAsync(ArgsOf(slot), done);
  return std::visit([&](const auto& args) { return client_->MultiplyAsync(args, done); },
                    ArgsOf(slot, 0));
}

std::vector<AnyMultiplyArgs> LoadChannel::ArgsOf(const Slot& slot) const {
  std::vector<AnyMultiplyArgs> args;
  args.reserve(products_);
  for (int i = 0; i < products_; ++i) args.push_back(ArgsOf(slot, i));
  return args;
}

void LoadChannel::OnAnswer(Slot& slot, const MultiplyReport& report, Tally& tally) {
  tally.AddProduct(workload_.mix().shapes()[slot.shapes[0]], report, 1.0);
  slot.right[0] = true;
}

void LoadChannel::OnAnswer(Slot& slot, const MultiplyBatchReport& report, Tally& tally) {
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
void LoadChannel::OnDone(Slot& slot, const absl::StatusOr<Report>& report, Record& record) {
  const LoadTime now = LoadClock::now();
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

void LoadChannel::FreeSlot(Slot& slot) {
  absl::MutexLock lock(&mutex_);
  --busy_;
  free_.push_back(&slot);
  slot_freed_.Signal();
}

void LoadChannel::Cancel() {
  if (!stopping_) stopped_at_ = LoadClock::now();
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

Tally LoadChannel::Finish() {
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

absl::Status LoadChannel::CheckResults(int slots) const {
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

}  // namespace gemm::cli
