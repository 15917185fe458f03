#include "server/engine/kernel_choices.h"

#include <cstdint>

namespace gemm {
namespace {

// Of the sizes; what else differs is told apart by comparing.
size_t Mix(const Problem& problem) {
  uint64_t hash = static_cast<uint64_t>(problem.dtype) * 2 + (problem.a.transposed ? 1 : 0);
  for (const int64_t value : {problem.m, problem.n, problem.k, problem.batch_count}) {
    hash = (hash ^ static_cast<uint64_t>(value)) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace

KernelChoice KernelChoices::Get(const Problem& problem,
                                absl::FunctionRef<KernelChoice(const Problem&)> choose) {
  Entry& entry = entries_[Mix(problem) % kEntries];
  if (entry.choice.alone.family == nullptr || entry.problem != problem) {
    entry = {problem, choose(problem)};
  }
  return entry.choice;
}

}  // namespace gemm
