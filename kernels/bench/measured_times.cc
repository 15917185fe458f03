#include "kernels/bench/measured_times.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "kernels/registry.h"
#include "kernels/select.h"

namespace gemm {
namespace {

// What is this much slower than the fastest is never the better choice for a shape near by: it
// would only be read.
constexpr double kWorthARow = 2;

using Key = std::tuple<DType, bool, bool, int64_t, int64_t, int64_t, int64_t>;

Key KeyOf(const ShapeTimes& times) {
  const BenchShape& s = times.shape;
  return {times.dtype, s.transpose_a, s.transpose_b, s.m, s.n, s.k, s.batch_count};
}

// As many as a table has.
std::string Digits(double microseconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", microseconds);
  return text;
}

// A shape's last times, its fastest kernels first and no more than a row holds; in the order of a
// table.
std::vector<ShapeTimes> RowsOf(std::vector<ShapeTimes> times) {
  std::map<Key, ShapeTimes> by_shape;
  for (ShapeTimes& one : times) {
    if (!one.kernels.empty()) by_shape.insert_or_assign(KeyOf(one), std::move(one));
  }
  std::vector<ShapeTimes> rows;
  for (auto& [key, row] : by_shape) {
    std::vector<KernelMicroseconds>& kernels = row.kernels;
    std::sort(kernels.begin(), kernels.end(), [](const auto& a, const auto& b) {
      return std::pair(a.microseconds, a.kernel) < std::pair(b.microseconds, b.kernel);
    });
    if (kernels.size() > kKernelsARow) kernels.resize(kKernelsARow);
    const double limit = kWorthARow * kernels[0].microseconds;
    while (kernels.back().microseconds > limit) kernels.pop_back();
    for (KernelMicroseconds& kernel : kernels) {
      kernel.microseconds = std::strtod(Digits(kernel.microseconds).c_str(), nullptr);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string RowText(const ShapeTimes& times) {
  char text[160];
  const BenchShape& shape = times.shape;
  std::snprintf(text, sizeof(text),
                "    Row(%s, \"%c%c\", %6" PRId64 ", %6" PRId64 ", %6" PRId64 ", %5" PRId64 ", {",
                times.dtype == DType::kF32 ? "kF32" : "kF64", shape.transpose_a ? 'T' : 'N',
                shape.transpose_b ? 'T' : 'N', shape.m, shape.n, shape.k, shape.batch_count);
  std::string row = text;
  for (const KernelMicroseconds& kernel : times.kernels) {
    row.append(&kernel == &times.kernels[0] ? "{\"" : ", {\"").append(kernel.kernel);
    row.append("\", ").append(Digits(kernel.microseconds)).append("}");
  }
  return row + "}),\n";
}

}  // namespace

std::string ToJsonLines(const ShapeTimes& times) {
  std::string lines;
  for (const KernelMicroseconds& kernel : times.kernels) {
    const nlohmann::ordered_json line = {{"kind", "time"},
                                         {"dtype", std::string(NameOf(times.dtype))},
                                         {"shape", NameOf(times.shape)},
                                         {"kernel", kernel.kernel},
                                         {"us", kernel.microseconds}};
    lines += line.dump() + "\n";
  }
  return lines;
}

bool ReadTimes(const std::string& path, std::vector<ShapeTimes>* times) {
  std::ifstream file(path);
  if (!file) return false;
  std::string text;
  while (std::getline(file, text)) {
    const nlohmann::json line = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (line.is_discarded() || !line.is_object()) return false;
    const auto word = [&](const char* field) {
      const auto found = line.find(field);
      return found != line.end() && found->is_string() ? found->get<std::string>() : std::string();
    };
    if (word("kind") != "time") continue;
    const auto shape = ParseShape(word("shape"));
    const auto us = line.find("us");
    if (!shape || us == line.end() || !us->is_number()) return false;
    const DType dtype = word("dtype") == NameOf(DType::kF64) ? DType::kF64 : DType::kF32;
    if (times->empty() || times->back().dtype != dtype || !(times->back().shape == *shape)) {
      times->push_back({dtype, *shape, {}});
    }
    times->back().kernels.push_back({word("kernel"), us->get<double>()});
  }
  return true;
}

void KeepLegal(const DeviceInfo& device, std::vector<ShapeTimes>* times) {
  const Selector selector(device, Families(), TuningTable{});
  for (ShapeTimes& one : *times) {
    const Problem problem = BenchProblem(one.shape, one.dtype);
    std::erase_if(one.kernels, [&](const KernelMicroseconds& time) {
      return selector.Select(problem, time.kernel).kernel.family == nullptr;
    });
  }
}

RecordedTable::RecordedTable(std::vector<ShapeTimes> times) : times_(RowsOf(std::move(times))) {
  for (const ShapeTimes& one : times_) {
    const BenchShape& shape = one.shape;
    TuningRow& row = rows_.emplace_back(TuningRow{one.dtype, shape.transpose_a, shape.transpose_b,
                                                  shape.m, shape.n, shape.k, shape.batch_count});
    row.place = PlaceOf(ProductOf(row));
    size_t place = 0;
    for (const KernelMicroseconds& kernel : one.kernels) {
      row.kernels[place++] = {kernel.kernel, kernel.microseconds};
    }
  }
}

std::string TableText(std::string_view name, std::span<const std::string> header,
                      std::vector<ShapeTimes> times) {
  const std::vector<ShapeTimes> rows = RowsOf(std::move(times));
  std::string text =
      "// Generated by gemm_bench --mode=tune; measure again rather than edit.\n//\n";
  for (const std::string& line : header) text += "// " + line + "\n";
  text +=
      "//\n// Type, transposes, m, n, k, batch; then the fastest kernels with the microseconds of\n"
      "// one product.\n// clang-format off\n";
  text += "constexpr std::array<TuningRow, " + std::to_string(rows.size()) + "> " +
          std::string(name) + " = {" + (rows.empty() ? "" : "\n");
  for (const ShapeTimes& row : rows) text += RowText(row);
  return text + "};\n// clang-format on\n";
}

}  // namespace gemm
