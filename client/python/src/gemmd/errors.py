"""What can go wrong, as exceptions.

Every exception of this package is a `GemmdError`. Where Python has a fitting exception of its own
the class derives from that as well, so `except ValueError` and `except TimeoutError` work.
"""

from __future__ import annotations


class GemmdError(Exception):
    """A call failed.

    Attributes:
        code: gRPC's name for the kind of failure, for example "UNAVAILABLE".
        message: What happened, in the words of the server or of gRPC.
        reason: Machine-readable, for example "QUEUE_FULL"; None where there is none, as for
            failures of the network. The server's README lists them.
        field: The argument or request field at fault, for example "a" or
            "product.a.leading_dimension"; None where it is not about one.
        hint: What to do about it, in plain words; None where there is nothing to say.
        retry_delay: Seconds after which the server suggests to try again; None where it did not.
        index: Of `Client.matmul_many`, the place of the product at fault; None otherwise.
    """

    code = "UNKNOWN"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        reason: str | None = None,
        field: str | None = None,
        hint: str | None = None,
        retry_delay: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.reason = reason
        self.field = field
        self.hint = hint
        self.retry_delay = retry_delay
        self.index: int | None = None

    def __str__(self) -> str:
        kind = f"{self.code}, {self.reason}" if self.reason else self.code
        place = "" if self.index is None else f"product {self.index}: "
        text = f"{place}{self.message} ({kind})"
        return f"{text}\n  hint: {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[object, ...]:  # For process pools.
        return (_rebuilt, (type(self), self.__dict__))


def _rebuilt(kind: type[GemmdError], state: dict[str, object]) -> GemmdError:
    error = kind(str(state["message"]))
    error.__dict__.update(state)
    return error


class InvalidArgument(GemmdError, ValueError):
    """An argument breaks a rule or a limit. `field` names it. Repeating the call cannot help."""

    code = "INVALID_ARGUMENT"


class InvalidType(InvalidArgument, TypeError):
    """An argument has a type that the service does not take and that nothing converts silently."""


class ResourceExhausted(GemmdError):
    """The call can never fit this server, or its reply this client: too many bytes."""

    code = "RESOURCE_EXHAUSTED"


class QuotaExceeded(ResourceExhausted):
    """Your share of the server's memory for matrices is used up."""


class MatrixNotFound(GemmdError, LookupError):
    """The server has no such matrix: it expired, was deleted, or the server has restarted."""

    code = "NOT_FOUND"


class MatrixExists(GemmdError):
    """The name of a matrix is in use already."""

    code = "ALREADY_EXISTS"


class MatrixNotSealed(GemmdError):
    """A matrix cannot be used yet: rows of it are missing."""

    code = "FAILED_PRECONDITION"


class Unavailable(GemmdError):
    """The server is full for the moment or shutting down, and retries did not help."""

    code = "UNAVAILABLE"


class ConnectionFailed(Unavailable, ConnectionError):
    """No gemmd server could be reached, or the connection broke."""


class DeadlineExceeded(GemmdError, TimeoutError):
    """The timeout passed before the result was here."""

    code = "DEADLINE_EXCEEDED"


class Unimplemented(GemmdError, NotImplementedError):
    """The server's device has no kernel for this, or the server does not know the method."""

    code = "UNIMPLEMENTED"


class Internal(GemmdError):
    """The server's device failed, or its reply made no sense."""

    code = "INTERNAL"


class Cancelled(GemmdError):
    """The client was closed while the call ran."""

    code = "CANCELLED"
