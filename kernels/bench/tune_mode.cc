// tune: measures the legal configurations on many products and writes the table that
// Select reads. With --from it only writes: recorded times, of several runs if need be.

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <set>
#include <string>
#include <string_view>

#include "kernels/bench/literal_devices.h"
#include "kernels/bench/measured_times.h"
#include "kernels/bench/session.h"
#include "kernels/cuda_status.h"
#include "kernels/registry.h"
#include "kernels/select.h"

namespace gemm {
namespace {

constexpr double kMaxFlops = 1.5e11;
constexpr double kMaxElements = 3e8;

// Seeds that are tuned on, so that others can judge.
constexpr uint64_t kSeed = 1001;
constexpr uint64_t kAlignedSeed = 1002;
constexpr uint64_t kSpreadSeed = 1003;
constexpr int kRandom = 320;
constexpr int kAlignedRandom = 80;
constexpr int kSpread = 240;

// What is measured, what matters most first: a spent budget cuts it short from the end.
class Products {
 public:
  explicit Products(DType dtype) : dtype_(dtype) {}

  std::vector<BenchShape> All() {
    Named();
    Random();
    Grid();
    Layouts();
    if (dtype_ == DType::kF32) Ragged();  // no family of f64 minds
    return std::move(products_);
  }

 private:
  void Add(const BenchShape& shape) {
    const auto m = static_cast<double>(shape.m);
    const auto n = static_cast<double>(shape.n);
    const auto k = static_cast<double>(shape.k);
    const auto batch = static_cast<double>(shape.batch_count);
    if (2 * m * n * k * batch > kMaxFlops || (m * k + k * n + m * n) * batch > kMaxElements) return;
    if (std::find(products_.begin(), products_.end(), shape) == products_.end()) {
      products_.push_back(shape);
    }
  }

  void Named() {
    for (const BenchShape& shape : TargetShapes()) Add(shape);
    for (const BenchShape& shape : GoldenShapes()) Add(shape);
    if (dtype_ != DType::kF32) return;
    for (const BenchShape& shape : DeepBenchShapes()) Add(shape);
  }

  // Most of random sizes have ragged rows; of some they are rounded to what has none.
  void Random() {
    if (dtype_ != DType::kF32) return;
    for (const BenchShape& shape : RandomShapes(kSeed, kRandom)) Add(shape);
    for (BenchShape shape : RandomShapes(kAlignedSeed, kAlignedRandom)) {
      for (int64_t* size : {&shape.m, &shape.n, &shape.k}) {
        if (*size > 4) *size = (*size + 7) / 8 * 8;
      }
      Add(shape);
    }
    for (const BenchShape& shape : SpreadShapes(kSpreadSeed, kSpread)) Add(shape);
  }

  void Grid() {
    const bool f32 = dtype_ == DType::kF32;
    // Every second octave: no shape is then more than one octave away in any size.
    const std::vector<int64_t> sizes = f32 ? std::vector<int64_t>{1, 4, 16, 64, 256, 1024, 4096}
                                           : std::vector<int64_t>{1, 16, 128, 1024, 4096};
    const std::vector<int64_t> depths =
        f32 ? std::vector<int64_t>{16, 64, 256, 1024, 4096, 16384, 65536}
            : std::vector<int64_t>{16, 128, 1024, 8192};
    for (int64_t m : sizes) {
      for (int64_t n : sizes) {
        for (int64_t k : depths) Add({m, n, k});
      }
    }
    // The octaves between, where kernels hand over to each other.
    for (int64_t m : {128, 512, 2048}) {
      for (int64_t n : {128, 512, 2048}) {
        for (int64_t k : {128, 512, 2048, 8192}) Add({m, n, k});
      }
    }
    for (int64_t narrow : {2, 8, 32}) {
      for (int64_t wide : {512, 2048, 8192}) {
        for (int64_t k : {512, 2048, 8192}) {
          Add({narrow, wide, k});
          Add({wide, narrow, k});
        }
      }
    }
    for (int64_t size : {16, 32, 64, 128, 256, 512}) {
      for (int64_t batch : {4, 16, 64, 256}) Add({size, size, size, batch});
    }
  }

  void Layouts() {
    for (int64_t m : {16, 128, 1024, 4096}) {
      for (int64_t n : {16, 128, 1024, 4096}) {
        for (int64_t k : {64, 1024, 16384}) {
          Add({m, n, k, 1, false, true});
          Add({m, n, k, 1, true, false});
        }
      }
    }
  }

  // One less than a power of two.
  void Ragged() {
    for (int64_t m : {1, 3, 15, 63, 255, 1023, 4095}) {
      for (int64_t n : {1, 3, 15, 63, 255, 1023, 4095}) {
        for (int64_t k : {15, 255, 4095}) Add({m, n, k});
      }
    }
    for (int64_t size : {31, 63, 127, 255}) {
      for (int64_t batch : {16, 128}) Add({size, size, size, batch});
    }
    // Batches whose products tiles of powers of two fit badly.
    for (int64_t size : {20, 45, 61, 100, 150, 201, 300}) {
      for (int64_t batch : {64, 256}) Add({size, size, size, batch});
    }
  }

  const DType dtype_;
  std::vector<BenchShape> products_;
};

cudaError_t MeasureAll(Session& session, const Flags& flags, std::vector<ShapeTimes>* all,
                       int* faults) {
  MeasureOptions options;
  if (flags.shape_seconds > 0) options.pace.seconds = flags.shape_seconds;
  for (DType dtype : DTypes(flags)) {
    const std::vector<BenchShape> products = Products(dtype).All();
    size_t done = 0;
    for (const BenchShape& shape : products) {
      if (!session.HasTime()) break;
      // What was only looked at is no measurement.
      constexpr bool kWithRough = false;
      ShapeTimes record;
      GEMM_RETURN_IF_CUDA_ERROR(
          MeasureShape(session, dtype, shape, options, kWithRough, &record, faults));
      all->push_back(std::move(record));
      ++done;
    }
    std::printf("%s: %zu of %zu products measured, %.1f s\n", std::string(NameOf(dtype)).c_str(),
                done, products.size(), session.elapsed());
    std::fflush(stdout);
  }
  return cudaSuccess;
}

// A kernel without a row has not been measured beside the others, or lost everywhere.
void PrintUnnamed(const std::vector<ShapeTimes>& times) {
  std::set<std::string_view> named;
  for (const ShapeTimes& one : times) {
    for (const KernelMicroseconds& time : one.kernels) named.insert(time.kernel);
  }
  for (const KernelFamily* family : Families()) {
    for (const KernelConfig& config : family->configs()) {
      if (named.contains(config.name)) continue;
      std::printf("%s is in no row\n", std::string(config.name).c_str());
    }
  }
}

int Write(const Flags& flags, const std::vector<std::string>& header,
          std::vector<ShapeTimes> times) {
  if (flags.out.empty()) return 0;
  KeepLegal(H200(), &times);
  PrintUnnamed(times);
  std::ofstream file(flags.out);
  file << TableText("kSm90", header, std::move(times));
  return file.flush() ? 0 : Refuse("cannot write " + flags.out);
}

}  // namespace

int RunTune(const Flags& flags) {
  std::vector<ShapeTimes> times;
  if (!flags.from.empty()) {
    if (!ReadTimes(flags.from, &times)) return Refuse("cannot read times from " + flags.from);
    std::vector<std::string> header;
    std::ifstream file(flags.from);
    std::string text;
    while (std::getline(file, text)) {
      const Json line = Json::parse(text, nullptr, /*allow_exceptions=*/false);
      if (line.value("kind", "") != "run") continue;
      for (const std::string& said : HeaderOf(line)) header.push_back(said);
    }
    return Write(flags, header, std::move(times));
  }
  Session session(flags);
  if (const std::string fault = session.Open(); !fault.empty()) return Refuse(fault);
  int faults = 0;
  const cudaError_t error = MeasureAll(session, flags, &times, &faults);
  // What was measured before an error is worth having.
  const int status = Write(flags, HeaderOf(ToJson(session.provenance())), std::move(times));
  if (error != cudaSuccess) return Refuse("tune: " + CudaErrorText(error));
  return status != 0 ? status : faults == 0 ? 0 : 1;
}

}  // namespace gemm
