"""Failed calls as exceptions."""

from __future__ import annotations

from typing import Any

import grpc
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
    MatrixExists,
    MatrixNotFound,
    MatrixNotSealed,
    QuotaExceeded,
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
        MatrixExists,
        MatrixNotFound,
        MatrixNotSealed,
        ResourceExhausted,
        Unavailable,
        Unimplemented,
    )
}
_DETAILS = "grpc-status-details-bin"
_TYPE_PREFIX = "type.googleapis.com/google.rpc."


def error_of(failure: Any, address: str, uses_proxy: bool) -> GemmdError:
    """The exception for a failed grpc.Call."""
    encoded = next(
        (value for key, value in failure.trailing_metadata() or () if key == _DETAILS), None
    )
    return _make_error(
        failure.code().name,
        failure.details() or "no message",
        {} if encoded is None else _read_encoded(encoded),
        address,
        uses_proxy,
    )


def error_of_status(status: Any, address: str) -> GemmdError:
    """The exception for the StatusDetails of one product of many."""
    code = next((code for code in grpc.StatusCode if code.value[0] == status.code), None)
    name = "UNKNOWN" if code is None else code.name
    return _make_error(name, status.message or "no message", _read_details(status), address, False)


def _make_error(
    code: str, message: str, details: dict[str, Any], address: str, uses_proxy: bool
) -> GemmdError:
    reason = details.get("reason")
    kind = _CLASSES.get(code, GemmdError)
    if kind is Unavailable and reason is None:
        kind = ConnectionFailed
    if reason == "QUOTA_EXCEEDED":
        kind = QuotaExceeded
    return kind(
        message, code=code, hint=hint_for(code, reason, message, address, uses_proxy), **details
    )


def _read_encoded(encoded: bytes) -> dict[str, Any]:
    try:
        return _read_details(_contract.StatusDetails.FromString(encoded))
    except DecodeError:  # Someone else's trailer: the code and the text still tell.
        return {}


def _read_details(status: Any) -> dict[str, Any]:
    """Reason, field and retry_delay, as far as the server sent them."""
    found: dict[str, Any] = {}
    try:
        for detail in status.details:
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
    except DecodeError:
        pass
    return found
