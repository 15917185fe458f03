#include "kernels/bench/shape_lists.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "kernels/bench/random_value.h"

namespace gemm {
namespace {

constexpr int kRandomCount = 60;
constexpr int64_t kMostRandom = 1'000'000;
// A random product stays below these: a run has seconds, not hours.
constexpr double kMaxRandomFlops = 2e11;
constexpr double kMaxRandomElements = 1e8;

// Takes a positive number off the front of `text`.
bool TakeNumber(std::string_view* text, int64_t* value) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *value);
  if (error != std::errc() || *value < 1) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return true;
}

bool TakeLetter(std::string_view* text, char letter) {
  if (text->empty() || text->front() != letter) return false;
  text->remove_prefix(1);
  return true;
}

std::optional<int64_t> Number(std::string_view text) {
  int64_t value = 0;
  if (!TakeNumber(&text, &value) || !text.empty()) return std::nullopt;
  return value;
}

double Elements(const BenchShape& s) {
  return (static_cast<double>(s.m) * static_cast<double>(s.k) +
          static_cast<double>(s.k) * static_cast<double>(s.n) +
          static_cast<double>(s.m) * static_cast<double>(s.n)) *
         static_cast<double>(s.batch_count);
}

class Dice {
 public:
  explicit Dice(uint64_t seed) : seed_(seed) {}

  int64_t Below(int64_t limit) {
    return static_cast<int64_t>(RandomBits(seed_, next_++) % static_cast<uint64_t>(limit));
  }
  // Evenly over the logarithm.
  int64_t Size(int64_t least, int64_t most) {
    const double uniform = static_cast<double>(RandomBits(seed_, next_++) >> 11) * 0x1p-53;
    const double low = std::log(static_cast<double>(least));
    const double high = std::log(static_cast<double>(most) + 1);
    return std::clamp(static_cast<int64_t>(std::exp(low + uniform * (high - low))), least, most);
  }

 private:
  const uint64_t seed_;
  uint64_t next_ = 0;
};

BenchShape RandomShape(Dice* dice, int kind) {
  BenchShape shape;
  switch (kind) {
    case 0: {  // near square
      const int64_t size = dice->Size(48, 6000);
      const auto near = [&] { return std::max<int64_t>(1, size * (70 + dice->Below(60)) / 100); };
      shape.m = near();
      shape.n = near();
      shape.k = near();
      break;
    }
    case 1: {  // one thin side
      shape.m = dice->Size(256, 8192);
      shape.n = dice->Size(256, 8192);
      shape.k = dice->Size(256, 8192);
      const int64_t thin = dice->Size(1, 64);
      const int64_t side = dice->Below(3);
      (side == 0 ? shape.m : side == 1 ? shape.n : shape.k) = thin;
      break;
    }
    default:
      shape.m = dice->Size(16, 4096);
      shape.n = dice->Size(16, 4096);
      shape.k = dice->Size(16, 16384);
  }
  const int64_t transposes = dice->Below(8);  // half of them none
  shape.transpose_a = transposes == 4 || transposes == 6;
  shape.transpose_b = transposes == 5 || transposes == 6;
  const int64_t batch_count = dice->Size(2, 64);
  if (dice->Below(8) == 0 && Elements(shape) < 1e6) shape.batch_count = batch_count;
  return shape;
}

BenchShape SpreadShape(Dice* dice, bool short_k) {
  BenchShape shape;
  shape.m = dice->Size(1, 8192);
  shape.n = dice->Size(1, 8192);
  shape.k = short_k ? dice->Size(1, 64) : dice->Size(16, 16384);
  const int64_t granules[] = {1, 1, 4, 8};
  const int64_t granule = granules[dice->Below(4)];
  for (int64_t* size : {&shape.m, &shape.n, &shape.k}) {
    if (*size > granule) *size = (*size + granule - 1) / granule * granule;
  }
  shape.transpose_a = dice->Below(4) == 0;
  shape.transpose_b = dice->Below(4) == 0;
  return shape;
}

// The first `count` that `next` gives, by their index, of those that a run has time and room for.
template <typename Next>
std::vector<BenchShape> Affordable(int count, Next next) {
  std::vector<BenchShape> shapes;
  while (static_cast<int>(shapes.size()) < count) {
    const BenchShape shape = next(static_cast<int>(shapes.size()));
    if (FlopCount(BenchProblem(shape, DType::kF32)) > kMaxRandomFlops) continue;
    if (Elements(shape) > kMaxRandomElements) continue;
    shapes.push_back(shape);
  }
  return shapes;
}

// The list of that name.
std::vector<BenchShape> FromList(const std::string& list, std::string* fault) {
  if (list == "list") return TargetShapes();
  if (list == "deepbench") return DeepBenchShapes();
  if (list == "golden") return GoldenShapes();
  using std::literals::string_view_literals::operator""sv;
  for (const auto& [name, shapes] :
       {std::pair("random:"sv, &RandomShapes), std::pair("spread:"sv, &SpreadShapes)}) {
    if (!list.starts_with(name)) continue;
    const std::string_view rest = std::string_view(list).substr(name.size());
    const size_t colon = rest.find(':');
    const auto seed = Number(rest.substr(0, colon));
    const auto count = colon == std::string_view::npos ? std::optional<int64_t>(kRandomCount)
                                                       : Number(rest.substr(colon + 1));
    if (!seed || !count) continue;
    if (*count <= kMostRandom) {
      return shapes(static_cast<uint64_t>(*seed), static_cast<int>(*count));
    }
    *fault = "--shapes is '" + list + "'; COUNT is at most " + std::to_string(kMostRandom);
    return {};
  }
  *fault = "--shapes is '" + list +
           "'; take list, deepbench, golden, random:SEED[:COUNT], spread:SEED[:COUNT]";
  return {};
}

std::vector<BenchShape> FromWords(std::span<const std::string> words, std::string* fault) {
  std::vector<BenchShape> shapes;
  if (words.size() == 3) {
    const auto m = Number(words[0]);
    const auto n = Number(words[1]);
    const auto k = Number(words[2]);
    if (m && n && k) return {{.m = *m, .n = *n, .k = *k}};
  }
  for (const std::string& word : words) {
    const auto shape = ParseShape(word);
    if (!shape) {
      *fault = "'" + word + "' is no shape; write MxNxK, MxNxKbBATCH or MxNxK:TN";
      return {};
    }
    shapes.push_back(*shape);
  }
  if (shapes.empty()) *fault = "no shapes; name some, or a list with --shapes";
  return shapes;
}

}  // namespace

std::string NameOf(const BenchShape& shape) {
  std::string name =
      std::to_string(shape.m) + "x" + std::to_string(shape.n) + "x" + std::to_string(shape.k);
  if (shape.batch_count != 1) name.append("b").append(std::to_string(shape.batch_count));
  if (shape.transpose_a || shape.transpose_b) {
    name += shape.transpose_a ? ":T" : ":N";
    name += shape.transpose_b ? "T" : "N";
  }
  return name;
}

std::optional<BenchShape> ParseShape(std::string_view text) {
  BenchShape shape;
  if (!TakeNumber(&text, &shape.m) || !TakeLetter(&text, 'x') || !TakeNumber(&text, &shape.n) ||
      !TakeLetter(&text, 'x') || !TakeNumber(&text, &shape.k)) {
    return std::nullopt;
  }
  if (TakeLetter(&text, 'b') && !TakeNumber(&text, &shape.batch_count)) return std::nullopt;
  if (TakeLetter(&text, ':')) {
    shape.transpose_a = TakeLetter(&text, 'T');
    if (!shape.transpose_a && !TakeLetter(&text, 'N')) return std::nullopt;
    shape.transpose_b = TakeLetter(&text, 'T');
    if (!shape.transpose_b && !TakeLetter(&text, 'N')) return std::nullopt;
  }
  return text.empty() ? std::optional(shape) : std::nullopt;
}

Problem BenchProblem(const BenchShape& shape, DType dtype) {
  Problem problem = DenseProblem(dtype, shape.m, shape.n, shape.k, shape.batch_count);
  problem.a.transposed = shape.transpose_a;
  problem.b.transposed = shape.transpose_b;
  problem.a.ld = StoredA(problem).columns;
  problem.b.ld = StoredB(problem).columns;
  for (MatrixLayout* layout : {&problem.a, &problem.b, &problem.c, &problem.d}) {
    layout->alignment_bytes = 256;
  }
  return problem;
}

std::vector<BenchShape> TargetShapes() {
  return {
      {64, 64, 64},          {128, 128, 128},     {256, 256, 256},      {512, 512, 512},
      {1024, 1024, 1024},    {2048, 2048, 2048},  {4096, 4096, 4096},   {8192, 8192, 8192},
      {1000, 1000, 1000},    {1023, 1025, 1027},  {4095, 4097, 4099},   {1, 4096, 4096},
      {8, 4096, 4096},       {16, 4096, 4096},    {64, 4096, 4096},     {128, 4096, 4096},
      {64, 64, 65536},       {256, 256, 8192},    {8192, 8192, 64},     {6144, 4, 2048},
      {64, 7168, 16384},     {4096, 7168, 16384}, {5124, 700, 2048},    {3072, 1500, 1024},
      {32, 32, 32, 256},     {64, 64, 64, 256},   {128, 128, 128, 256}, {256, 256, 256, 256},
      {16384, 16384, 16384},
  };
}

std::vector<BenchShape> DeepBenchShapes() {
  return {
      {1760, 16, 1760},
      {1760, 128, 1760},
      {1760, 7000, 1760},
      {2048, 32, 2048},
      {2048, 7000, 2048},
      {2560, 64, 2560},
      {2560, 7000, 2560},
      {4096, 16, 4096},
      {4096, 128, 4096},
      {4096, 7000, 4096},
      {5124, 9124, 1760},
      {35, 8457, 1760},
      {35, 8457, 4096},
      {7680, 16, 2560},
      {7680, 128, 2560},
      {3072, 64, 1024},
      {512, 8, 500000},
      {1024, 16, 500000},
      {1760, 32, 1760, 1, true, false},
      {2560, 128, 2560, 1, true, false},
      {1760, 7133, 1760, 1, false, true},
      {4096, 7133, 4096, 1, false, true},
      {35, 700, 2048},
      {5124, 1500, 2560},
      {7680, 1, 2560},
      {7680, 2, 2560},
      {3072, 3000, 1024},
  };
}

std::vector<BenchShape> RandomShapes(uint64_t seed, int count) {
  Dice dice(seed);
  return Affordable(count, [&dice](int index) { return RandomShape(&dice, index % 3); });
}

std::vector<BenchShape> SpreadShapes(uint64_t seed, int count) {
  Dice dice(seed);
  return Affordable(count, [&dice](int index) { return SpreadShape(&dice, index % 3 == 0); });
}

std::vector<BenchShape> GoldenShapes() {
  std::vector<BenchShape> shapes = TargetShapes();
  const std::vector<BenchShape> more = {
      {1, 1, 1},
      {1, 1, 500000},
      {16, 16, 16},
      {33, 33, 33},
      {17, 4096, 4096},
      {32, 4096, 4096},
      {4096, 1, 4096},
      {4096, 8, 4096},
      {4096, 16, 4096},
      {4096, 64, 4096},
      {4096, 128, 4096},
      {1, 2048, 256},
      {2, 7168, 2112},
      {512, 512, 65536},
      {1024, 1024, 64},
      {1536, 1536, 1536},
      {3000, 3000, 3000},
      {512, 512, 512, 1, true, false},
      {512, 512, 512, 1, false, true},
      {2048, 2048, 2048, 1, true, false},
      {2048, 2048, 2048, 1, false, true},
      {2048, 2048, 2048, 1, true, true},
      {8, 4096, 4096, 1, false, true},
      {4096, 8, 4096, 1, true, false},
      {64, 64, 65536, 1, true, false},
      {16, 16, 16, 4096},
      {64, 64, 64, 8},
      {512, 512, 512, 16},
      {8, 4096, 4096, 4},
      {64, 64, 65536, 4},
      {1024, 1024, 1024, 4},
  };
  shapes.insert(shapes.end(), more.begin(), more.end());
  return shapes;
}

std::vector<BenchShape> ReadShapes(const std::string& list, std::span<const std::string> words,
                                   std::string* fault) {
  if (!list.empty() && !words.empty()) {
    *fault = "name shapes or a list, not both";
    return {};
  }
  std::vector<BenchShape> shapes = list.empty() ? FromWords(words, fault) : FromList(list, fault);
  for (const BenchShape& shape : shapes) {
    // The wider type: what it may span, the other may.
    if (const auto invalid = Validate(BenchProblem(shape, DType::kF64))) {
      *fault = NameOf(shape) + ": " + invalid->field + " " + invalid->message;
      return {};
    }
  }
  return shapes;
}

}  // namespace gemm
