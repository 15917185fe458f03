// Which of our kernels a shape is tried with, and how each is launched.

#include <cuda.h>
#include <cudaTypedefs.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "device/add_parts.cuh"
#include "device/data_parallel.cuh"
#include "device/skinny_registers.cuh"
#include "device/skinny_ring.cuh"
#include "device/stream_k.cuh"
#include "device/thin.cuh"
#include "harness/lab.h"
#include "harness/tile_variants.h"

namespace lab {
namespace {

constexpr int kGroup = 8;  // tile rows that share L2

int CeilDivide(int x, int y) { return (x + y - 1) / y; }
bool MultipleOf4(int x) { return (x & 3) == 0; }

CUtensorMap MakeMap(const float* from, uint64_t inner, uint64_t outer, uint32_t box_inner,
                    uint32_t box_outer) {
  static PFN_cuTensorMapEncodeTiled_v12000 encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult result;
    LAB_CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                               cudaEnableDefault, &result));
    return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
  }();
  CUtensorMap map;
  cuuint64_t sizes[2] = {inner, outer}, strides[1] = {inner * 4};
  cuuint32_t box[2] = {box_inner, box_outer}, steps[2] = {1, 1};
  CUresult result =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, const_cast<float*>(from), sizes, strides,
             box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    std::printf("tensor map: error %d\n", result);
    std::exit(1);
  }
  return map;
}

// The one kernel of a cubin, or null if there is no such file.
const void* LoadKernel(const std::string& path, int shared_bytes) {
  static std::map<std::string, const void*> loaded;
  if (auto it = loaded.find(path); it != loaded.end()) return it->second;
  const void* kernel = nullptr;
  if (FILE* file = std::fopen(path.c_str(), "r")) {
    std::fclose(file);
    cudaLibrary_t library;
    LAB_CHECK(
        cudaLibraryLoadFromFile(&library, path.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
    cudaKernel_t only;
    LAB_CHECK(cudaLibraryEnumerateKernels(&only, 1, library));
    kernel = reinterpret_cast<const void*>(only);
    LAB_CHECK(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
  }
  return loaded[path] = kernel;
}

class Builder {
 public:
  Builder(const Context& context, const Shape& shape, const std::vector<OperandSet>& sets)
      : context_(context), shape_(shape), sets_(sets) {}

  std::vector<Candidate> Build();

 private:
  struct Maps {
    std::vector<CUtensorMap> a, b;
  };
  enum class Transposed { kMade, kGiven };  // is making A^T part of the time?

  void AddTile(const char* variant, int splits = 1, Transposed transposed = Transposed::kMade);
  // `kernel` may be null. `arguments` of a set: what the kernel takes behind the two maps.
  template <class Arguments>
  void AddTileKernel(std::string name, const void* kernel, const TileVariant& v, int grid,
                     int splits, Transposed transposed, std::shared_ptr<Maps> maps,
                     std::function<Arguments(const OperandSet&)> arguments);
  void AddForms(const TileVariant& v, const std::string& name,
                const std::function<void(std::string, const void*)>& add);
  std::shared_ptr<Maps> TileMaps(const TileVariant& v);
  template <int kRows>
  void AddSkinnyRegisters();
  template <int kRows, int kWarps, int kDepth, int kStages>
  void AddSkinnyRing();
  void AddThin();
  static void AddUp(const Context& context, const Shape& shape, float* out, int parts,
                    cudaStream_t stream);

  const Context& context_;
  const Shape shape_;
  const std::vector<OperandSet>& sets_;
  std::vector<Candidate> out_;
};

void Builder::AddUp(const Context& context, const Shape& shape, float* out, int parts,
                    cudaStream_t stream) {
  int size4 = (int)((size_t)shape.m * shape.n / 4);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(CeilDivide(size4, 32));
  config.blockDim = dim3(256);
  config.stream = stream;
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  LAB_CHECK(cudaLaunchKernelEx(&config, AddParts, (const float4*)context.workspace, (float4*)out,
                               size4, parts));
}

std::shared_ptr<Builder::Maps> Builder::TileMaps(const TileVariant& v) {
  auto maps = std::make_shared<Maps>();
  for (const OperandSet& set : sets_) {
    maps->a.push_back(v.reads_transposed
                          ? MakeMap(set.a_transposed, shape_.m, shape_.k, v.tile_m, v.depth)
                          : CUtensorMap{});
    maps->b.push_back(v.b_by_tma ? MakeMap(set.b, shape_.n, shape_.k, v.tile_n, v.depth)
                                 : CUtensorMap{});
  }
  return maps;
}

// The compiled form and the one with the rebuilt loop, as far as they exist.
void Builder::AddForms(const TileVariant& v, const std::string& name,
                       const std::function<void(std::string, const void*)>& add) {
  const std::string file = std::string("/") + v.name + ".cubin";
  const void* rebuilt = LoadKernel(context_.cubin_dir + "/rebuilt" + file, v.shared_bytes);
  const void* compiled = LoadKernel(context_.cubin_dir + "/compiled" + file, v.shared_bytes);
  if (compiled == nullptr) {
    std::printf("%s/compiled%s is missing\n", context_.cubin_dir.c_str(), file.c_str());
    std::exit(1);
  }
  if (rebuilt == nullptr || !context_.only_rebuilt) add(name, compiled);
  if (rebuilt != nullptr) add(name + ".rebuilt", rebuilt);
}

template <class Arguments>
void Builder::AddTileKernel(std::string name, const void* kernel, const TileVariant& v, int grid,
                            int splits, Transposed transposed, std::shared_ptr<Maps> maps,
                            std::function<Arguments(const OperandSet&)> arguments) {
  out_.push_back(
      {std::move(name),
       [=, &context = context_, &sets = sets_, shape = shape_](int i, cudaStream_t stream) {
         const size_t s = i % sets.size();
         Arguments p = arguments(sets[s]);
         if (v.reads_transposed && (transposed == Transposed::kMade || context.checking)) {
           MakeTransposed(sets[s], shape, stream);
         }
         void* all[] = {&maps->a[s], &maps->b[s], &p};
         LAB_CHECK(
             cudaLaunchKernel(kernel, dim3(grid), dim3(v.threads), all, v.shared_bytes, stream));
         if (splits > 1) AddUp(context, shape, sets[s].c, splits, stream);
       }});
}

void Builder::AddTile(const char* variant, int splits, Transposed transposed) {
  const TileVariant& v = FindTileVariant(variant);
  if (v.b_by_tma && !MultipleOf4(shape_.n)) return;
  if (v.reads_transposed && (!MultipleOf4(shape_.m) || sets_[0].a_transposed == nullptr)) return;
  const Shape shape = shape_;
  const int tiles_m = CeilDivide(shape.m, v.tile_m), tiles_n = CeilDivide(shape.n, v.tile_n),
            tiles = tiles_m * tiles_n, stages = CeilDivide(shape.k, v.depth);
  std::string name = v.name;
  if (v.reads_transposed) {
    name.replace(name.rfind("_tma"), 4,
                 transposed == Transposed::kMade ? "_transposing" : "_transposed");
  }
  auto maps = TileMaps(v);
  if (v.stream_k) {
    // Cut tiles are shared so that a contributor has at least two stages.
    const int whole = tiles / context_.sms * context_.sms, cut = tiles - whole,
              contributors = std::max(1, std::min(context_.sms, std::max(cut, cut * stages / 2))),
              grid = whole != 0 ? context_.sms : contributors;
    AddForms(v, name, [&](std::string form, const void* kernel) {
      AddTileKernel<StreamKArguments>(std::move(form), kernel, v, grid, 1, transposed, maps,
                                      [=, &context = context_](const OperandSet& set) {
                                        return StreamKArguments{set.a,
                                                                set.c,
                                                                (float4*)context.workspace,
                                                                context.counters,
                                                                shape.m,
                                                                shape.n,
                                                                shape.k,
                                                                shape.k,
                                                                shape.n,
                                                                tiles_m,
                                                                tiles_n,
                                                                kGroup,
                                                                stages,
                                                                whole,
                                                                cut,
                                                                contributors,
                                                                1.0f};
                                      });
    });
    return;
  }
  splits = std::min(splits, stages);
  const size_t size = (size_t)shape.m * shape.n;
  if (splits > 1 && (size * splits * 4 > context_.workspace_bytes || size % 4 != 0)) return;
  const int per_split = CeilDivide(stages, splits);
  splits = CeilDivide(stages, per_split);
  if (splits > 1) name += "_k" + std::to_string(splits);
  // A kernel with slices takes one tile a CTA, see data_parallel.cuh.
  const int grid =
      v.slices > 1 ? tiles * splits : std::min(tiles * splits, context_.sms * v.blocks_per_sm);
  AddForms(v, name, [&](std::string form, const void* kernel) {
    AddTileKernel<DataParallelArguments>(
        std::move(form), kernel, v, grid, splits, transposed, maps,
        [=, &context = context_](const OperandSet& set) {
          return DataParallelArguments{set.a,   set.b,     splits > 1 ? context.workspace : set.c,
                                       shape.m, shape.n,   shape.k,
                                       shape.k, shape.n,   shape.n,
                                       tiles_m, tiles_n,   kGroup,
                                       splits,  per_split, 1.0f};
        });
  });
}

template <int kRows>
void Builder::AddSkinnyRegisters() {
  constexpr int kWarps = 16;
  using F = SkinnyRegistersConfig<kRows, 8, kWarps, 8>;
  if (!MultipleOf4(shape_.n) || shape_.m > kRows) return;
  auto kernel = SkinnyRegisters<kRows, 8, kWarps, 8>;
  LAB_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, F::kSharedBytes));
  const int per_warp = CeilDivide(CeilDivide(shape_.k, kWarps), F::kChunk) * F::kChunk,
            slab = std::min(per_warp * kWarps, shape_.k);
  out_.push_back(
      {"skinny_registers_" + std::to_string(kRows),
       [=, &sets = sets_, shape = shape_](int i, cudaStream_t stream) {
         const OperandSet& set = sets[i % sets.size()];
         kernel<<<CeilDivide(shape.n, F::kColumns), kWarps * 32, F::kSharedBytes, stream>>>(
             set.a, set.b, set.c, shape.m, shape.n, shape.k, slab, per_warp, 1.0f);
       }});
}

template <int kRows, int kWarps, int kDepth, int kStages>
void Builder::AddSkinnyRing() {
  using F = SkinnyRingConfig<kRows, kWarps, kDepth, kStages>;
  if (!MultipleOf4(shape_.n) || !MultipleOf4(shape_.k) || shape_.m > kRows) return;
  auto kernel = SkinnyRing<kRows, kWarps, kDepth, kStages>;
  LAB_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, F::kSharedBytes));
  auto maps = std::make_shared<Maps>();
  for (const OperandSet& set : sets_) {
    maps->a.push_back(MakeMap(set.a, shape_.k, shape_.m, kDepth, kRows));
    maps->b.push_back(MakeMap(set.b, shape_.n, shape_.k, 32, kDepth));
  }
  out_.push_back({"skinny_ring_" + std::to_string(kRows),
                  [=, &sets = sets_, shape = shape_](int i, cudaStream_t stream) {
                    const size_t s = i % sets.size();
                    kernel<<<CeilDivide(shape.n, 32), kWarps * 32, F::kSharedBytes, stream>>>(
                        maps->a[s], maps->b[s], sets[s].c, shape.m, shape.n, shape.k,
                        CeilDivide(shape.k, kDepth), 1.0f);
                  }});
}

void Builder::AddThin() {
  constexpr int kColumns = 4, kRows = 4, kWarps = 8;
  const int shared_bytes = CeilDivide(shape_.k, 128) * 128 * kColumns * 4;
  if (shape_.n > kColumns || !MultipleOf4(shape_.k) || shared_bytes > 200 << 10) return;
  auto kernel = Thin<kColumns, kRows, kWarps, 2>;
  LAB_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
  out_.push_back(
      {"thin_4", [=, &sets = sets_, shape = shape_](int i, cudaStream_t stream) {
         const OperandSet& set = sets[i % sets.size()];
         kernel<<<CeilDivide(shape.m, kWarps * kRows), kWarps * 32, shared_bytes, stream>>>(
             set.a, set.b, set.c, shape.m, shape.n, shape.k, 1.0f);
       }});
}

std::vector<Candidate> Builder::Build() {
  const int m = shape_.m, n = shape_.n;
  const bool huge = m >= 16384 && n >= 16384;
  const int tiles64 = CeilDivide(m, 64) * CeilDivide(n, 64), splits64 = std::max(1, 264 / tiles64);
  if (m <= 32 && n >= 256) {
    if (m == 1) AddSkinnyRegisters<1>();
    if (m <= 4) AddSkinnyRegisters<4>();
    if (m <= 8) AddSkinnyRing<8, 8, 128, 10>();
    if (m <= 16) AddSkinnyRing<16, 16, 256, 4>();
    if (m > 8) AddSkinnyRing<32, 8, 256, 3>();
    if (m > 8) AddTile("sliced_32x128_copying", 4);
  }
  if (n <= 4 && m >= 256) AddThin();
  if (m >= 128 && n >= 512) {
    AddTile("stream_k_128x256_copying");
    AddTile("stream_k_128x256_tma");
    if (!huge) AddTile("stream_k_128x256_tma", 1, Transposed::kGiven);
  }
  if (m >= 1024 && n >= 512 && !huge) {
    AddTile("data_parallel_128x256_copying");
    AddTile("data_parallel_128x256_tma");
    AddTile("data_parallel_128x256_tma", 1, Transposed::kGiven);
    if (!MultipleOf4(n)) AddTile("data_parallel_128x256_words");
  }
  if (m >= 512 && n >= 512 && (size_t)m * n <= 8u << 20) {
    AddTile("data_parallel_128x128_copying");
    AddTile("data_parallel_128x128_tma");
  }
  if (m > 64 && m <= 128 && n > 1280) {
    AddTile("data_parallel_128x256_copying", std::max(1, 132 / CeilDivide(n, 256)));
  }
  if (m > 32 && m <= 1280 && n > 32 && n <= 1280) {
    AddTile("sliced_64x64_copying", splits64);
    AddTile("sliced_64x64_tma", splits64);
    AddTile("sliced_64x64_tma", splits64, Transposed::kGiven);
  }
  if (m > 32 && m <= 128 && n > 1280) AddTile("sliced_64x64_copying", splits64);
  return std::move(out_);
}

}  // namespace

std::vector<Candidate> OurCandidates(const Context& context, const Shape& shape,
                                     const std::vector<OperandSet>& sets) {
  return Builder(context, shape, sets).Build();
}

}  // namespace lab
