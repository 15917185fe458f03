// The choices that a product makes.

#ifndef GEMMD_CLIENT_CPP_GEMMD_TYPES_H_
#define GEMMD_CLIENT_CPP_GEMMD_TYPES_H_

#include <string_view>

namespace gemm {

enum class ElementType { kF32, kF64 };

std::string_view NameOf(ElementType type);  // "f32"

// How a product is computed. Nothing lower than asked is ever used.
enum class Precision {
  kStrict,  // fused multiply-adds in the product's own type
};

std::string_view NameOf(Precision precision);  // "strict"

}  // namespace gemm

#endif  // GEMMD_CLIENT_CPP_GEMMD_TYPES_H_
