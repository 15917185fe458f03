// Copies of bulk data, past the processor's caches.

#ifndef GEMMD_PROTO_STREAM_COPY_H_
#define GEMMD_PROTO_STREAM_COPY_H_

#include <cstddef>

namespace gemm {

// As memcpy, for memory that is not in this core's cache and is not read by it soon: a plain store
// reads the line first that it is about to overwrite, which a copy of cold memory pays a third of
// its traffic for, and C's memcpy avoids that only for pieces of many MiB. What was written is
// visible to whoever the caller then tells, by any means.
void StreamCopy(void* to, const void* from, size_t bytes);

}  // namespace gemm

#endif  // GEMMD_PROTO_STREAM_COPY_H_
