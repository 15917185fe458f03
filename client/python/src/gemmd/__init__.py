"""NumPy client of gemmd, a service that multiplies matrices on GPUs.

>>> import gemmd
>>> with gemmd.Client("gpu7:50051") as c:
...     d = c.matmul(a, b)

Start at `Client`; every error is a `GemmdError`.
"""

from gemmd._many import Product
from gemmd._version import __version__
from gemmd.client import Client
from gemmd.errors import (
    Cancelled,
    ConnectionFailed,
    DeadlineExceeded,
    GemmdError,
    Internal,
    InvalidArgument,
    InvalidType,
    MatrixExists,
    MatrixNotFound,
    MatrixNotSealed,
    QuotaExceeded,
    ResourceExhausted,
    Unavailable,
    Unimplemented,
)
from gemmd.matrix import Matrix
from gemmd.results import (
    Candidate,
    Device,
    Explanation,
    Health,
    MatmulResult,
    MatrixInfo,
    Report,
    ServerInfo,
)

__all__ = [
    "Client",
    "Matrix",
    "Product",
    # Results
    "Candidate",
    "Device",
    "Explanation",
    "Health",
    "MatmulResult",
    "MatrixInfo",
    "Report",
    "ServerInfo",
    # Errors
    "Cancelled",
    "ConnectionFailed",
    "DeadlineExceeded",
    "GemmdError",
    "Internal",
    "InvalidArgument",
    "InvalidType",
    "MatrixExists",
    "MatrixNotFound",
    "MatrixNotSealed",
    "QuotaExceeded",
    "ResourceExhausted",
    "Unavailable",
    "Unimplemented",
    "__version__",
]
