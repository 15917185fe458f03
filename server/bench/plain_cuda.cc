#include "server/bench/plain_cuda.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <latch>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "kernels/copy_pieces.h"
#include "kernels/cuda_device_info.h"
#include "kernels/cuda_raii.h"
#include "kernels/cuda_status.h"
#include "kernels/registry.h"
#include "kernels/select.h"
#include "server/bench/closed_loop.h"
#include "server/engine/job.h"

namespace gemm::bench {
namespace {

void Check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "engine_bench: %s\n", CudaErrorText(error).c_str());
  std::exit(1);
}

}  // namespace

PlainCuda MeasurePlainCuda(const Problem& problem, const std::string& force_kernel, int rounds) {
  Check(cudaSetDevice(0));
  DeviceInfo info;
  Check(ReadDeviceInfo(0, &info));
  const KernelRef kernel = Select(problem, info, Families(), force_kernel).kernel;
  if (kernel.family == nullptr) {
    std::fprintf(stderr, "engine_bench: no kernel for the product\n");
    std::exit(1);
  }
  Check(kernel.family->Prepare(info));
  const std::span<const Problem> problems(&problem, 1);
  const Plan plan = kernel.family->MakePlan(problems, info, kernel.config);

  const auto bytes_of = [](int64_t rows, int64_t columns) {
    return static_cast<size_t>(rows * columns) * sizeof(float);
  };
  const size_t b_offset = AlignedSize(bytes_of(problem.m, problem.k));
  const size_t in_bytes = b_offset + bytes_of(problem.k, problem.n);
  const size_t out_bytes = bytes_of(problem.m, problem.n);
  PinnedBuffer in, out, args;
  DeviceBuffer device_in, device_out, device_args, workspace;
  Check(in.Create(in_bytes));
  Check(out.Create(out_bytes));
  Check(args.Create(plan.args_bytes));
  Check(device_in.Create(in_bytes));
  Check(device_out.Create(out_bytes));
  Check(device_args.Create(plan.device_args_bytes));
  Check(workspace.Create(plan.workspace_bytes));
  std::fill_n(static_cast<float*>(in.data()), in_bytes / sizeof(float), 1.0F);
  Stream stream;
  Check(stream.Create());
  auto* const operands_at = static_cast<std::byte*>(device_in.data());
  const Operands operands{operands_at, operands_at + b_offset, nullptr, device_out.data()};
  kernel.family->Encode(plan, problems, std::span(&operands, 1), args.data());
  if (plan.device_args_bytes > 0) {
    Check(cudaMemcpy(device_args.data(), args.data(), plan.device_args_bytes,
                     cudaMemcpyHostToDevice));
  }

  const auto upload = [&] {
    Check(cudaMemcpyAsync(device_in.data(), in.data(), in_bytes, cudaMemcpyHostToDevice,
                          stream.get()));
  };
  const auto compute = [&] {
    Check(kernel.family->Launch(plan, args.data(), device_args.data(), workspace.data(),
                                stream.get()));
  };
  const auto wait = [&] { Check(cudaStreamSynchronize(stream.get())); };
  const auto product = [&] {
    upload();
    compute();
    Check(cudaMemcpyAsync(out.data(), device_out.data(), out_bytes, cudaMemcpyDeviceToHost,
                          stream.get()));
    wait();
  };
  const auto time = [&](auto body, double seconds) {
    body();
    wait();
    const absl::Time first = absl::Now();
    body();
    wait();
    const double once = absl::ToDoubleSeconds(absl::Now() - first);
    const int count = std::max(3, static_cast<int>(seconds / once));
    std::vector<double> each;
    for (int round = 0; round < rounds; ++round) {
      const absl::Time start = absl::Now();
      for (int i = 0; i < count; ++i) body();
      wait();
      each.push_back(absl::ToDoubleSeconds(absl::Now() - start) / count);
    }
    return Median(each);
  };
  return {.loop_s = time(product, 0.03),
          .upload_s = time(upload, 0.02),
          .kernel_s = time(compute, 0.02)};
}

double MeasureBus(int devices, double out_share, int rounds) {
  constexpr size_t kPieceBytes = size_t{512} << 10;
  constexpr size_t kPieces = 128;  // 64 MiB, more than caches keep
  constexpr int kTimes = 16;       // 20 ms
  const auto out_bytes = static_cast<size_t>(out_share * kPieceBytes) / 16 * 16;
  struct Copies {
    int device;
    PinnedBuffer host_in, host_out;
    DeviceBuffer device_in, device_out;
    Stream in, out;
    std::vector<CopyPiece> pieces_in, pieces_out;
  };
  std::vector<std::unique_ptr<Copies>> all;
  for (int device = 0; device < devices; ++device) {
    Copies& copies = *all.emplace_back(std::make_unique<Copies>());
    copies.device = device;
    Check(cudaSetDevice(device));
    Check(copies.host_in.Create(kPieces * kPieceBytes));
    Check(copies.host_out.Create(kPieces * out_bytes));
    Check(copies.device_in.Create(kPieces * kPieceBytes));
    Check(copies.device_out.Create(kPieces * out_bytes));
    Check(copies.in.Create());
    Check(copies.out.Create());
    const auto at = [](void* data, size_t offset) {
      return static_cast<std::byte*>(data) + offset;
    };
    for (size_t i = 0; i < kPieces; ++i) {
      copies.pieces_in.push_back({at(copies.host_in.data(), i * kPieceBytes),
                                  at(copies.device_in.data(), i * kPieceBytes), kPieceBytes});
      if (out_bytes == 0) continue;
      copies.pieces_out.push_back({at(copies.device_out.data(), i * out_bytes),
                                   at(copies.host_out.data(), i * out_bytes), out_bytes});
    }
  }

  double best = 0;
  for (int round = 0; round <= rounds; ++round) {  // the first does not count
    std::latch ready(devices + 1);
    std::vector<std::thread> threads;
    threads.reserve(all.size());
    for (const auto& copies : all) {
      threads.emplace_back([&ready, &copies = *copies] {
        Check(cudaSetDevice(copies.device));
        ready.arrive_and_wait();
        for (int i = 0; i < kTimes; ++i) {
          Check(RequestCopyPieces(copies.pieces_in, copies.in.get()));
          Check(RequestCopyPieces(copies.pieces_out, copies.out.get()));
        }
        Check(cudaStreamSynchronize(copies.in.get()));
        Check(cudaStreamSynchronize(copies.out.get()));
      });
    }
    ready.arrive_and_wait();
    const absl::Time start = absl::Now();
    for (std::thread& thread : threads) thread.join();
    const double bytes = static_cast<double>(kPieces * kPieceBytes) * kTimes * devices;
    const double rate = bytes / absl::ToDoubleSeconds(absl::Now() - start);
    if (round > 0) best = std::max(best, rate);
  }
  return best;
}

}  // namespace gemm::bench
