// Checks our kernels and times them against the best of cuBLAS, taking turns.
//
// usage: [JSONL=file] timeout 60 build/lab_bench GROUP [SECONDS] [--cubins DIR] [--only-rebuilt]
//                                                [--once NAME]
//   GROUP           big, mid, wide, skinny, huge, small or one (4096 cubed)
//   SECONDS         of timing for each candidate list of a shape, 0.5 if not given
//   --cubins        where compiled/ and rebuilt/ are; "build" if not given
//   --only-rebuilt  no compiled form of what has been rebuilt
//   --once          for a profiler: launch the candidates whose name contains NAME three times on
//                   reals, without check, timing or cuBLAS
//
// A line each: median of the rounds and its 10th and 90th percentile, TFLOP/s, the ratio of medians
// to the best of cuBLAS with percentiles of the ratio round by round, and what the check said:
// exact on integers; then on reals equal to the sequential sum ("bits-equal") or the largest
// difference from it over sqrt(k). From 10^12 multiply-adds on, the check is against cuBLAS.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>

#include "harness/lab.h"
#include "harness/timing.h"

namespace lab {
namespace {

const std::map<std::string, std::vector<Shape>> kGroups = {
    {"one", {{4096, 4096, 4096}}},
    {"big", {{4096, 4096, 4096}, {2048, 2048, 2048}, {8192, 8192, 8192}}},
    {"huge", {{16384, 16384, 16384}}},
    {"mid",
     {{1024, 1024, 1024}, {64, 4096, 4096}, {128, 4096, 4096}, {256, 256, 8192}, {64, 64, 65536}}},
    {"wide",
     {{1536, 1536, 1536},
      {1000, 1000, 1000},
      {4096, 7168, 2048},
      {4096, 2112, 7168},
      {3072, 3072, 3072},
      {5124, 700, 2048},
      {3072, 1500, 1024},
      {8192, 8192, 64}}},
    {"small", {{512, 512, 512}, {256, 256, 256}, {4095, 4097, 4099}}},
    {"skinny",
     {{1, 4096, 4096},
      {2, 4096, 4096},
      {4, 4096, 4096},
      {8, 4096, 4096},
      {16, 4096, 4096},
      {32, 4096, 4096},
      {1, 4096, 14336},
      {8, 14336, 4096},
      {6144, 4, 2048}}},
};

struct Options {
  std::string group;
  double seconds = 0.5;
  std::string once;
};

double Median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

double Percentile(std::vector<double> x, int percent) {
  std::sort(x.begin(), x.end());
  return x[x.size() * percent / 100];
}

// Operands of one shape: enough sets that together they are more than twice the L2 cache.
struct Operands {
  float* pool = nullptr;
  float* expected = nullptr;
  std::vector<OperandSet> sets;
  size_t size_a, size_b, size_c;

  explicit Operands(const Shape& shape)
      : size_a((size_t)shape.m * shape.k),
        size_b((size_t)shape.k * shape.n),
        size_c((size_t)shape.m * shape.n) {
    auto up = [](size_t x) { return (x + 63) / 64 * 64; };
    const size_t size = up(size_a) + up(size_b) + up(size_c);
    const int count =
        (int)std::max<size_t>(2, std::min<size_t>(64, (130ull << 20) / (size * 4) + 1));
    // Of a smaller A no variant wants the transpose, and TMA wants rows of 16 bytes.
    const bool transposed = size_a * 4 >= (1 << 18) && shape.m % 4 == 0;
    const size_t transposed_size = transposed ? up(size_a) : 0;
    LAB_CHECK(cudaMalloc(&pool, ((size + transposed_size) * count + 64) * 4));
    LAB_CHECK(cudaMalloc(&expected, size_c * 4));
    for (int i = 0; i < count; ++i) {
      float* a = pool + size * i;
      sets.push_back({a, a + up(size_a), a + up(size_a) + up(size_b),
                      transposed ? pool + size * count + transposed_size * i : nullptr});
    }
  }
  ~Operands() {
    cudaFree(pool);
    cudaFree(expected);
  }
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;

  void Fill(bool integers, cudaStream_t stream) {
    for (size_t i = 0; i < sets.size(); ++i) {
      auto fill = integers ? FillIntegers : FillReals;
      fill(sets[i].a, size_a, 1 + 2 * i, stream);
      fill(sets[i].b, size_b, 2 + 2 * i, stream);
    }
  }
};

// What each candidate computes on set 1, in words. Outputs and workspace are NaN before. Leaves
// random reals in all sets.
std::vector<std::string> Check(Context& context, Peer& peer, const Shape& shape, Operands& operands,
                               const std::vector<Candidate>& candidates) {
  std::vector<std::string> notes(candidates.size());
  const OperandSet& set = operands.sets[1];
  cudaStream_t stream = context.stream;
  context.checking = true;
  for (bool integers : {true, false}) {
    operands.Fill(integers, stream);
    if (shape.flops() < 2e12) {
      Reference(set, operands.expected, shape, stream);
    } else {
      peer.Multiply(set, operands.expected, shape);
    }
    for (size_t q = 0; q < candidates.size(); ++q) {
      LAB_CHECK(cudaMemsetAsync(set.c, 0xff, operands.size_c * 4, stream));
      LAB_CHECK(cudaMemsetAsync(context.workspace, 0xff,
                                std::min(context.workspace_bytes, operands.size_c * 64 * 4),
                                stream));
      if (set.a_transposed != nullptr) {
        LAB_CHECK(cudaMemsetAsync(set.a_transposed, 0xff, operands.size_a * 4, stream));
      }
      candidates[q].launch(1, stream);
      const Difference d = Compare(set.c, operands.expected, operands.size_c, stream);
      char text[96];
      if (integers) {
        std::snprintf(text, sizeof text, d.different || d.nans ? "INTFAIL(%u,%u)" : "int-exact",
                      d.different, d.nans);
      } else {
        std::snprintf(text, sizeof text,
                      d.nans        ? " NAN"
                      : d.different ? " diff %.2g*sqrt(k)"
                                    : " bits-equal",
                      d.largest / std::sqrt((double)shape.k));
      }
      notes[q] += text;
    }
  }
  context.checking = false;
  return notes;
}

void Bench(Context& context, Peer& peer, const Shape& shape, const Options& options, FILE* json) {
  Operands operands(shape);
  cudaStream_t stream = context.stream;
  std::vector<Candidate> ours = OurCandidates(context, shape, operands.sets);
  if (!options.once.empty()) {
    operands.Fill(false, stream);
    context.checking = true;  // so that a given A^T is there
    for (const Candidate& c : ours) {
      if (c.name.find(options.once) == std::string::npos) continue;
      for (int i = 0; i < 3; ++i) c.launch(i, stream);
      LAB_CHECK(cudaStreamSynchronize(stream));
    }
    context.checking = false;
    return;
  }
  const std::vector<std::string> notes = Check(context, peer, shape, operands, ours);
  if (operands.sets[0].a_transposed != nullptr) {
    for (const OperandSet& set : operands.sets) MakeTransposed(set, shape, stream);
  }

  // The best of cuBLAS, alone.
  std::vector<Candidate> peers = peer.Candidates(shape, operands.sets);
  LAB_CHECK(cudaStreamSynchronize(stream));
  double estimate = 1e30;
  {
    Timer timer(peers[0], {false, 1}, stream);
    for (int i = 0; i < 3; ++i) estimate = std::min(estimate, timer.Measure(i));
  }
  const bool graph = estimate < 400;
  const Repeats repeats = {graph, graph ? std::max(4, std::min(40, (int)(600 / estimate))) : 1};
  size_t best = 0;
  double best_us = 1e30;
  for (size_t q = 0; q < peers.size(); ++q) {
    Timer timer(peers[q], repeats, stream);
    std::vector<double> times;
    for (int i = 0; i < (estimate > 20000 ? 2 : 5); ++i) times.push_back(timer.Measure(i));
    if (Median(times) < best_us) {
      best_us = Median(times);
      best = q;
    }
  }

  // All in turns, each round from another one on; two rounds warm up.
  std::vector<Candidate> all = {{"cublas:" + peers[best].name, peers[best].launch}};
  all.insert(all.end(), ours.begin(), ours.end());
  std::vector<std::unique_ptr<Timer>> timers;
  for (const Candidate& c : all) timers.push_back(std::make_unique<Timer>(c, repeats, stream));
  const double round_seconds = best_us * repeats.count * all.size() * 1e-6;
  const int rounds = (int)std::max(5.0, std::min(60.0, options.seconds / round_seconds));
  std::vector<std::vector<double>> times(all.size());
  for (int round = -2; round < rounds; ++round) {
    for (size_t q = 0; q < all.size(); ++q) {
      const size_t x = (q + std::max(round, 0)) % all.size();
      const double us = timers[x]->Measure(round + 2);
      if (round >= 0) times[x].push_back(us);
    }
  }
  LAB_CHECK(cudaStreamSynchronize(stream));
  LAB_CHECK(cudaGetLastError());

  std::printf("== %dx%dx%d sets %zu %s reps %d rounds %d peers %zu\n", shape.m, shape.n, shape.k,
              operands.sets.size(), graph ? "graph" : "events", repeats.count, rounds,
              peers.size());
  const double base = Median(times[0]);
  for (size_t q = 0; q < all.size(); ++q) {
    std::vector<double> ratios;
    for (size_t i = 0; i < times[q].size(); ++i) ratios.push_back(times[0][i] / times[q][i]);
    const double us = Median(times[q]), tflops = shape.flops() / us / 1e6;
    const double p10 = Percentile(times[q], 10), p90 = Percentile(times[q], 90);
    const double r10 = Percentile(ratios, 10), r90 = Percentile(ratios, 90);
    const char* check = q ? notes[q - 1].c_str() : "";
    std::printf("%-42s %10.2f us [%.2f..%.2f] %6.2f TF  ratio %.3f [%.3f..%.3f]  %s\n",
                all[q].name.c_str(), us, p10, p90, tflops, base / us, r10, r90, check);
    if (json != nullptr) {
      std::fprintf(json,
                   "{\"m\":%d,\"n\":%d,\"k\":%d,\"name\":\"%s\",\"us\":%.3f,\"p10\":%.3f,"
                   "\"p90\":%.3f,\"tflops\":%.3f,\"ratio\":%.4f,\"r10\":%.4f,\"r90\":%.4f,"
                   "\"rounds\":%d,\"graph\":%d,\"check\":\"%s\"}\n",
                   shape.m, shape.n, shape.k, all[q].name.c_str(), us, p10, p90, tflops, base / us,
                   r10, r90, rounds, graph, check);
      std::fflush(json);
    }
  }
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  Context context = {};
  context.cubin_dir = "build";
  Options options;
  int position = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--cubins" && i + 1 < argc) {
      context.cubin_dir = argv[++i];
    } else if (argument == "--only-rebuilt") {
      context.only_rebuilt = true;
    } else if (argument == "--once" && i + 1 < argc) {
      options.once = argv[++i];
    } else if (position++ == 0) {
      options.group = argument;
    } else {
      options.seconds = std::atof(argv[i]);
    }
  }
  auto group = kGroups.find(options.group);
  if (group == kGroups.end()) {
    std::fprintf(stderr, "usage: see the head of harness/lab_bench.cu; groups:");
    for (const auto& [name, shapes] : kGroups) std::fprintf(stderr, " %s", name.c_str());
    std::fprintf(stderr, "\n");
    return 2;
  }

  cudaDeviceProp device;
  LAB_CHECK(cudaGetDeviceProperties(&device, 0));
  context.sms = device.multiProcessorCount;
  LAB_CHECK(cudaStreamCreateWithFlags(&context.stream, cudaStreamNonBlocking));
  context.workspace_bytes = size_t{512} << 20;
  LAB_CHECK(cudaMalloc(&context.workspace, context.workspace_bytes));
  LAB_CHECK(cudaMalloc(&context.counters, 1 << 16));
  LAB_CHECK(cudaMemset(context.counters, 0, 1 << 16));
  Peer peer(context.stream);
  std::printf("# %s SMs %d cublas %d\n", device.name, context.sms, peer.version());
  const char* json_path = std::getenv("JSONL");
  FILE* json = json_path != nullptr ? std::fopen(json_path, "a") : nullptr;
  for (const Shape& shape : group->second) Bench(context, peer, shape, options, json);
  std::printf("# done, %s\n", cudaGetErrorString(cudaDeviceSynchronize()));
  return 0;
}

}  // namespace
}  // namespace lab

int main(int argc, char** argv) { return lab::Main(argc, argv); }
