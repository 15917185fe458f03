#include "kernels/bench/peer.h"

namespace gemm {
namespace {

class NoPeer final : public Peer {
 public:
  std::string version() const override { return "no cuBLAS in this build"; }
  std::vector<std::string> Prepare(const Problem&, std::string* why_not) override {
    *why_not = version();
    return {};
  }
  std::vector<std::string> PrepareGroup(std::span<const Problem> /*problems*/,
                                        std::span<const std::vector<Operands>> /*sets*/) override {
    return {};
  }
  bool LaunchGroup(size_t /*way*/, size_t /*set*/, cudaStream_t /*stream*/) override {
    return false;
  }
  bool Launch(size_t, const Operands&, cudaStream_t) override { return false; }
};

}  // namespace

std::unique_ptr<Peer> MakePeer() { return std::make_unique<NoPeer>(); }

}  // namespace gemm
