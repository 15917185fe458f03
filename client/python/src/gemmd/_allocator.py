"""An option for programs that send large matrices again and again."""

from __future__ import annotations

import ctypes

# glibc's <malloc.h>
_M_TRIM_THRESHOLD = -1
_M_TOP_PAD = -2
_M_MMAP_THRESHOLD = -3

_SETTINGS = (
    (_M_TRIM_THRESHOLD, 2**31 - 1),
    (_M_TOP_PAD, 64 << 20),
    (_M_MMAP_THRESHOLD, 32 << 20),  # the most that glibc takes
)


def keep_freed_memory() -> bool:
    """Tells the C library to keep freed memory of this whole process for the next call.

    Otherwise glibc gives the buffers of a large message back to the kernel after each call, and
    the next call faults every page in again. The price is a process that stays as large as its
    busiest moment. Returns whether the C library took it; only glibc does.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return all(mallopt(name, value) == 1 for name, value in _SETTINGS)
