#include "kernels/registry.h"

#include "kernels/families/families.h"

namespace gemm {

std::string_view NameOf(NumericsClass numerics) {
  switch (numerics) {
    case NumericsClass::kSequential:
      return "sequential";
  }
  return "unknown";
}

std::span<const KernelFamily* const> Families() {
  static const KernelFamily* const kFamilies[] = {
      &RegisterFamily(),
      &TiledFamily(),
      &NaiveFamily(),
      &ReferenceFamily(),
  };
  return kFamilies;
}

}  // namespace gemm
