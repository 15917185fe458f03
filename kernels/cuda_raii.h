// Owners of CUDA handles. Each is move-only, empty until Create, and belongs to the device that is
// current when it is created. A destructor does not wait for work that still uses what it frees,
// except where CUDA itself does: finish the stream first.

#ifndef GEMMD_KERNELS_CUDA_RAII_H_
#define GEMMD_KERNELS_CUDA_RAII_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>

namespace gemm {

// A stream that does not synchronise with the default stream.
class Stream {
 public:
  Stream() = default;
  ~Stream() { Reset(); }
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }

  // `priority` as cudaStreamCreateWithPriority takes it; 0 is the default.
  [[nodiscard]] cudaError_t Create(int priority = 0);
  void Reset();
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event() = default;
  ~Event() { Reset(); }
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }

  // `flags` such as cudaEventDisableTiming, which makes waiting and recording cheaper.
  [[nodiscard]] cudaError_t Create(unsigned flags = cudaEventDefault);
  void Reset();
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// Device memory, aligned to 256 bytes.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  ~DeviceBuffer() { Reset(); }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  // Frees what it held first. 0 bytes leaves it empty.
  [[nodiscard]] cudaError_t Create(size_t bytes);
  void Reset();
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// Page-locked host memory.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  ~PinnedBuffer() { Reset(); }
  PinnedBuffer(PinnedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  // `flags` as cudaHostAlloc takes them. Frees what it held first. 0 bytes leaves it empty.
  [[nodiscard]] cudaError_t Create(size_t bytes, unsigned flags = cudaHostAllocPortable);
  void Reset();
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace gemm

#endif  // GEMMD_KERNELS_CUDA_RAII_H_
