"""Failed calls as exceptions."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError

from gemmd import _contract
from gemmd._hints import hint_for
from gemmd.errors import (
    Cancelled,
    ConnectionFailed,
    DeadlineExceeded,
    GemmdError,
    Internal,
    InvalidArgument,
    ResourceExhausted,
    Unavailable,
    Unimplemented,
)

_CLASSES: dict[str, type[GemmdError]] = {
    kind.code: kind
    for kind in (
        Cancelled,
        DeadlineExceeded,
        Internal,
        InvalidArgument,
        ResourceExhausted,
        Unavailable,
        Unimplemented,
    )
}
_DETAILS = "grpc-status-details-bin"
_TYPE_PREFIX = "type.googleapis.com/google.rpc."


def error_of(failure: Any, address: str, uses_proxy: bool) -> GemmdError:
    """The exception for a failed grpc.Call."""
    code = failure.code().name
    message = failure.details() or "no message"
    details = _read_details(failure.trailing_metadata() or ())
    reason = details.get("reason")
    kind = _CLASSES.get(code, GemmdError)
    if kind is Unavailable and reason is None:
        kind = ConnectionFailed
    return kind(
        message,
        code=code,
        hint=hint_for(code, reason, message, address, uses_proxy),
        **details,
    )


def _read_details(trailers: Any) -> dict[str, Any]:
    """Reason, field and retry_delay, as far as the server sent them."""
    encoded = next((value for key, value in trailers if key == _DETAILS), None)
    found: dict[str, Any] = {}
    if encoded is None:
        return found
    try:
        for detail in _contract.StatusDetails.FromString(encoded).details:
            name = detail.type_url.removeprefix(_TYPE_PREFIX)
            if name == "ErrorInfo":
                found["reason"] = _contract.ErrorInfo.FromString(detail.value).reason or None
            elif name == "RetryInfo":
                delay = _contract.RetryInfo.FromString(detail.value).retry_delay
                found["retry_delay"] = delay.seconds + delay.nanos / 1e9
            elif name == "BadRequest":
                violations = _contract.BadRequest.FromString(detail.value).field_violations
                if violations:
                    found["field"] = violations[0].field
    except DecodeError:  # Someone else's trailer: the code and the text still tell.
        pass
    return found
