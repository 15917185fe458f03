"""When to try again after UNAVAILABLE, and how long a call may take."""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass

from gemmd.errors import GemmdError

_LONGEST = 365 * 24 * 3600.0  # seconds; beyond it gRPC's clock may overflow


class Deadline:
    """A point in time."""

    def __init__(self, timeout: float) -> None:
        """`timeout` is seconds from now; infinity is never."""
        self.timeout = timeout
        self._end = time.monotonic() + timeout

    def left(self) -> float:
        """Seconds; not below zero."""
        return max(0.0, self._end - time.monotonic())

    def for_grpc(self) -> float | None:
        left = self.left()
        return None if left > _LONGEST else left


@dataclass(frozen=True)
class RetryPolicy:
    """`max_retries` further attempts; waits in seconds grow from `initial` by 2 up to `limit`."""

    max_retries: int
    initial: float
    limit: float

    def wait_after(self, error: GemmdError, retries: int, time_left: float) -> float | None:
        """Seconds until the next attempt, `retries` having been made; None: give up."""
        if error.code != "UNAVAILABLE" or retries >= self.max_retries:
            return None
        # Up to half is taken off at random, so that callers do not come back together.
        wait = min(self.initial * math.ldexp(1.0, min(retries, 60)), self.limit)
        wait *= random.uniform(0.5, 1.0)
        if error.retry_delay is not None:  # The least that the server asks for.
            wait = max(wait, error.retry_delay * random.uniform(1.0, 1.5))
        return wait if wait < time_left else None
