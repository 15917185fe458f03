#include "proto/stream_copy.h"

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace gemm {

void StreamCopy(void* to, const void* from, size_t bytes) {
  constexpr size_t kLine = 64;
  auto* out = static_cast<char*>(to);
  const auto* in = static_cast<const char*>(from);
  const size_t misaligned = -reinterpret_cast<uintptr_t>(out) % kLine;
  const size_t head = std::min(misaligned, bytes);
  std::memcpy(out, in, head);
  out += head;
  in += head;
  bytes -= head;
  for (; bytes >= kLine; bytes -= kLine, out += kLine, in += kLine) {
    const auto* line = reinterpret_cast<const __m128i*>(in);
    const __m128i x0 = _mm_loadu_si128(line);
    const __m128i x1 = _mm_loadu_si128(line + 1);
    const __m128i x2 = _mm_loadu_si128(line + 2);
    const __m128i x3 = _mm_loadu_si128(line + 3);
    auto* target = reinterpret_cast<__m128i*>(out);
    _mm_stream_si128(target, x0);
    _mm_stream_si128(target + 1, x1);
    _mm_stream_si128(target + 2, x2);
    _mm_stream_si128(target + 3, x3);
  }
  std::memcpy(out, in, bytes);
  _mm_sfence();  // such stores are not ordered with others by themselves
}

}  // namespace gemm
