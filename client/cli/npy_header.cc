#include "client/cli/npy_header.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gemm::cli {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kVersionBytes = 2;
constexpr size_t kAlignment = 64;
constexpr char kSupported[] = "supported are float32 (<f4) and float64 (<f8)";

absl::Status Fault(const std::string& fault) { return absl::InvalidArgumentError(fault); }

// Reads the dictionary, a small part of Python's literals.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  bool AtEnd() {
    SkipSpace();
    return rest_.empty();
  }

  bool Take(std::string_view token) {
    SkipSpace();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  std::optional<std::string> TakeString() {
    SkipSpace();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) return std::nullopt;
    const size_t end = rest_.find(rest_[0], 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string value(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return value;
  }

  // A tuple of non-negative integers. Its error is one of size or of syntax.
  absl::StatusOr<std::vector<int64_t>> TakeShape() {
    std::vector<int64_t> shape;
    bool comma = true;  // one is due before the next number
    if (!Take("(")) return Fault("its header's shape is not a tuple");
    while (!Take(")")) {
      if (!comma) return Fault("its header's shape is not a tuple of sizes");
      SkipSpace();
      int64_t value = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
      if (error == std::errc::result_out_of_range) {
        return Fault("its header's shape has a size beyond 64 bits");
      }
      if (error != std::errc() || value < 0) {
        return Fault("its header's shape is not a tuple of sizes");
      }
      rest_.remove_prefix(end - rest_.data());
      shape.push_back(value);
      comma = Take(",");
    }
    if (shape.size() == 1 && !comma) return Fault("its header's shape is not a tuple");
    return shape;
  }

 private:
  void SkipSpace() {
    const size_t start = rest_.find_first_not_of(" \t\n");
    rest_.remove_prefix(start == std::string_view::npos ? rest_.size() : start);
  }

  std::string_view rest_;
};

absl::StatusOr<ElementType> ParseDescr(const std::string& descr) {
  if (descr == "<f4") return ElementType::kF32;
  if (descr == "<f8") return ElementType::kF64;
  if (descr == ">f4" || descr == ">f8") {
    return Fault(absl::StrCat("is big-endian (", descr, "); ", kSupported));
  }
  if (descr == "|O" || descr == "O") {
    return Fault(absl::StrCat("holds Python objects (", descr, "); ", kSupported));
  }
  return Fault(absl::StrCat("has the unsupported dtype \"", descr, "\"; ", kSupported));
}

absl::StatusOr<NpyHeader> ParseDictionary(std::string_view text) {
  Scanner scanner(text);
  std::optional<ElementType> element_type;
  std::optional<bool> fortran_order;
  std::optional<std::vector<int64_t>> shape;
  if (!scanner.Take("{")) return Fault("its header is not a dictionary");
  while (!scanner.Take("}")) {
    const std::optional<std::string> key = scanner.TakeString();
    if (!key || !scanner.Take(":")) return Fault("its header is not a dictionary");
    if (*key == "descr" && !element_type) {
      const std::optional<std::string> descr = scanner.TakeString();
      if (!descr) return Fault(absl::StrCat("has a structured dtype; ", kSupported));
      const absl::StatusOr<ElementType> type = ParseDescr(*descr);
      if (!type.ok()) return type.status();
      element_type = *type;
    } else if (*key == "fortran_order" && !fortran_order) {
      fortran_order = scanner.Take("True");
      if (!*fortran_order && !scanner.Take("False")) {
        return Fault("its header's fortran_order is neither True nor False");
      }
    } else if (*key == "shape" && !shape) {
      absl::StatusOr<std::vector<int64_t>> sizes = scanner.TakeShape();
      if (!sizes.ok()) return sizes.status();
      shape = *std::move(sizes);
    } else {
      return Fault(absl::StrCat("its header has an unexpected or repeated key, \"", *key, "\""));
    }
    if (scanner.Take(",")) continue;
    if (scanner.Take("}")) break;
    return Fault("its header is not a dictionary");
  }
  if (!scanner.AtEnd()) return Fault("its header goes on after the dictionary");
  if (!element_type) return Fault("its header has no descr");
  if (!fortran_order) return Fault("its header has no fortran_order");
  if (!shape) return Fault("its header has no shape");
  return NpyHeader{*element_type, *fortran_order, *std::move(shape), 0};
}

}  // namespace

absl::StatusOr<NpyHeader> ParseNpyHeader(std::string_view file) {
  if (!file.starts_with(kMagic.substr(0, std::min(file.size(), kMagic.size())))) {
    return Fault("is not a .npy file: it does not begin with \\x93NUMPY");
  }
  if (file.size() < kMagic.size() + kVersionBytes) return Fault("is truncated in its header");
  const auto byte = [file](size_t i) { return static_cast<uint8_t>(file[i]); };
  const int major = byte(kMagic.size());
  const int minor = byte(kMagic.size() + 1);
  if (major < 1 || major > 3 || minor != 0) {
    return Fault(
        absl::StrCat("has .npy version ", major, ".", minor, "; supported are 1.0, 2.0 and 3.0"));
  }
  const size_t length_at = kMagic.size() + kVersionBytes;
  const size_t length_bytes = major == 1 ? 2 : 4;
  if (file.size() < length_at + length_bytes) return Fault("is truncated in its header");
  size_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) length |= size_t{byte(length_at + i)} << (8 * i);
  const size_t text_at = length_at + length_bytes;
  if (length > file.size() - text_at) {
    return Fault(absl::StrCat("is truncated in its header, which has ", length, " bytes, of which ",
                              file.size() - text_at, " are there"));
  }
  absl::StatusOr<NpyHeader> header = ParseDictionary(file.substr(text_at, length));
  if (header.ok()) header->size_bytes = text_at + length;
  return header;
}

std::string FormatNpyHeader(ElementType element_type, const std::vector<int64_t>& shape) {
  std::string text = absl::StrCat("{'descr': '", element_type == ElementType::kF32 ? "<f4" : "<f8",
                                  "', 'fortran_order': False, 'shape': (");
  for (const int64_t size : shape) absl::StrAppend(&text, size, ", ");
  if (shape.size() == 1) text.pop_back();              // "(3,)"
  if (shape.size() > 1) text.resize(text.size() - 2);  // "(3, 4)"
  absl::StrAppend(&text, "), }");
  const size_t prefix_bytes = kMagic.size() + kVersionBytes + 2;
  const size_t unpadded = prefix_bytes + text.size() + 1;
  text.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  text.push_back('\n');

  std::string header(kMagic);
  header.push_back(1);
  header.push_back(0);
  header.push_back(static_cast<char>(text.size() & 0xff));
  header.push_back(static_cast<char>(text.size() >> 8));
  return header + text;
}

}  // namespace gemm::cli
