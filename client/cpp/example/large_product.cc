// large_product ADDRESS [SIZE]: squares of any size multiplied from host memory to host memory, and
// how long that takes. What is larger than a message goes in panels over many connections at once,
// so that transfer, computation and return overlap.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <random>
#include <span>
#include <vector>

#include "gemmd/client.h"
#include "gemmd/tune_process.h"

namespace {

constexpr int kConnections = 16;
constexpr int kRounds = 5;

int Fail(const absl::Status& status) {
  std::cerr << status << "\n";
  return EXIT_FAILURE;
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
  gemm::PollConnectionsApart();
  const absl::StatusOr<gemm::Client> client =
      gemm::Client::Connect({.address = argv[1], .channels = kConnections});
  if (!client.ok()) return Fail(client.status());
  std::vector<float> a(size * size), b(size * size), d(size * size);
  std::mt19937 random(1);
  for (std::vector<float>* matrix : {&a, &b}) {
    for (float& element : *matrix) element = static_cast<float>(random() >> 29) - 4;
  }

  std::vector<double> milliseconds;
  for (int round = 0; round <= kRounds; ++round) {
    std::fill(d.begin(), d.end(), NAN);
    const auto start = std::chrono::steady_clock::now();
    const absl::StatusOr<gemm::MultiplyReport> report = client->Multiply<float>(
        {.m = size, .n = size, .k = size, .a = {.data = a}, .b = {.data = b}, .d = {.data = d}});
    if (!report.ok()) return Fail(report.status());
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - start;
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
