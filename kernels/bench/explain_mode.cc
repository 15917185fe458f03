// explain: what would run a shape on an H200, and why; needs no GPU. A list of shapes gives a line
// each, as tests/kernels/golden_choices.txt holds them.

#include <cstdio>

#include "kernels/bench/choices.h"
#include "kernels/bench/literal_devices.h"
#include "kernels/bench/modes.h"
#include "kernels/registry.h"

namespace gemm {

int RunExplain(const Flags& flags) {
  std::string fault;
  const std::vector<BenchShape> shapes = ReadShapes(flags.shapes, flags.words, &fault);
  if (!fault.empty()) return Refuse(fault);
  const DeviceInfo device = flags.portable ? Portable(H200()) : H200();
  const TuningTable table = TableFor(flags, device);
  const std::vector<DType> dtypes = DTypes(flags);
  if (shapes.size() > 1) {
    std::printf("%s", ChoicesText(dtypes, shapes, device, Families(), table).c_str());
    return 0;
  }
  for (DType dtype : dtypes) {
    const Problem problem = BenchProblem(shapes.front(), dtype);
    std::printf("%s %s on %s: %s", std::string(NameOf(dtype)).c_str(),
                NameOf(shapes.front()).c_str(), device.name.c_str(),
                ExplanationText(problem, device, Families(), table).c_str());
  }
  return 0;
}

}  // namespace gemm
