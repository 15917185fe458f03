#include "server/engine/cuda_lane.h"

#include <cuda.h>

#include <algorithm>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "kernels/cuda_status.h"
#include "server/engine/clock.h"
#include "server/engine/cuda_failure.h"

namespace gemm {
namespace {

constexpr size_t kArgsBytes = 64 << 10;  // grown when a batch asks for more

// Large operands are asked for in chunks, CudaLane::chunks_ of them at a time, so that a copy for a
// small batch gets between them. Short chunks are over before the thread has woken to ask for the
// next: they are for when small batches are about.
constexpr size_t kChunkBytes = size_t{8} << 20;
constexpr size_t kChunkBytesBesideSmall = size_t{4} << 20;

// On the short road a kernel copies what is little. A copy engine takes 2 us to begin, and what
// follows it as long to notice the end; it is faster for a piece of more than kMostAlone, and keeps
// the bus busier with several that are more than kMostTogether in all and not too short.
constexpr size_t kMostAlone = size_t{2} << 20;
constexpr size_t kMostTogether = size_t{512} << 10;
constexpr size_t kLeastMeanPiece = size_t{16} << 10;

// Beside large batches a kernel waits until a block of theirs ends, which may take a millisecond,
// so up to so many pieces are left to a copy engine.
constexpr size_t kMostBesideLarge = 4;

bool IsForEngine(std::span<const CopyPiece> pieces, bool beside_large) {
  if (beside_large && pieces.size() <= kMostBesideLarge) return true;
  size_t bytes = 0;
  for (const CopyPiece& piece : pieces) bytes += piece.bytes;
  if (pieces.size() == 1) return bytes > kMostAlone;
  return bytes > kMostTogether && bytes >= pieces.size() * kLeastMeanPiece;
}

// How long a lane looks for the end of a batch without pause. Sleeping and waking take longer than
// a small batch; one that takes longer waits for room on the device.
constexpr absl::Duration kSpin = absl::Microseconds(200);
constexpr auto kNap = std::chrono::microseconds(50);

// Looking at a number in host memory costs no CUDA call, whose locks would hold up the other lanes'
// launches. The runtime has no such function.
using StreamWriteValue = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
StreamWriteValue FindStreamWriteValue() {
  constexpr unsigned kVersion = 12000;
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error = cudaGetDriverEntryPointByVersion("cuStreamWriteValue32", &function,
                                                             kVersion, cudaEnableDefault, &found);
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess) return nullptr;
  return reinterpret_cast<StreamWriteValue>(function);
}

// Stream-ordered device memory, given back to the device's pool in stream order.
class AsyncBuffer {
 public:
  explicit AsyncBuffer(cudaStream_t stream) : stream_(stream) {}
  ~AsyncBuffer() {
    if (data_ != nullptr) cudaFreeAsync(data_, stream_);
  }
  AsyncBuffer(const AsyncBuffer&) = delete;
  AsyncBuffer& operator=(const AsyncBuffer&) = delete;

  cudaError_t Create(size_t bytes) {
    return bytes == 0 ? cudaSuccess : cudaMallocAsync(&data_, bytes, stream_);
  }
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  cudaStream_t stream_;
  void* data_ = nullptr;
};

absl::Duration Between(const Event& from, const Event& to) {
  float milliseconds = 0;
  if (cudaEventElapsedTime(&milliseconds, from.get(), to.get()) != cudaSuccess) {
    return absl::ZeroDuration();
  }
  return absl::Milliseconds(milliseconds);
}

}  // namespace

absl::Status CudaLane::Open() {
  // Blocks of a higher-priority stream go first whenever a multiprocessor has room, so small
  // products wait for blocks of a large one, not for all of it.
  int lowest = 0;
  int highest = 0;
  GEMM_RETURN_IF_CUDA_FAILS("cudaDeviceGetStreamPriorityRange",
                            cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  GEMM_RETURN_IF_CUDA_FAILS("creating a stream",
                            stream_.Create(kind_ == LaneKind::kAny ? lowest : highest));
  GEMM_RETURN_IF_CUDA_FAILS("allocating launch arguments", args_.Create(kArgsBytes));
  GEMM_RETURN_IF_CUDA_FAILS("allocating a lane's memory", scratch_.Create(scratch_bytes()));
  GEMM_RETURN_IF_CUDA_FAILS("allocating a lane's memory", done_.Create(sizeof(uint32_t)));
  *static_cast<uint32_t*>(done_.data()) = batches_;
  GEMM_RETURN_IF_CUDA_FAILS("creating an event", short_copied_.Create(cudaEventDisableTiming));

  for (Event* event : {&start_, &copied_in_, &computed_}) {
    GEMM_RETURN_IF_CUDA_FAILS("creating an event", event->Create());
  }
  // Waiting for a large batch puts the thread to sleep.
  GEMM_RETURN_IF_CUDA_FAILS("creating an event", copied_out_.Create(cudaEventBlockingSync));
  for (Event& chunk : chunks_) {
    GEMM_RETURN_IF_CUDA_FAILS("creating an event",
                              chunk.Create(cudaEventDisableTiming | cudaEventBlockingSync));
  }
  return absl::OkStatus();
}

absl::Status CudaLane::Run(CudaBatch& batch, absl::Duration* compute, bool* poisoned) {
  *poisoned = false;
  absl::Status status =
      batch.road() == CudaRoad::kLong ? RunLong(batch, compute) : RunShort(batch, compute);
  if (status.ok()) return status;
  *poisoned = IsPoisoning(cudaStreamSynchronize(stream_.get()));
  cudaGetLastError();
  return status;
}

// CUDA calls of the commonest batch, products that share one launch: one to bring operands in, the
// launch, one to bring results out unless they are few, and one to say that it is done.
absl::Status CudaLane::RunShort(CudaBatch& batch, absl::Duration* compute) {
  auto* const memory = static_cast<std::byte*>(scratch_.data());
  absl::Status status = Encode(batch, memory);
  if (!status.ok()) return status;
  const absl::Time start = SteadyNow();
  status = CopyOver(batch, memory);
  if (!status.ok()) return status;
  status = CopyShort(PiecesIn(batch, memory), cudaMemcpyHostToDevice);
  if (!status.ok()) return status;
  Launch(batch, memory);
  status = CopyShort(PiecesOut(batch, memory), cudaMemcpyDeviceToHost);
  if (!status.ok()) return status;
  status = SignalDone();
  if (!status.ok()) return status;
  status = WaitForDone();
  if (!status.ok()) return status;
  // Events that take the time cost 2 us and more: it is the host's, and the copies are part of it.
  const absl::Duration took = SteadyNow() - start;
  *compute += took;
  for (const CudaTask& task : batch.tasks()) task.product->report.compute = took;
  return absl::OkStatus();
}

absl::Status CudaLane::RunLong(CudaBatch& batch, absl::Duration* compute) {
  const cudaStream_t stream = stream_.get();
  const TakenBytes taken(shared_.memory, batch.device_bytes());
  shared_.long_roads.fetch_add(1, std::memory_order_relaxed);
  const auto leave =
      absl::MakeCleanup([this] { shared_.long_roads.fetch_sub(1, std::memory_order_relaxed); });
  AsyncBuffer memory(stream);
  GEMM_RETURN_IF_CUDA_FAILS("operands and result", memory.Create(batch.device_bytes()));
  absl::Status status = Encode(batch, memory.data());
  if (!status.ok()) return status;

  status = CopyOver(batch, memory.data());
  if (!status.ok()) return status;
  status = CopyInLong(PiecesIn(batch, memory.data()));
  if (!status.ok()) return status;
  GEMM_RETURN_IF_CUDA_FAILS("recording an event", cudaEventRecord(copied_in_.get(), stream));
  Launch(batch, memory.data());
  GEMM_RETURN_IF_CUDA_FAILS("recording an event", cudaEventRecord(computed_.get(), stream));
  GEMM_RETURN_IF_CUDA_FAILS("copying results out",
                            RequestCopyPieces(PiecesOut(batch, memory.data()), stream));
  GEMM_RETURN_IF_CUDA_FAILS("recording an event", cudaEventRecord(copied_out_.get(), stream));
  GEMM_RETURN_IF_CUDA_FAILS("computing", cudaEventSynchronize(copied_out_.get()));

  const absl::Duration computed = Between(copied_in_, computed_);
  *compute += computed;
  for (const CudaTask& task : batch.tasks()) {
    ExecutionReport& report = task.product->report;
    report.copy_in = Between(start_, copied_in_);
    report.compute = computed;
    report.copy_out = Between(computed_, copied_out_);
  }
  return absl::OkStatus();
}

absl::Status CudaLane::Encode(const CudaBatch& batch, std::byte* memory) {
  if (batch.args_bytes() > args_.bytes()) {
    GEMM_RETURN_IF_CUDA_FAILS("launch arguments",
                              args_.Create(std::max(batch.args_bytes(), 2 * args_.bytes())));
  }
  batch.Encode(memory, static_cast<std::byte*>(args_.data()));
  return absl::OkStatus();
}

std::vector<CopyPiece> CudaLane::PiecesIn(const CudaBatch& batch, std::byte* memory) const {
  std::vector<CopyPiece> pieces;
  pieces.reserve(batch.copies_in().size() + 1);
  if (batch.table_bytes() > 0) {
    pieces.push_back({args_.data(), memory + batch.tables_offset(), batch.table_bytes()});
  }
  for (const CudaCopy& copy : batch.copies_in()) {
    pieces.push_back({copy.host, memory + copy.device_offset, copy.bytes});
  }
  return pieces;
}

std::vector<CopyPiece> CudaLane::PiecesOut(const CudaBatch& batch, std::byte* memory) {
  std::vector<CopyPiece> pieces;
  pieces.reserve(batch.copies_out().size());
  for (const CudaCopy& copy : batch.copies_out()) {
    pieces.push_back({memory + copy.device_offset, copy.host, copy.bytes});
  }
  return pieces;
}

absl::Status CudaLane::CopyShort(std::span<const CopyPiece> pieces, cudaMemcpyKind kind) {
  if (pieces.empty()) return absl::OkStatus();
  const bool beside_large = shared_.long_roads.load(std::memory_order_relaxed) > 0;
  if (!IsForEngine(pieces, beside_large)) {
    GEMM_RETURN_IF_CUDA_FAILS("copying small pieces", LaunchCopyPieces(pieces, stream_.get()));
    return absl::OkStatus();
  }
  GEMM_RETURN_IF_CUDA_FAILS("copying small pieces", RequestCopyPieces(pieces, stream_.get()));
  if (beside_large && kind == cudaMemcpyHostToDevice) {
    shared_.short_copies.fetch_add(1, std::memory_order_relaxed);
    GEMM_RETURN_IF_CUDA_FAILS("recording an event",
                              cudaEventRecord(short_copied_.get(), stream_.get()));
    const std::lock_guard lock(shared_.mutex);
    std::vector<cudaEvent_t>& let_pass = shared_.let_pass;
    if (std::find(let_pass.begin(), let_pass.end(), short_copied_.get()) == let_pass.end()) {
      let_pass.push_back(short_copied_.get());
    }
  }
  return absl::OkStatus();
}

absl::Status CudaLane::LetShortCopiesPass() {
  const std::lock_guard lock(shared_.mutex);
  for (const cudaEvent_t copied : shared_.let_pass) {
    GEMM_RETURN_IF_CUDA_FAILS("waiting for small copies",
                              cudaStreamWaitEvent(stream_.get(), copied));
  }
  shared_.let_pass.clear();
  return absl::OkStatus();
}

absl::Status CudaLane::CopyOver(const CudaBatch& batch, std::byte* memory) {
  if (batch.copies_over().empty()) return absl::OkStatus();
  int ordinal = 0;
  GEMM_RETURN_IF_CUDA_FAILS("cudaGetDevice", cudaGetDevice(&ordinal));
  for (const CudaCopyOver& copy : batch.copies_over()) {
    GEMM_RETURN_IF_CUDA_FAILS("copying operands from another GPU",
                              cudaMemcpyPeerAsync(memory + copy.device_offset, ordinal, copy.from,
                                                  copy.from_device, copy.bytes, stream_.get()));
  }
  return absl::OkStatus();
}

absl::Status CudaLane::CopyInLong(std::span<const CopyPiece> pieces) {
  const cudaStream_t stream = stream_.get();
  // One lane after another: of two that share the bus, both would compute later.
  const std::lock_guard turn(shared_.upload);
  GEMM_RETURN_IF_CUDA_FAILS("recording an event", cudaEventRecord(start_.get(), stream));
  const uint64_t short_copies = shared_.short_copies.load(std::memory_order_relaxed);
  const size_t chunk_bytes =
      short_copies == shared_.short_copies_before ? kChunkBytes : kChunkBytesBesideSmall;
  shared_.short_copies_before = short_copies;
  size_t chunks = 0;
  for (const CopyPiece& piece : pieces) {
    for (size_t at = 0; at < piece.bytes; at += chunk_bytes) {
      const cudaEvent_t chunk = chunks_[chunks++ % chunks_.size()].get();
      GEMM_RETURN_IF_CUDA_FAILS("copying operands in", cudaEventSynchronize(chunk));
      if (absl::Status status = LetShortCopiesPass(); !status.ok()) return status;
      GEMM_RETURN_IF_CUDA_FAILS(
          "copying operands in",
          cudaMemcpyAsync(static_cast<std::byte*>(piece.to) + at,
                          static_cast<const std::byte*>(piece.from) + at,
                          std::min(chunk_bytes, piece.bytes - at), cudaMemcpyHostToDevice, stream));
      GEMM_RETURN_IF_CUDA_FAILS("recording an event", cudaEventRecord(chunk, stream));
    }
  }
  return absl::OkStatus();
}

void CudaLane::Launch(CudaBatch& batch, std::byte* memory) {
  auto* const args = static_cast<std::byte*>(args_.data());
  std::byte* const tables = memory + batch.tables_offset();
  for (const CudaLaunch& launch : batch.launches()) {
    const cudaError_t error = launch.kernel.family->Launch(
        launch.plan, args + launch.args_offset, tables + launch.args_offset, memory, stream_.get());
    if (error == cudaSuccess) continue;
    const absl::Status status = CudaFailure(launch.kernel.get().name, error);
    for (const CudaTask& task : launch.tasks) task.product->status = status;
  }
}

absl::Status CudaLane::SignalDone() {
  static const StreamWriteValue write_value = FindStreamWriteValue();
  if (write_value == nullptr) return CudaFailure("cuStreamWriteValue32", cudaErrorNotSupported);
  ++batches_;
  if (write_value(stream_.get(), reinterpret_cast<CUdeviceptr>(done_.data()), batches_, 0) !=
      CUDA_SUCCESS) {
    const cudaError_t error = cudaStreamQuery(stream_.get());  // says what is wrong, if it knows
    return CudaFailure("cuStreamWriteValue32", IsPoisoning(error) ? error : cudaErrorUnknown);
  }
  return absl::OkStatus();
}

absl::Status CudaLane::WaitForDone() {
  const std::atomic_ref<uint32_t> done(*static_cast<uint32_t*>(done_.data()));
  const absl::Time start = SteadyNow();
  while (done.load(std::memory_order_acquire) != batches_) {
    if (SteadyNow() - start < kSpin) continue;
    std::this_thread::sleep_for(kNap);
    const cudaError_t error = cudaStreamQuery(stream_.get());  // after an error it is never done
    if (error != cudaSuccess && error != cudaErrorNotReady) return CudaFailure("computing", error);
  }
  return absl::OkStatus();
}

}  // namespace gemm
