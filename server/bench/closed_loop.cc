#include "server/bench/closed_loop.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <tuple>
#include <utility>

#include "absl/time/clock.h"

namespace gemm::bench {
namespace {

void Die(const absl::Status& status) {
  std::fprintf(stderr, "engine_bench: %s\n", status.ToString().c_str());
  std::exit(1);
}

HostBuffer Allocate(Engine& engine, size_t bytes) {
  absl::StatusOr<HostBuffer> buffer = engine.AllocateHost(bytes);
  if (!buffer.ok()) Die(buffer.status());
  return *std::move(buffer);
}

// Small integers.
void Fill(std::byte* data, size_t bytes, uint32_t state) {
  auto* const values = reinterpret_cast<float*>(data);
  for (size_t i = 0; i < bytes / sizeof(float); ++i) {
    state = state * 1664525 + 1013904223;
    values[i] = static_cast<float>(static_cast<int>(state >> 24) % 5 - 2);
  }
}

std::shared_ptr<DeviceMatrix> MakeMatrix(Engine& engine, int64_t rows, int64_t columns) {
  auto matrix = engine.AllocateMatrix(0, {DType::kF32, rows, columns});
  if (!matrix.ok()) Die(matrix.status());
  if ((*matrix)->leading_dimension() != columns) {
    Die(absl::InvalidArgumentError("rows of resident operands are multiples of 32 elements"));
  }
  return *std::move(matrix);
}

void Write(Engine& engine, const DeviceMatrix& matrix, const std::byte* from) {
  const auto next = [&from](std::byte* to, size_t bytes) {
    std::copy_n(from, bytes, to);
    from += bytes;
  };
  if (auto status = engine.WriteRows(matrix, {0, matrix.spec().rows}, next); !status.ok()) {
    Die(status);
  }
}

std::unique_ptr<Job> MakeJob(Engine& engine, const Problem& problem, unsigned seed) {
  auto job = std::make_unique<Job>();
  JobProduct& product = job->products.emplace_back();
  product.problem = problem;
  product.a = {0, static_cast<size_t>(problem.m * problem.k) * sizeof(float)};
  product.b = {AlignedSize(product.a.size_bytes),
               static_cast<size_t>(problem.k * problem.n) * sizeof(float)};
  product.output_bytes = static_cast<size_t>(problem.m * problem.n) * sizeof(float);
  job->input = Allocate(engine, product.b.offset_bytes + product.b.size_bytes);
  job->output = Allocate(engine, product.output_bytes);
  Fill(job->input.data(), job->input.size_bytes(), seed * 2654435761U + 1);
  return job;
}

// Has a job of MakeJob use matrices on the device instead. Its operands and the memory for its
// result are taken from it, to check with.
std::pair<HostBuffer, HostBuffer> MakeResident(Engine& engine, Job& job) {
  JobProduct& product = job.products.front();
  const Problem& p = product.problem;
  const auto move = [&](InputSpan& span, int64_t rows, int64_t columns) {
    const auto matrix = MakeMatrix(engine, rows, columns);
    Write(engine, *matrix, job.input.data() + span.offset_bytes);
    span = {.offset_bytes = 0, .size_bytes = span.size_bytes, .matrix = matrix};
  };
  move(product.a, p.m, p.k);
  move(product.b, p.k, p.n);
  product.result = MakeMatrix(engine, p.m, p.n);
  product.output_bytes = 0;
  job.device = 0;
  return {std::move(job.input), std::move(job.output)};
}

// Some elements of the result; sums of small integers are exact. Operands lie as MakeJob puts them.
void CheckResult(const JobProduct& product, const HostBuffer& operands, const HostBuffer& result) {
  const Problem& p = product.problem;
  const auto* a = reinterpret_cast<const float*>(operands.data());
  const auto* b = reinterpret_cast<const float*>(
      operands.data() + AlignedSize(static_cast<size_t>(p.m * p.k) * sizeof(float)));
  const auto* d = reinterpret_cast<const float*>(result.data());
  const int64_t step = std::max<int64_t>(1, p.m * p.n / 64);
  for (int64_t at = 0; at < p.m * p.n; at += step) {
    double sum = 0;
    for (int64_t l = 0; l < p.k; ++l) {
      sum += double{a[at / p.n * p.k + l]} * double{b[l * p.n + at % p.n]};
    }
    if (double{d[at]} != sum) {
      Die(absl::InternalError("a wrong result by " + std::string(product.report.kernel)));
    }
  }
}

}  // namespace

double Percentile(std::vector<double> values, double percent) {
  if (values.empty()) return 0;
  const auto at = static_cast<size_t>(percent / 100 * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

double Median(std::vector<double> values) { return Percentile(std::move(values), 50); }

struct ClosedLoop::Slot {
  std::unique_ptr<Job> job;
  HostBuffer operands, result;  // of a job whose matrices are on the device
  absl::Time submitted;
  absl::Time done;
};

struct ClosedLoop::Caller {
  std::vector<std::unique_ptr<Slot>> slots;
  std::vector<double> call_us;
  std::vector<double> queue_us;

  std::mutex mutex;
  // State below is protected by mutex.
  std::condition_variable changed;
  std::vector<Slot*> ready;
};

ClosedLoop::ClosedLoop(Engine& engine, const Load& load) : engine_(engine) {
  unsigned seed = 1;
  for (int c = 0; c < load.callers; ++c) {
    auto& caller = *callers_.emplace_back(std::make_unique<Caller>());
    for (int j = 0; j < load.jobs_each; ++j) {
      auto& slot = *caller.slots.emplace_back(std::make_unique<Slot>());
      slot.job = MakeJob(engine, load.problems[seed % load.problems.size()], seed);
      if (load.resident) std::tie(slot.operands, slot.result) = MakeResident(engine, *slot.job);
      ++seed;
    }
  }
  stopping_ = true;  // so each runs once
  Start();
  Stop();
}

ClosedLoop::~ClosedLoop() {
  for (const auto& caller : callers_) {
    for (const auto& slot : caller->slots) {
      const JobProduct& product = slot->job->products.front();
      if (product.result == nullptr) {
        CheckResult(product, slot->job->input, slot->job->output);
        continue;
      }
      const absl::Status read =
          engine_.ReadRows(*product.result, {0, product.problem.m}, slot->result.data());
      if (!read.ok()) Die(read);
      CheckResult(product, slot->operands, slot->result);
    }
  }
}

Measured ClosedLoop::Run(double seconds) {
  stopping_ = false;
  Start();
  absl::SleepFor(absl::Seconds(seconds));
  return Stop();
}

void ClosedLoop::Start() {
  started_ = absl::Now();
  for (const auto& caller : callers_) {
    threads_.emplace_back([this, &caller = *caller] { Call(caller); });
  }
}

Measured ClosedLoop::Stop() {
  stopping_ = true;
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  Measured measured;
  measured.seconds = absl::ToDoubleSeconds(absl::Now() - started_);
  for (const auto& caller : callers_) {
    measured.call_us.insert(measured.call_us.end(), caller->call_us.begin(), caller->call_us.end());
    measured.queue_us.insert(measured.queue_us.end(), caller->queue_us.begin(),
                             caller->queue_us.end());
  }
  stopping_ = false;
  return measured;
}

void ClosedLoop::Call(Caller& caller) {
  caller.call_us.clear();
  caller.queue_us.clear();
  const auto submit = [this, &caller](Slot& slot) {
    slot.job->done = [&caller, &slot](absl::Status status, std::unique_ptr<Job> job) {
      slot.done = absl::Now();
      status.Update(job->products.front().status);
      if (!status.ok()) Die(status);
      slot.job = std::move(job);
      const std::lock_guard lock(caller.mutex);
      caller.ready.push_back(&slot);
      if (caller.ready.size() == 1) caller.changed.notify_one();
    };
    slot.submitted = absl::Now();
    engine_.Submit(std::move(slot.job));
  };
  for (const auto& slot : caller.slots) submit(*slot);
  std::vector<Slot*> ready;
  for (size_t under_way = caller.slots.size(); under_way > 0;) {
    ready.clear();
    {
      std::unique_lock lock(caller.mutex);
      caller.changed.wait(lock, [&caller] { return !caller.ready.empty(); });
      ready.swap(caller.ready);
    }
    for (Slot* slot : ready) {
      caller.call_us.push_back(absl::ToDoubleMicroseconds(slot->done - slot->submitted));
      caller.queue_us.push_back(absl::ToDoubleMicroseconds(slot->job->queue));
      if (stopping_) {
        --under_way;
      } else {
        submit(*slot);
      }
    }
  }
}

}  // namespace gemm::bench
