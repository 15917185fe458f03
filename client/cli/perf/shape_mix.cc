#include "client/cli/perf/shape_mix.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/limits.h"

namespace gemm::cli {
namespace {

std::vector<std::string> Split(const std::string& text, char separator) {
  return absl::StrSplit(text, separator);
}

absl::Status Fault(const std::string& word, const std::string& fault) {
  return absl::InvalidArgumentError(absl::StrCat("\"", word, "\" ", fault));
}

absl::StatusOr<MixShape> ParseShape(const std::string& word) {
  MixShape shape;
  const std::vector<std::string> halves = Split(word, ':');
  if (halves.size() > 2 ||
      (halves.size() == 2 && (!absl::SimpleAtod(halves[1], &shape.weight) ||
                              !std::isfinite(shape.weight) || !(shape.weight > 0)))) {
    return Fault(word, "has no weight above 0 after its colon");
  }
  const std::vector<std::string> parts = Split(halves[0], '/');
  const std::vector<std::string> sizes = Split(parts[0], 'x');
  if (sizes.size() != 3 || !absl::SimpleAtoi(sizes[0], &shape.m) ||
      !absl::SimpleAtoi(sizes[1], &shape.n) || !absl::SimpleAtoi(sizes[2], &shape.k)) {
    return Fault(word, "does not begin as MxNxK, such as 64x64x64");
  }
  for (size_t i = 1; i < parts.size(); ++i) {
    if (parts[i] == NameOf(ElementType::kF32)) {
      shape.type = ElementType::kF32;
    } else if (parts[i] == NameOf(ElementType::kF64)) {
      shape.type = ElementType::kF64;
    } else if (parts[i] == "ta") {
      shape.transpose_a = true;
    } else if (parts[i] == "tb") {
      shape.transpose_b = true;
    } else {
      return Fault(word,
                   absl::StrCat("has /", parts[i], ", which is none of /f32, /f64, /ta, /tb"));
    }
  }
  const int64_t limit = kMaxMessageBytes / shape.element_bytes();
  for (const int64_t size : {shape.m, shape.n, shape.k}) {
    if (size < 1 || size > limit) {
      return Fault(word, absl::StrCat("has a size that is not from 1 to ", limit));
    }
  }
  if (shape.m * shape.k > limit || shape.k * shape.n > limit || shape.m * shape.n > limit) {
    return Fault(word, "has a matrix that is larger than a message can be");
  }
  return shape;
}

}  // namespace

std::string MixShape::name() const {
  return absl::StrCat(m, "x", n, "x", k, "/", std::string(NameOf(type)), transpose_a ? "/ta" : "",
                      transpose_b ? "/tb" : "");
}

ShapeMix::ShapeMix(std::vector<MixShape> shapes) : shapes_(std::move(shapes)) {
  double sum = 0;
  for (const MixShape& shape : shapes_) cumulative_.push_back(sum += shape.weight);
}

absl::StatusOr<ShapeMix> ShapeMix::Parse(const std::string& text) {
  std::vector<MixShape> shapes;
  for (const std::string& word : Split(text, ',')) {
    const absl::StatusOr<MixShape> shape = ParseShape(word);
    if (!shape.ok()) return shape.status();
    shapes.push_back(*shape);
  }
  ShapeMix mix(std::move(shapes));
  if (!std::isfinite(mix.total_weight())) return Fault(text, "has weights that are too large");
  return mix;
}

void ShapeMix::KeepBOnServer() {
  for (MixShape& shape : shapes_) shape.resident_b = true;
}

bool ShapeMix::by_panels() const {
  return std::any_of(shapes_.begin(), shapes_.end(), [](const auto& x) { return x.by_panels(); });
}

size_t ShapeMix::Pick(Random& random) const {
  if (shapes_.size() == 1) return 0;
  const double at = random.Uniform() * total_weight();
  const auto found = std::upper_bound(cumulative_.begin(), cumulative_.end(), at);
  return std::min<size_t>(found - cumulative_.begin(), shapes_.size() - 1);
}

}  // namespace gemm::cli
