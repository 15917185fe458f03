#include "kernels/families/skinny_cost.h"

#include <algorithm>
#include <cmath>

#include "kernels/families/sum_order.h"

namespace gemm {
namespace {

// NVIDIA H200, 2026-11-30, by least squares (kernels/stories/choice.md). Fractions are of the
// memory's rate by its clocks and of the arithmetic peak.
constexpr double kMemoryFraction = 0.889;
constexpr double kMathFraction = 0.818;
constexpr double kFew = 0.862;     // of that, up to 16 rows
constexpr double kNarrow = 0.734;  // in strips of 16
constexpr double kAlong = 0.846;   // where boxes bring a matrix with k contiguous
constexpr double kAcross = 0.812;  // where they bring few rows of x, and k is not
// Of rows of any alignment: more of the memory's rows are read than the products have, and elements
// are loaded one at a time. Those that cp.async brings, or boxes of each fourth row.
constexpr double kShiftedMemoryFraction = 0.639;
constexpr double kShiftedBoxesMemoryFraction = 0.534;
constexpr double kShiftedMathFraction = 0.638;
constexpr double kShiftedFewFraction = 0.313;  // up to 16 rows, by cp.async
constexpr double kShiftedNarrowFraction = 0.409;
constexpr double kShiftedSeconds = 0.4e-6;

constexpr double kStartSeconds = 2.33e-6;
constexpr double kBegin = 209;               // beginning and ending a block, in products
constexpr double kNextWaveSeconds = 1.7e-6;  // beginning another one
constexpr double kClusterSeconds = 0.87e-6;
constexpr double kWideSeconds = 3e-6;  // of 32 rows in strips of 64 with all of k, more than others
constexpr double kPackSeconds = 1.94e-6;
constexpr double kPackBytesPerSecond = 1.1e12;
constexpr double kSecondPassSeconds = 1.04e-6;
constexpr double kChunkSeconds = 0.038e-6;  // of it, each chunk of the first
constexpr int64_t kMostChunksOneByOne = 64;
constexpr double kPartialBytesPerSecond = 1.9e12;

// One row: blocks that stay, of columns and of rows with k contiguous.
constexpr double kLineStartSeconds = 1.7e-6;
constexpr double kColumnsMemoryFraction = 0.84;
constexpr double kDotsMemoryFraction = 0.84;
// A warp's loads: the time until they have come, and what a multiprocessor gets in it.
constexpr double kLineStepSeconds = 0.7e-6;
constexpr double kLineStepBytes = 4096;
constexpr double kTotalSeconds = 0.6e-6;  // of a single result's chunks

// Persistent blocks that share out a batch. Up to 16 rows, copies and arithmetic add up.
constexpr double kBatchStartSeconds = 3e-6;
constexpr double kBatchStripSeconds = 2.8e-6;  // beginning and ending one
constexpr double kBatchFewStripSeconds = 0.8e-6;
constexpr double kBatchMathFraction = 0.495;
constexpr double kBatchFewMathFraction = 0.74;

double MathFraction(const SkinnyCut& cut, int rows) {
  const bool few = rows <= 16;
  const bool narrow = cut.order.strip == kNarrowStrip;
  const double across = few && !cut.x.along ? kAcross : 1;
  switch (cut.feed) {
    case SkinnyFeed::kCopies:
      break;
    case SkinnyFeed::kBoxes:
      return kMathFraction *
             (narrow ? kNarrow
              : few  ? kFew
                     : 1) *
             across * (cut.matrix.along ? kAlong : 1);
    case SkinnyFeed::kShifted:
      return few ? kShiftedFewFraction : kShiftedMathFraction;
    case SkinnyFeed::kShiftedBoxes:
      return narrow ? kShiftedNarrowFraction : kShiftedMathFraction * (few ? kFew : 1) * across;
  }
  return kMathFraction * (few ? kFew : 1);
}

double MemoryFraction(SkinnyFeed feed) {
  return feed == SkinnyFeed::kShifted        ? kShiftedMemoryFraction
         : feed == SkinnyFeed::kShiftedBoxes ? kShiftedBoxesMemoryFraction
                                             : kMemoryFraction;
}

double SecondPassSeconds(const SkinnyCut& cut) {
  if (cut.way != SkinnyWay::kSecondPass) return 0;
  if (cut.rows * cut.length == 1) return kTotalSeconds;
  return kSecondPassSeconds +
         static_cast<double>(std::min(cut.order.chunks, kMostChunksOneByOne)) * kChunkSeconds +
         2.0 * sizeof(float) * static_cast<double>(cut.partial_elements) / kPartialBytesPerSecond;
}

double BatchSeconds(const Problem& problem, const DeviceInfo& device, const SkinnyCut& cut) {
  const double multiprocessors = std::max(1, device.multiprocessors);
  const double bandwidth = std::max(1.0, device.memory_bytes_per_second) / multiprocessors;
  const double rate = std::max(1.0, device.f32_flops_per_second) / multiprocessors;
  const bool few = cut.rows <= 16;
  const auto strip = static_cast<double>(cut.order.strip);
  const double strips =
      std::ceil(static_cast<double>(cut.order.strips * problem.batch_count) / multiprocessors);
  const double flops = 2 * static_cast<double>(TilesOf(cut.rows, 4) * 4) * strip;
  const double product_seconds =
      few ? flops / (kBatchFewMathFraction * rate) + sizeof(float) * strip / bandwidth
          : flops / (kBatchMathFraction * rate);
  return kBatchStartSeconds + strips * ((few ? kBatchFewStripSeconds : kBatchStripSeconds) +
                                        static_cast<double>(problem.k) * product_seconds);
}

// The kernels of skinny_lines.h: the memory's time, or that of a warp with the most.
double LineSeconds(const Problem& problem, const DeviceInfo& device, const SkinnyCut& cut,
                   double bytes) {
  const double bandwidth = std::max(1.0, device.memory_bytes_per_second);
  const LineCut& line = cut.line;
  const bool dots = cut.kind == SkinnyKind::kDots;
  const auto at_once = static_cast<double>(line.blocks * line.block_warps);
  const double rounds =
      std::ceil(static_cast<double>(line.items) * line.warps * line.share / at_once);
  const double chunk =
      static_cast<double>(ReadsAB(problem) ? std::min(problem.k, cut.order.chunk_length) : 0);
  const double turns =
      line.parts > 1 ? 1 : std::ceil(static_cast<double>(cut.order.chunks) / line.share);
  const double step = dots ? kLineStepBytes / sizeof(float) / line.rows
                           : kLineStepBytes / sizeof(float) / kLineStrip * line.warps;
  const double steps = rounds * turns * std::ceil(chunk / step);
  const double memory = bytes / ((dots ? kDotsMemoryFraction : kColumnsMemoryFraction) * bandwidth);
  return kLineStartSeconds + std::hypot(memory, steps * kLineStepSeconds) + SecondPassSeconds(cut);
}

}  // namespace

double SkinnySeconds(const Problem& problem, const DeviceInfo& device, const SkinnyCut& cut) {
  if (cut.kind == SkinnyKind::kBatch) return BatchSeconds(problem, device, cut);
  const double multiprocessors = std::max(1, device.multiprocessors);
  const double bandwidth = std::max(1.0, device.memory_bytes_per_second);
  const auto batch = static_cast<double>(problem.batch_count);
  const auto k = static_cast<double>(ReadsAB(problem) ? problem.k : 0);
  const auto lines = static_cast<double>(cut.rows);
  const auto length = static_cast<double>(cut.length);
  const double bytes =
      sizeof(float) * batch * (length * k + lines * k + lines * length * (ReadsC(problem) ? 2 : 1));
  if (cut.IsLine()) return LineSeconds(problem, device, cut, bytes);
  const bool cut_up = cut.way != SkinnyWay::kOneByOne;
  const auto chunks = static_cast<double>(cut_up ? cut.order.chunks : 1);
  const auto whole = static_cast<double>(cut_up ? cut.order.whole_strips : 0);
  const double block_k = cut_up ? std::min(k, static_cast<double>(cut.order.chunk_length)) : k;
  const double waves_whole = std::ceil(batch * whole / multiprocessors);
  const double blocks = (static_cast<double>(cut.order.strips) - whole) * chunks;
  const double waves_cut = std::ceil(batch * blocks / multiprocessors);
  const int rows = kSkinnyRowCounts[cut.rows_index].rows;
  const double rate =
      MathFraction(cut, rows) * std::max(1.0, device.f32_flops_per_second) / multiprocessors;
  const double products = waves_whole * (k + kBegin) + waves_cut * (block_k + kBegin);
  const double math = products * 2 * rows * static_cast<double>(cut.order.strip) / rate +
                      std::max(0.0, waves_whole + waves_cut - 1) * kNextWaveSeconds;
  const double memory = bytes / (MemoryFraction(cut.feed) * bandwidth);
  const bool shifted = cut.feed == SkinnyFeed::kShifted || cut.feed == SkinnyFeed::kShiftedBoxes;
  return kStartSeconds + std::hypot(math, memory) + (shifted ? kShiftedSeconds : 0) +
         (cut.way == SkinnyWay::kOneByOne && rows == 32 && cut.order.strip == SkinnyStrip(rows)
              ? kWideSeconds
              : 0) +
         (cut.way == SkinnyWay::kCluster ? kClusterSeconds : 0) +
         (cut.packs_x ? kPackSeconds + 2 * sizeof(float) * batch * lines * k / kPackBytesPerSecond
                      : 0) +
         SecondPassSeconds(cut);
}

}  // namespace gemm
