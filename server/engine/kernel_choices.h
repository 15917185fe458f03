// Remembers which kernels a problem gets: Select takes microseconds, and callers ask for the same
// shapes again and again.

#ifndef GEMMD_SERVER_ENGINE_KERNEL_CHOICES_H_
#define GEMMD_SERVER_ENGINE_KERNEL_CHOICES_H_

#include <array>
#include <cstddef>

#include "absl/functional/function_ref.h"
#include "kernels/select.h"

namespace gemm {

struct KernelChoice {
  KernelRef alone;    // family is null: nothing can run it
  KernelRef grouped;  // in a launch with others, with the same bits; family is null: in none
};

// Not thread-safe.
class KernelChoices {
 public:
  // What `choose`, a pure function, says of the problem.
  KernelChoice Get(const Problem& problem, absl::FunctionRef<KernelChoice(const Problem&)> choose);

 private:
  struct Entry {
    Problem problem;
    KernelChoice choice;  // alone.family is null: nothing here
  };
  static constexpr size_t kEntries = 256;  // a newcomer takes the place of what was there

  std::array<Entry, kEntries> entries_;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_ENGINE_KERNEL_CHOICES_H_
