#include "kernels/bench/shapes.h"

#include <utility>

namespace gemm {
namespace {

struct Options {
  bool transpose_a = false;
  bool transpose_b = false;
  int64_t padding = 0;  // elements after each stored row, and as many rows after each matrix
  bool broadcast_a = false;
  bool broadcast_b = false;
  double alpha = 1;
  double beta = 0;
  bool c_is_d = false;
  int32_t alignment_bytes = 0;  // 0: the element's size
};

MatrixLayout Layout(MatrixShape shape, const Options& options, bool transposed, bool broadcast,
                    DType dtype) {
  MatrixLayout layout;
  layout.transposed = transposed;
  layout.ld = (shape.columns > 0 ? shape.columns : 1) + options.padding;
  layout.batch_stride = broadcast ? 0 : (shape.rows + options.padding) * layout.ld;
  layout.alignment_bytes =
      options.alignment_bytes != 0 ? options.alignment_bytes : static_cast<int32_t>(SizeOf(dtype));
  return layout;
}

class Cases {
 public:
  explicit Cases(DType dtype) : dtype_(dtype) {}

  void Add(const std::string& group, int64_t m, int64_t n, int64_t k, int64_t batch_count,
           const Options& options,
           const std::vector<Fill>& fills = {Fill::kIntegers, Fill::kReals}) {
    Problem problem;
    problem.m = m;
    problem.n = n;
    problem.k = k;
    problem.batch_count = batch_count;
    problem.dtype = dtype_;
    problem.alpha = options.alpha;
    problem.beta = options.beta;
    problem.a.transposed = options.transpose_a;
    problem.b.transposed = options.transpose_b;
    problem.a = Layout(StoredA(problem), options, options.transpose_a, options.broadcast_a, dtype_);
    problem.b = Layout(StoredB(problem), options, options.transpose_b, options.broadcast_b, dtype_);
    problem.c = Layout(StoredC(problem), options, false, false, dtype_);
    problem.d = problem.c;
    for (Fill fill : fills) {
      std::string name =
          group + " " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
      if (batch_count != 1) name += " batch " + std::to_string(batch_count);
      name += options.transpose_a ? " T" : " N";
      name += options.transpose_b ? "T" : "N";
      if (options.padding != 0) name += " padded " + std::to_string(options.padding);
      if (options.broadcast_a) name += " one A";
      if (options.broadcast_b) name += " one B";
      name += " alpha " + std::to_string(options.alpha) + " beta " + std::to_string(options.beta);
      if (options.c_is_d) name += " in place";
      name += std::string(" ") + NameOf(fill);
      cases_.push_back({std::move(name), problem, fill, options.c_is_d});
    }
  }

  std::vector<CheckCase> Take() { return std::move(cases_); }

 private:
  const DType dtype_;
  std::vector<CheckCase> cases_;
};

// Whatever the tile is, one below, on and above it, each in a different direction.
void AddTiles(Cases& cases, const std::vector<int64_t>& tiles) {
  for (int64_t t : tiles) {
    cases.Add("tile", t, t, t, 1, {.alignment_bytes = 256});
    cases.Add("tile", t - 1, t + 1, t, 1, {.alpha = 2, .beta = -3});
    cases.Add("tile", t, t - 1, t + 1, 1, {.padding = 3});
    cases.Add("tile", t + 1, t, t - 1, 1, {.alpha = -1, .beta = 1});
  }
}

// Whether A is, and B: transposed, or one for all of a batch.
struct FlagsOfAAndB {
  bool a;
  bool b;
};
constexpr FlagsOfAAndB kFlagsOfAAndB[] = {
    {false, false}, {true, false}, {false, true}, {true, true}};

void AddTransposes(Cases& cases, int64_t m, int64_t n, int64_t k) {
  for (const auto [a, b] : kFlagsOfAAndB) {
    cases.Add("transposes", m, n, k, 1, {.transpose_a = a, .transpose_b = b});
    cases.Add("transposes", m, n, k, 3,
              {.transpose_a = a, .transpose_b = b, .padding = 5, .alpha = 0.5, .beta = 2});
  }
}

void AddScalars(Cases& cases, int64_t m, int64_t n, int64_t k) {
  for (double alpha : {0.0, 1.0, -2.0}) {
    for (double beta : {0.0, 1.0, 3.0}) {
      cases.Add("scalars", m, n, k, 2, {.padding = 1, .alpha = alpha, .beta = beta});
      cases.Add("scalars", m, n, k, 2, {.padding = 1, .alpha = alpha, .beta = beta, .c_is_d = true},
                {Fill::kIntegers});
    }
  }
  // Neither is representable: rounding them to the type is part of the contract.
  cases.Add("scalars", m, n, k, 1, {.alpha = 0.1, .beta = -0.7}, {Fill::kReals});
  cases.Add("scalars", m, n, k, 1, {.alpha = 1.0 / 3}, {Fill::kReals});
}

// Aligned matrices in every layout, more of them than multiprocessors.
void AddBoxes(Cases& cases, int64_t m, int64_t n, int64_t k, int64_t batch_count) {
  for (const auto [a, b] : kFlagsOfAAndB) {
    cases.Add("boxes", m, n, k, batch_count,
              {.transpose_a = a,
               .transpose_b = b,
               .padding = a ? 4 : 0,
               .alpha = 2,
               .alignment_bytes = 16},
              {Fill::kReals});
  }
}

void AddEmptySums(Cases& cases) {
  for (double beta : {0.0, 2.0}) {
    cases.Add("empty sum", 5, 3, 0, 1, {.beta = beta});
    cases.Add("empty sum", 67, 131, 0, 2, {.transpose_a = true, .padding = 2, .beta = beta});
  }
}

void AddBatches(Cases& cases, int64_t m, int64_t n, int64_t k) {
  for (const auto [a, b] : kFlagsOfAAndB) {
    cases.Add("batch", m, n, k, 5, {.padding = 2, .broadcast_a = a, .broadcast_b = b, .beta = 1});
  }
}

// Rows and matrices whose first elements lie at every distance from a 16-byte boundary, whichever
// operand has its rows along k, and D with nothing added to it. n - m and n - k are even: then
// every remainder of a matrix's size by 4 occurs.
void AddRows(Cases& cases, int64_t m, int64_t n, int64_t k) {
  for (int64_t padding : {0, 1, 2, 3}) {
    for (int64_t more : {0, 1, 2}) {
      const bool transpose_a = (padding + more) % 2 == 0;
      cases.Add(
          "rows", m + more, n, k + more, 5,
          {.transpose_a = transpose_a, .padding = padding, .alpha = 2},
          more == 0 ? std::vector{Fill::kIntegers, Fill::kReals} : std::vector{Fill::kIntegers});
    }
  }
}

}  // namespace

const char* NameOf(Fill fill) {
  switch (fill) {
    case Fill::kIntegers:
      return "integers";
    case Fill::kReals:
      return "reals";
    case Fill::kNonFinite:
      return "non-finite";
  }
  return "unknown";
}

std::vector<CheckCase> CheckCases(DType dtype, CaseSet set) {
  Cases cases(dtype);
  const bool full = set == CaseSet::kFull;
  AddEmptySums(cases);
  cases.Add("one", 1, 1, 1, 1, {});
  cases.Add("one", 1, 1, 517, 1, {.beta = 1});
  cases.Add("one", 1, 67, 1, 1, {});
  cases.Add("one", 71, 1, 1, 1, {.alpha = -1});
  AddTiles(cases, full ? std::vector<int64_t>{8, 16, 32, 64, 128} : std::vector<int64_t>{16, 64});
  AddTransposes(cases, 37, 53, 29);
  AddScalars(cases, 19, 23, 17);
  AddBatches(cases, 17, 33, 9);
  cases.Add("non-finite", 35, 70, 21, 1, {.padding = 1, .beta = 1}, {Fill::kNonFinite});
  cases.Add("prime", 61, 131, 43, 1, {});
  // 280 tiles of 128 x 128, where two a multiprocessor are 264.
  if (full) cases.Add("left over", 129, 130, 7, 70, {.alpha = 2});
  // And 300, of sums in quarters.
  cases.Add("left over", 70, 61, 259, 300, {.beta = 1});
  // Sums that are long enough for kernels that share k.
  AddTransposes(cases, 41, 70, 141);
  AddTransposes(cases, 3, 37, 133);
  AddTransposes(cases, 37, 2, 131);
  cases.Add("shared", 12, 65, 2600, 2, {.padding = 1, .beta = 1});
  cases.Add("shared", 64, 24, 1024, 1, {.alignment_bytes = 256});
  cases.Add("cut", 65, 129, 516, 1, {.beta = 1});
  cases.Add("dealt", 33, 70, 1030, 2, {.transpose_b = true, .padding = 1, .beta = 1});
  // Narrow, and no row begins at a multiple of 16 bytes but the first.
  cases.Add("ragged", 20, 602, 258, 2, {.beta = 1, .alignment_bytes = 256});
  // The same of few columns, whose tiles are those of D^T.
  cases.Add("turned", 70, 20, 1030, 2, {.transpose_b = true, .padding = 1, .beta = 1});
  // Small, but too long a sum for one thread.
  cases.Add("small", 70, 45, 300, 2, {.transpose_b = true, .padding = 1, .beta = 1});
  cases.Add("small", 64, 96, 512, 1, {.alignment_bytes = 256});
  AddRows(cases, 66, 70, 34);
  // Aligned products enough for the small family's grids of threads.
  cases.Add("grids", 44, 100, 36, 140, {.beta = 1, .alignment_bytes = 256});
  // Matrices without gaps, enough of them for grids of 12 columns a thread.
  cases.Add("dense", 100, 100, 37, 140, {.beta = 1, .alignment_bytes = 256});
  cases.Add("dense", 61, 257, 37, 140, {.alpha = 2}, {Fill::kIntegers});
  AddBoxes(cases, 36, 68, 44, 70);
  // Batches of narrow results whose strips all blocks share out.
  cases.Add("batch", 18, 70, 257, 66, {.beta = 1});
  cases.Add("batch", 70, 7, 301, 44, {.transpose_b = true, .padding = 1, .alpha = 2});
  // Chunks that blocks take in turn.
  cases.Add("turns", 20, 40, 1060, 9, {.transpose_b = true, .beta = 1, .alignment_bytes = 256});
  cases.Add("turns", 70, 33, 1031, 5, {.padding = 1});
  cases.Add("turns", 70, 90, 530, 140, {.transpose_b = true, .beta = 1});
  // Short sums: few products that are neighbours in memory, and more columns than a warp has lanes.
  AddTransposes(cases, 21, 135, 3);
  if (!full) return cases.Take();

  // Short sums into results of all sizes, for every tile of the outer family.
  for (const auto [a, b] : kFlagsOfAAndB) {
    cases.Add("outer", 517, 1969, 51, 1, {.transpose_a = a, .transpose_b = b});
    cases.Add("outer", 1147, 1022, 39, 1,
              {.transpose_a = a, .transpose_b = b, .padding = 1, .alpha = 2, .beta = -1});
    cases.Add("outer", 1001, 3003, 2, 2, {.transpose_a = a, .transpose_b = b});
  }
  cases.Add("outer", 350, 2531, 21, 1, {.transpose_b = true});
  cases.Add("outer", 800, 1659, 63, 1, {.beta = 1});
  cases.Add("outer", 800, 1664, 1, 2, {.beta = 1, .c_is_d = true, .alignment_bytes = 256});

  // More tiles than places, of as few stages as one, and tiles of all widths.
  AddBoxes(cases, 8, 8, 20, 1500);
  AddBoxes(cases, 36, 96, 36, 1100);
  AddBoxes(cases, 36, 128, 36, 700);
  AddBoxes(cases, 132, 260, 100, 12);

  // k of more stages than there is room for, and rows that more than one block has.
  cases.Add("dense", 128, 257, 253, 66, {.alpha = 2});
  cases.Add("dense", 255, 400, 200, 33, {.beta = -1, .c_is_d = true, .alignment_bytes = 16});
  cases.Add("dense", 250, 222, 333, 16, {.beta = 1});
  cases.Add("dense", 33, 65, 127, 200, {.broadcast_a = true});
  cases.Add("dense", 99, 203, 307, 40, {.broadcast_b = true, .alpha = -1, .beta = 2});

  AddTransposes(cases, 131, 257, 67);
  AddTransposes(cases, 256, 128, 64);
  AddBatches(cases, 130, 66, 31);
  AddRows(cases, 130, 258, 70);
  cases.Add("rows", 3, 518, 37, 3, {.transpose_a = true});
  cases.Add("grids", 100, 104, 68, 140, {.alignment_bytes = 256});
  cases.Add("grids", 41, 200, 40, 270,
            {.padding = 4, .broadcast_b = true, .alpha = 2, .beta = -1, .alignment_bytes = 256});
  cases.Add("grids", 90, 300, 8, 132,
            {.padding = 8, .beta = 3, .c_is_d = true, .alignment_bytes = 16});
  cases.Add("non-finite", 129, 66, 65, 2, {.transpose_b = true, .alpha = 2}, {Fill::kNonFinite});
  cases.Add("prime", 127, 131, 61, 1, {.padding = 7});
  cases.Add("prime", 257, 67, 509, 1, {.transpose_a = true});
  cases.Add("prime", 13, 509, 1021, 1, {.transpose_b = true, .beta = 1});
  cases.Add("square", 256, 256, 256, 1, {.alignment_bytes = 256});
  AddTiles(cases, {256});
  // k around the stages and quarters of the pipelined kernels.
  for (int64_t k : {7, 8, 9, 15, 17, 31, 33, 127, 128, 129, 159, 161}) {
    cases.Add("depth", 130, 70, k, 1, {.alignment_bytes = 256});
  }
  // Narrow results, which have kernels of their own, in all transposes.
  for (int64_t narrow : {1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 24, 25, 31, 32, 33, 39, 40, 41}) {
    const bool odd = narrow % 2 != 0;
    cases.Add("narrow", narrow, 1028, 140, 1, {.transpose_a = odd, .alignment_bytes = 256});
    cases.Add("narrow", narrow, 1027, 141, 2,
              {.transpose_b = odd, .padding = 1, .alpha = 2, .beta = -1});
    cases.Add("narrow", 1028, narrow, 140, 1, {.transpose_b = !odd, .alignment_bytes = 256});
    cases.Add("narrow", 1027, narrow, 141, 2,
              {.transpose_a = odd, .padding = 1, .broadcast_b = true, .beta = 1});
  }
  cases.Add("deep", 2, 300, 9001, 3, {.beta = 1});
  cases.Add("deep", 300, 4, 9000, 1, {.transpose_a = true});
  cases.Add("deep", 9, 70, 40000, 2, {.padding = 2, .beta = 1});
  // Narrow results that share k among blocks: together, one by one, and too many for a cluster.
  AddTransposes(cases, 40, 333, 700);
  AddTransposes(cases, 600, 7, 1300);
  cases.Add("lanes", 24, 1500, 517, 1, {.alignment_bytes = 256});
  cases.Add("lanes", 1501, 16, 2049, 2, {.transpose_b = true, .padding = 4, .beta = 1});
  cases.Add("lanes", 3, 4101, 260, 17, {.broadcast_b = true, .beta = 1});
  cases.Add("lanes", 5, 130, 20000, 2, {.transpose_b = true, .padding = 1, .alpha = 2});
  // Strips of 16 in chunks: two, a few, and more than a cluster has.
  AddTransposes(cases, 23, 950, 1030);
  AddTransposes(cases, 266, 19, 1501);
  AddTransposes(cases, 31, 59, 2573);
  // One row, and one result, of any alignment and in any number of chunks.
  AddTransposes(cases, 1, 1503, 2049);
  cases.Add("line", 1, 4097, 771, 3, {.padding = 1, .alpha = 2, .beta = -1});
  cases.Add("line", 1, 515, 3001, 1, {});
  cases.Add("line", 2051, 1, 517, 1, {.transpose_a = true, .transpose_b = true, .beta = 1});
  cases.Add("line", 1, 66, 300, 1100, {.padding = 1});
  AddTransposes(cases, 1, 1, 9001);
  cases.Add("dot", 1, 1, 131072, 2, {.alpha = 2, .alignment_bytes = 256});
  cases.Add("dot", 1, 1, 515, 1100, {.beta = 1});
  cases.Add("dot", 1, 1, 4500, 1100, {});
  cases.Add("dot", 1, 1, 5003, 1, {.transpose_a = true, .padding = 3});
  cases.Add("dot", 5, 1, 9001, 3, {.transpose_b = true, .padding = 1, .beta = 1});
  cases.Add("dot", 5003, 1, 771, 1, {.beta = -1});
  cases.Add("dot", 300, 1, 1029, 5, {.padding = 2});
  // Columns in several rounds, in chunks one by one, and few.
  cases.Add("line", 1, 6101, 301, 1, {.beta = 1});
  cases.Add("line", 1, 2301, 5001, 1, {});
  cases.Add("line", 1, 7, 3001, 2, {.padding = 1});
  // Rows of every alignment in matrices that begin at multiples of 16 bytes.
  for (int64_t narrow : {6, 14, 22, 34, 38}) {
    for (const auto [a, b] : kFlagsOfAAndB) {
      cases.Add("ragged", narrow, 1502, 298, 2, {.transpose_a = a, .transpose_b = b});
      cases.Add("ragged", 1502, narrow, 298, 2, {.transpose_a = a, .transpose_b = b, .beta = 1});
      // One of the operands alone.
      cases.Add("ragged", narrow, 1504, 299, 1, {.transpose_a = a, .transpose_b = b});
      cases.Add("ragged", narrow + 2, 1501, 300, 1, {.transpose_a = a, .transpose_b = b});
    }
  }
  // Strips that are whole, and one that is cut.
  cases.Add("lanes", 34, 8457, 520, 1, {.beta = 2});
  cases.Add("lanes", 8457, 33, 515, 2, {.transpose_b = true, .padding = 3, .beta = 1});
  if (dtype == DType::kF32) {
    // Batches of narrow results whose strips all blocks share out: rows and matrices of every
    // alignment, one operand for all, k in chunks, and strips that are whole beside one that is
    // cut.
    for (const auto [a, b] : kFlagsOfAAndB) {
      cases.Add("batch", 29, 190, 299, 45, {.transpose_a = a, .transpose_b = b, .beta = 1});
      cases.Add("batch", 190, 18, 301, 46, {.transpose_a = a, .transpose_b = b, .alpha = 2});
      cases.Add("batch", 12, 150, 257, 27,
                {.transpose_a = a, .transpose_b = b, .padding = 3, .beta = -1});
      cases.Add("batch", 150, 5, 291, 28, {.transpose_a = a, .transpose_b = b});
    }
    cases.Add("batch", 1023, 31, 845, 9, {.padding = 1, .broadcast_b = true});
    cases.Add("batch", 16, 1023, 1301, 7, {.transpose_b = true, .broadcast_b = true, .beta = 1});
    cases.Add("batch", 8500, 20, 517, 2, {.transpose_a = true, .beta = 1});
    cases.Add("batch", 32, 256, 512, 40, {.alignment_bytes = 256});
    // Few tiles and long sums, shared by all blocks: of any alignment, and by boxes.
    AddTransposes(cases, 70, 131, 1501);
    for (const auto [a, b] : kFlagsOfAAndB) {
      cases.Add("dealt", 68, 196, 1100, 2,
                {.transpose_a = a, .transpose_b = b, .beta = 1, .alignment_bytes = 256});
    }
    cases.Add("dealt", 17, 130, 2049, 42, {.broadcast_b = true, .beta = -1});
    // More chunks than multiprocessors, which blocks take in turn: tiles whole, half and of both
    // kinds, upright and turned.
    for (const auto [a, b] : kFlagsOfAAndB) {
      cases.Add("turns", 41, 27, 1500, 11,
                {.transpose_a = a, .transpose_b = b, .padding = 1, .alpha = 2, .beta = -1});
      cases.Add("turns", 20, 150, 1300, 7,
                {.transpose_a = a, .transpose_b = b, .beta = 1, .alignment_bytes = 256});
      cases.Add("turns", 92, 60, 2116, 5,
                {.transpose_a = a, .transpose_b = b, .padding = 4, .alignment_bytes = 16});
      cases.Add("turns", 150, 85, 1101, 6, {.transpose_a = a, .transpose_b = b});
      // More tiles than places, of chunks of quarters.
      cases.Add("turns", 530, 132, 700, 9,
                {.transpose_a = a, .transpose_b = b, .beta = 1, .alignment_bytes = 256});
      cases.Add("turns", 70, 601, 331, 40,
                {.transpose_a = a, .transpose_b = b, .padding = 1, .alpha = 2, .beta = -1});
    }
    cases.Add("turns", 25, 600, 530, 40, {.broadcast_b = true, .beta = 1});
    cases.Add("dealt", 60, 64, 20000, 1,
              {.transpose_b = true, .padding = 4, .alpha = 2, .alignment_bytes = 16});
    // One tile, of rows of every alignment.
    AddTransposes(cases, 63, 64, 32773);
    cases.Add("tile", 45, 62, 32770, 2, {.transpose_b = true});
    // Enough tiles of a narrow or a middling result that k is shared by warps alone.
    cases.Add("quarters", 12, 33000, 130, 1, {.alignment_bytes = 256});
    cases.Add("quarters", 33000, 13, 133, 1, {.transpose_a = true, .padding = 1, .beta = 1});
    cases.Add("quarters", 30, 17000, 131, 1, {.transpose_b = true});
    cases.Add("quarters", 17000, 29, 159, 1, {.alignment_bytes = 256});
    cases.Add("quarters", 770, 833, 140, 2, {.transpose_b = true, .beta = 2});
    // More tiles than places, where a block sums quarters one after the other.
    AddBoxes(cases, 44, 60, 260, 280);
    cases.Add("quarters", 67, 130, 301, 140, {.transpose_a = true, .padding = 1, .beta = 1});
    cases.Add("quarters", 67, 129, 389, 140, {.alpha = 2});
    // A last column of tiles as wide as narrow ones may be, and one more.
    cases.Add("narrow", 130, 528, 262, 2, {.padding = 1, .alpha = 2, .beta = -1});
    cases.Add("narrow", 130, 529, 1030, 1, {.transpose_b = true});
    // Rows of one operand aligned, with whatever of the other.
    for (const auto [a, b] : kFlagsOfAAndB) {
      cases.Add("long", 140, 264, 301, 2,
                {.transpose_a = a, .transpose_b = b, .beta = 1, .alignment_bytes = 256});
      cases.Add("long", 68, 600, 1501, 2,
                {.transpose_a = a, .transpose_b = b, .padding = 4, .alignment_bytes = 16});
    }
    AddRows(cases, 130, 514, 134);
    AddRows(cases, 129, 131, 517);
    // Tiles that are cut along k: fewer than a wave, one more than a wave, and few behind a
    // wave of small tiles.
    AddTransposes(cases, 300, 530, 523);
    cases.Add("cut", 1102, 1091, 260, 1, {.transpose_b = true, .padding = 1, .beta = 1});
    cases.Add("cut", 1088, 1090, 257, 2, {.transpose_a = true, .alpha = 2}, {Fill::kIntegers});
    cases.Add("cut", 129, 257, 512, 1, {.transpose_a = true, .alignment_bytes = 256});
    cases.Add("cut", 66, 34000, 515, 1, {.transpose_a = true, .beta = 1});
  }
  cases.Add("thin", 1, 4099, 37, 1, {});
  cases.Add("thin", 1, 1021, 509, 1, {.transpose_b = true});
  cases.Add("thin", 7, 2053, 129, 1, {});
  cases.Add("tall", 4099, 1, 37, 1, {});
  cases.Add("tall", 2053, 7, 129, 1, {.transpose_a = true});
  cases.Add("deep", 1, 1, 500000, 1, {});
  cases.Add("deep", 3, 5, 65537, 1, {.transpose_a = true, .padding = 1});
  cases.Add("deep", 64, 64, 4096, 1, {.alignment_bytes = 256});
  // More matrices than a grid has planes, and more tiles of m than it has rows, for tiles of 16 and
  // of 128.
  cases.Add("many", 2, 3, 2, 70001, {.padding = 1, .beta = 1});
  cases.Add("many", 2, 3, 5, 70001, {.broadcast_b = true}, {Fill::kIntegers});
  cases.Add("high", 65535 * 16 + 17, 1, 2, 1, {}, {Fill::kIntegers});
  cases.Add("high", 65535 * 128 + 129, 1, 1, 1, {}, {Fill::kIntegers});
  cases.Add("wide", 1, 65535 * 16 + 17, 2, 1, {}, {Fill::kIntegers});
  return cases.Take();
}

}  // namespace gemm
