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
constexpr double kPackSeconds = 1.94e-6;
constexpr double kPackBytesPerSecond = 1.1e12;
constexpr double kSecondPassSeconds = 1.04e-6;
constexpr double kChunkSeconds = 0.038e-6;  // of it, each chunk of the first
constexpr int64_t kMostChunksOneByOne = 64;
constexpr double kPartialBytesPerSecond = 1.9e12;

// One row, without a ring: single results, rows of the matrix with k contiguous, and columns.
constexpr double kDotStartSeconds = 2.5e-6;
constexpr double kDotTotalSeconds = 0.5e-6;
constexpr double kDotBytesPerSecond = 3.37e12;
constexpr double kDotsStartSeconds = 2.4e-6;
constexpr double kDotsMemoryFraction = 0.8;
constexpr double kNextDotSeconds = 0.45e-9;  // of a warp, where not all run at once
constexpr double kLineStartSeconds = 2.6e-6;
constexpr double kLineMemoryFraction = 0.75;
constexpr double kNextLineSeconds = 4e-6;  // beginning another wave

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

// The kernels of skinny_lines.h.
double LineSeconds(const DeviceInfo& device, const SkinnyCut& cut, double batch, double bytes) {
  const double multiprocessors = std::max(1, device.multiprocessors);
  const double bandwidth = std::max(1.0, device.memory_bytes_per_second);
  if (cut.kind == SkinnyKind::kDots && cut.length == 1) {
    return kDotStartSeconds + (cut.way == SkinnyWay::kSecondPass ? kDotTotalSeconds : 0) +
           bytes / kDotBytesPerSecond;
  }
  const double blocks = batch * static_cast<double>(cut.Blocks());
  if (cut.kind == SkinnyKind::kDots) {
    const double warps = batch * static_cast<double>(cut.length * cut.order.chunks);
    return kDotsStartSeconds + bytes / (kDotsMemoryFraction * bandwidth) +
           (blocks > multiprocessors ? warps * kNextDotSeconds : 0) + SecondPassSeconds(cut);
  }
  return kLineStartSeconds + bytes / (kLineMemoryFraction * bandwidth) +
         (std::ceil(blocks / multiprocessors) - 1) * kNextLineSeconds + SecondPassSeconds(cut);
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
  if (cut.kind == SkinnyKind::kDots || cut.kind == SkinnyKind::kLine) {
    return LineSeconds(device, cut, batch, bytes);
  }
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
         (cut.way == SkinnyWay::kCluster ? kClusterSeconds : 0) +
         (cut.packs_x ? kPackSeconds + 2 * sizeof(float) * batch * lines * k / kPackBytesPerSecond
                      : 0) +
         SecondPassSeconds(cut);
}

}  // namespace gemm
