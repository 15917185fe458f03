#include "server/engine/cuda_matrices.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/cuda_status.h"
#include "server/engine/cuda_failure.h"

namespace gemm {
namespace {

// Copies under way at once. One thread fills 5 to 10 GB/s, the bus takes 50.
constexpr int kLanes = 8;
// Long enough that starting a copy costs little beside it, short enough to stay in a core's cache.
constexpr size_t kPieceBytes = 2 << 20;

// Gives its memory back in the order of `stream`. By then nothing uses it any more.
class CudaMatrix final : public DeviceMatrix {
 public:
  CudaMatrix(int ordinal, const MatrixSpec& spec, void* data, cudaStream_t stream)
      : DeviceMatrix(ordinal, spec, data), stream_(stream) {}
  ~CudaMatrix() override {
    if (cudaSetDevice(device()) == cudaSuccess) cudaFreeAsync(data(), stream_);
    cudaGetLastError();
  }

 private:
  cudaStream_t stream_;
};

// Rows as lines of equal width: one line where there is no padding between them.
struct Lines {
  std::byte* first;
  size_t width;  // bytes
  size_t pitch;  // bytes from one line to the next
  size_t count;
};

Lines LinesOf(const DeviceMatrix& matrix, RowRange rows) {
  const auto count = static_cast<size_t>(rows.count());
  const size_t width = matrix.row_bytes();
  if (width != matrix.pitch_bytes()) {
    return {matrix.row(rows.begin), width, matrix.pitch_bytes(), count};
  }
  return {matrix.row(rows.begin), width * count, width * count, 1};
}

}  // namespace

struct CudaMatrices::Lane {
  Stream stream;
  // Filled in turn. `copied` is when a buffer may be filled again.
  struct Staging {
    PinnedBuffer buffer;
    Event copied;
  };
  std::array<Staging, 2> staging;
};

class CudaMatrices::BorrowedLane {
 public:
  explicit BorrowedLane(CudaMatrices& owner) : owner_(owner) {
    std::unique_lock lock(owner_.mutex_);
    owner_.returned_.wait(lock, [this] { return !owner_.idle_.empty(); });
    lane_ = owner_.idle_.back();
    owner_.idle_.pop_back();
  }
  ~BorrowedLane() {
    {
      const std::lock_guard lock(owner_.mutex_);
      owner_.idle_.push_back(lane_);
    }
    owner_.returned_.notify_one();
  }
  BorrowedLane(const BorrowedLane&) = delete;
  BorrowedLane& operator=(const BorrowedLane&) = delete;

  Lane& operator*() const { return *lane_; }

 private:
  CudaMatrices& owner_;
  Lane* lane_;
};

CudaMatrices::CudaMatrices(int ordinal, std::atomic<bool>& lost) : ordinal_(ordinal), lost_(lost) {}

CudaMatrices::~CudaMatrices() {
  if (pool_ != nullptr) cudaMemPoolDestroy(pool_);
  cudaGetLastError();
}

absl::Status CudaMatrices::Open() {
  GEMM_RETURN_IF_CUDA_FAILS("cudaSetDevice", cudaSetDevice(ordinal_));
  GEMM_RETURN_IF_CUDA_FAILS("creating a stream", memory_stream_.Create());
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = ordinal_;
  GEMM_RETURN_IF_CUDA_FAILS("cudaMemPoolCreate", cudaMemPoolCreate(&pool_, &properties));
  // Keeps what is freed for the next matrix: taking it from the driver stops the GPU. The budget of
  // matrices bounds it.
  uint64_t keep_all = UINT64_MAX;
  GEMM_RETURN_IF_CUDA_FAILS(
      "cudaMemPoolSetAttribute",
      cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep_all));
  for (int i = 0; i < kLanes; ++i) {
    auto lane = std::make_unique<Lane>();
    GEMM_RETURN_IF_CUDA_FAILS("creating a stream", lane->stream.Create());
    for (Lane::Staging& staging : lane->staging) {
      GEMM_RETURN_IF_CUDA_FAILS("allocating memory for copies", staging.buffer.Create(kPieceBytes));
      // The thread sleeps: others have rows to fill.
      GEMM_RETURN_IF_CUDA_FAILS("creating an event", staging.copied.Create(cudaEventDisableTiming |
                                                                           cudaEventBlockingSync));
    }
    idle_.push_back(lane.get());
    lanes_.push_back(std::move(lane));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DeviceMatrix>> CudaMatrices::Allocate(const MatrixSpec& spec) {
  GEMM_RETURN_IF_CUDA_FAILS("cudaSetDevice", cudaSetDevice(ordinal_));
  void* data = nullptr;
  GEMM_RETURN_IF_CUDA_FAILS(
      "a matrix", cudaMallocFromPoolAsync(&data, MemoryBytes(spec), pool_, memory_stream_.get()));
  auto matrix = std::make_unique<CudaMatrix>(ordinal_, spec, data, memory_stream_.get());
  // Other streams may use it from here on.
  if (const cudaError_t error = cudaStreamSynchronize(memory_stream_.get()); error != cudaSuccess) {
    if (IsPoisoning(error)) lost_.store(true, std::memory_order_release);
    return CudaFailure("allocating a matrix", error);
  }
  return matrix;
}

absl::Status CudaMatrices::WriteRows(const DeviceMatrix& matrix, RowRange rows, RowSource next) {
  const BorrowedLane lane(*this);
  return Settle(*lane, Write(*lane, matrix, rows, next));
}

absl::Status CudaMatrices::ReadRows(const DeviceMatrix& matrix, RowRange rows, std::byte* to) {
  const BorrowedLane lane(*this);
  return Settle(*lane, Read(*lane, matrix, rows, to));
}

absl::Status CudaMatrices::Settle(const Lane& lane, absl::Status status) {
  if (!status.ok()) {
    if (IsPoisoning(cudaStreamSynchronize(lane.stream.get()))) {
      lost_.store(true, std::memory_order_release);
    }
    cudaGetLastError();
  }
  return status;
}

absl::Status CudaMatrices::Write(Lane& lane, const DeviceMatrix& matrix, RowRange rows,
                                 RowSource next) const {
  GEMM_RETURN_IF_CUDA_FAILS("cudaSetDevice", cudaSetDevice(ordinal_));
  const cudaStream_t stream = lane.stream.get();
  size_t pieces = 0;
  const auto copy = [&](std::byte* to, size_t pitch, size_t width, size_t count) -> absl::Status {
    Lane::Staging& staging = lane.staging[pieces++ % lane.staging.size()];
    GEMM_RETURN_IF_CUDA_FAILS("copying rows in", cudaEventSynchronize(staging.copied.get()));
    auto* from = static_cast<std::byte*>(staging.buffer.data());
    next(from, width * count);
    GEMM_RETURN_IF_CUDA_FAILS("copying rows in",
                              count == 1
                                  ? cudaMemcpyAsync(to, from, width, cudaMemcpyHostToDevice, stream)
                                  : cudaMemcpy2DAsync(to, pitch, from, width, width, count,
                                                      cudaMemcpyHostToDevice, stream));
    GEMM_RETURN_IF_CUDA_FAILS("copying rows in", cudaEventRecord(staging.copied.get(), stream));
    return absl::OkStatus();
  };

  const Lines lines = LinesOf(matrix, rows);
  const size_t lines_each = kPieceBytes / lines.width;
  for (size_t line = 0; line < lines.count;) {
    std::byte* to = lines.first + line * lines.pitch;
    if (lines_each > 0) {
      const size_t count = std::min(lines_each, lines.count - line);
      if (absl::Status status = copy(to, lines.pitch, lines.width, count); !status.ok()) {
        return status;
      }
      line += count;
    } else {
      for (size_t at = 0; at < lines.width; at += kPieceBytes) {
        const size_t width = std::min(kPieceBytes, lines.width - at);
        if (absl::Status status = copy(to + at, width, width, 1); !status.ok()) return status;
      }
      ++line;
    }
  }
  for (const Lane::Staging& staging : lane.staging) {
    GEMM_RETURN_IF_CUDA_FAILS("copying rows in", cudaEventSynchronize(staging.copied.get()));
  }
  return absl::OkStatus();
}

absl::Status CudaMatrices::Read(Lane& lane, const DeviceMatrix& matrix, RowRange rows,
                                std::byte* to) const {
  GEMM_RETURN_IF_CUDA_FAILS("cudaSetDevice", cudaSetDevice(ordinal_));
  const cudaStream_t stream = lane.stream.get();
  const Lines lines = LinesOf(matrix, rows);
  if (lines.width <= kPieceBytes) {
    GEMM_RETURN_IF_CUDA_FAILS(
        "copying rows out",
        cudaMemcpy2DAsync(to, lines.width, lines.first, lines.pitch, lines.width, lines.count,
                          cudaMemcpyDeviceToHost, stream));
  } else {  // the pitch may be more than a strided copy takes
    for (size_t line = 0; line < lines.count; ++line) {
      GEMM_RETURN_IF_CUDA_FAILS(
          "copying rows out",
          cudaMemcpyAsync(to + line * lines.width, lines.first + line * lines.pitch, lines.width,
                          cudaMemcpyDeviceToHost, stream));
    }
  }
  Event& copied = lane.staging.front().copied;
  GEMM_RETURN_IF_CUDA_FAILS("copying rows out", cudaEventRecord(copied.get(), stream));
  GEMM_RETURN_IF_CUDA_FAILS("copying rows out", cudaEventSynchronize(copied.get()));
  return absl::OkStatus();
}

}  // namespace gemm
