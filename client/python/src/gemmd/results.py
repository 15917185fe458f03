"""What calls return: plain values. Times are in seconds."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from gemmd._payload import Array


@dataclass(frozen=True)
class Report:
    """How one call of a product ran.

    Attributes:
        kernel: Full name of the kernel that ran; empty when nothing had to run.
        device: For example "NVIDIA H200" or "cpu".
        device_index: Of the server's devices.
        batch_problems: Requests that the server ran in the same batch, this one included.
        phases: Seconds on the server, by phase, in the order they happen: "admit" (until the
            message may be read), "receive", "decode" (checking and the copy into pinned memory),
            "queue", "copy_in", "compute", "copy_out".
        wall: Seconds of the whole call as the client saw it, retries included.
        attempts: 1 plus the retries that it took.
        request_bytes: Of the message of one attempt.
        reply_bytes: Of the reply.
    """

    kernel: str
    device: str
    device_index: int
    batch_problems: int
    phases: dict[str, float]
    wall: float
    attempts: int
    request_bytes: int
    reply_bytes: int


@dataclass(frozen=True)
class MatmulResult:
    """A product and how it came about.

    Attributes:
        array: D.
        reports: One for each call. A product is one call, unless its batch dimensions broadcast
            in a way that takes several, or it goes in panels; an empty result takes none.
    """

    array: Array
    reports: tuple[Report, ...]

    @property
    def report(self) -> Report:
        """The report of the only call. ValueError where there were several or none."""
        (report,) = self.reports
        return report


@dataclass(frozen=True)
class Device:
    """A device of the server."""

    index: int
    name: str
    uuid: str  # empty on the CPU
    kind: str  # "cuda" or "cpu"
    compute_capability: int  # major * 10 + minor; 0 on the CPU
    multiprocessors: int  # cores on the CPU
    memory_bytes: int
    healthy: bool


@dataclass(frozen=True)
class ServerInfo:
    """What a server says of itself."""

    version: str
    commit: str
    devices: tuple[Device, ...]
    kernels: tuple[str, ...]  # full names, in the order in which they are considered
    dtypes: tuple[str, ...]  # those that this client knows, by NumPy's names
    message_limit_bytes: int  # largest request and largest reply
    uptime: float  # seconds
    # Memory for matrices that stay on the server, over all devices, and what is taken of it.
    matrix_memory_bytes: int = 0
    matrix_memory_used_bytes: int = 0
    time_to_live_limit: float = 0.0  # seconds; the longest `ttl`


@dataclass(frozen=True)
class MatrixInfo:
    """What the server says of a matrix that stays there."""

    name: str
    dtype: str  # by NumPy's name; empty where this client does not know the type
    shape: tuple[int, int]
    rows_written: int
    sealed: bool  # all rows are there: it can be used, and never changes
    ttl: float  # seconds that it is kept without being used
    expires_in: float  # seconds, unless it is used before
    memory_bytes: int  # on the device
    device_index: int


@dataclass(frozen=True)
class Candidate:
    """A kernel that was considered for a product."""

    kernel: str
    why_not: str  # empty when it could run the product
    modelled: float  # seconds that the cost model expects; 0 with why_not, and on the CPU


@dataclass(frozen=True)
class Explanation:
    """Which kernel would run a product, and why."""

    chosen: str
    reason: str  # "measured", "modelled", "only one" or "forced"
    device: str
    candidates: tuple[Candidate, ...]  # in the order in which they are considered


class Health(str, enum.Enum):
    """A server's own word on whether it takes calls."""

    SERVING = "SERVING"
    NOT_SERVING = "NOT_SERVING"  # draining, or without a working device
    UNKNOWN = "UNKNOWN"
