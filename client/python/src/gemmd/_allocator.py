"""Keeps the C library from giving a large call's buffers back to the kernel after every call."""

from __future__ import annotations

import functools

_LARGE_BYTES = 1 << 20

# Just below the largest size that glibc adapts to, 32 MiB with its bookkeeping.
_ADAPTED_TO = (32 << 20) - (64 << 10)


def expect_message(size_bytes: int) -> None:
    """To be called before a message of this size is put together."""
    if size_bytes >= _LARGE_BYTES:
        _adapt_once()


@functools.cache
def _adapt_once() -> None:
    """Freeing a block tells glibc that blocks of its size come and go: from then on it keeps up to
    twice as much freed memory for the next ones (mallopt(3), M_MMAP_THRESHOLD). Otherwise it
    returns the buffers of a message, and the next call faults every page in again: 1.35 times as
    long at 16 MiB. The block itself is never touched, so it costs nothing; with another C library
    nothing happens."""
    bytes(_ADAPTED_TO)
