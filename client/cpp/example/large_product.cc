// large_product ADDRESS [SIZE]: squares of any size multiplied from host memory to host memory, and
// how long that takes. b is put on the server; then panels of rows of a go there, and come back as
// rows of d, over many connections at once, so that transfer, computation and return overlap.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gemmd/client.h"
#include "gemmd/tune_process.h"

namespace {

constexpr int64_t kPanelBytes = 4 << 20;
constexpr int kConnections = 16;
constexpr int kRounds = 5;

int Fail(const absl::Status& status) {
  std::cerr << status << "\n";
  return EXIT_FAILURE;
}

// d = a b, all of size x size; b is on the server. Each client has a thread of its own.
absl::Status MultiplyInPanels(const std::vector<gemm::Client>& clients, const std::string& b,
                              int64_t size, std::span<const float> a, std::span<float> d) {
  const int64_t panel_rows = std::max<int64_t>(1, kPanelBytes / (size * int64_t{sizeof(float)}));
  std::atomic<int64_t> next_row = 0;
  std::mutex mutex;
  absl::Status failure;
  std::vector<std::thread> threads;
  for (const gemm::Client& client : clients) {
    threads.emplace_back([&] {
      for (int64_t begin = 0; (begin = next_row.fetch_add(panel_rows)) < size;) {
        const int64_t rows = std::min(panel_rows, size - begin);
        const absl::StatusOr<gemm::MultiplyReport> report =
            client.Multiply<float>({.m = rows,
                                    .n = size,
                                    .k = size,
                                    .a = {.data = a.subspan(begin * size, rows * size)},
                                    .b = {.matrix = {.name = b}},
                                    .d = {.data = d.subspan(begin * size, rows * size)}});
        if (report.ok()) continue;
        const std::lock_guard lock(mutex);
        failure.Update(report.status());
        next_row = size;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return failure;
}

// Of small integers, whose sums are exact.
bool IsRight(int64_t size, std::span<const float> a, std::span<const float> b,
             std::span<const float> d) {
  std::mt19937 random(2);
  for (int i = 0; i < 1000; ++i) {
    const int64_t row = random() % size, column = random() % size;
    float sum = 0;
    for (int64_t p = 0; p < size; ++p) sum += a[row * size + p] * b[p * size + column];
    if (d[row * size + column] != sum) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t size = argc == 3 ? std::atoll(argv[2]) : 8192;
  if (argc < 2 || argc > 3 || argv[1][0] == '-' || size < 1) {
    std::cout << "usage: large_product HOST:PORT [SIZE]\n";
    return argc == 2 ? EXIT_SUCCESS : EXIT_FAILURE;
  }
  gemm::TuneClientProcess();
  std::vector<gemm::Client> clients;
  for (int i = 0; i < kConnections; ++i) {
    absl::StatusOr<gemm::Client> client = gemm::Client::Connect({.address = argv[1]});
    if (!client.ok()) return Fail(client.status());
    clients.push_back(*std::move(client));
  }
  std::vector<float> a(size * size), b(size * size), d(size * size);
  std::mt19937 random(1);
  for (std::vector<float>* matrix : {&a, &b}) {
    for (float& element : *matrix) element = static_cast<float>(random() >> 29) - 4;
  }

  std::vector<double> milliseconds;
  for (int round = 0; round <= kRounds; ++round) {
    std::fill(d.begin(), d.end(), NAN);
    const auto start = std::chrono::steady_clock::now();
    const absl::StatusOr<gemm::MatrixInfo> kept =
        clients[0].Put<float>({.rows = size, .columns = size, .data = b});
    if (!kept.ok()) return Fail(kept.status());
    const absl::Status status = MultiplyInPanels(clients, kept->name, size, a, d);
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - start;
    if (const absl::Status gone = clients[0].DeleteMatrix(kept->name); !gone.ok())
      return Fail(gone);
    if (!status.ok()) return Fail(status);
    if (!IsRight(size, a, b, d)) {
      std::cerr << "the product is wrong\n";
      return EXIT_FAILURE;
    }
    if (round > 0) milliseconds.push_back(taken.count());  // The first one warms up.
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  std::cout << size << " cubed from host memory and back: " << milliseconds[kRounds / 2]
            << " ms in the median of " << kRounds << ", " << milliseconds[0] << " at best\n";
  return EXIT_SUCCESS;
}
