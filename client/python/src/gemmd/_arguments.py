"""Checks of what a caller passes beside arrays."""

from __future__ import annotations

import numbers
import re

import numpy as np

from gemmd import _messages
from gemmd._messages import Terms
from gemmd.errors import InvalidArgument, InvalidType

_MAX_TTL_NS = 2**64 - 1


def make_terms(
    alpha: float,
    beta: float | None,
    c: object,
    precision: str,
    request_id: str,
    keep_ttl_ns: int = 0,
) -> Terms:
    """Of `c` only whether there is one."""
    if beta is None:
        beta = 0.0 if c is None else 1.0
    terms = Terms(
        alpha=check_number("alpha", alpha),
        beta=check_number("beta", beta),
        precision=_messages.precision_number(precision),
        request_id=_check_request_id(request_id),
        keep_ttl_ns=keep_ttl_ns,
    )
    if terms.beta != 0 and c is None:
        raise InvalidArgument(f"beta is {beta}, but there is no c", field="c")
    return terms


def ttl_ns(ttl: float | None) -> int:
    """0 is the server's choice."""
    if ttl is None:
        return 0
    seconds = check_number("ttl", ttl, above_zero=True)
    if not seconds * 1e9 <= _MAX_TTL_NS:
        raise InvalidArgument(f"ttl is {seconds} s, beyond what the service can say", field="ttl")
    return max(1, int(seconds * 1e9))


def check_number(name: str, value: float, *, above_zero: bool = False) -> float:
    """A float; NaN and infinity are as good as any where signs are."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise InvalidType(
            f"{name} is of type {type(value).__name__}; it must be a real number", field=name
        )
    try:
        number = float(value)
    except OverflowError:
        raise InvalidArgument(f"{name} is beyond what a float holds", field=name) from None
    if above_zero and not number > 0:
        raise InvalidArgument(f"{name} is {number} s; it must be above 0", field=name)
    return number


def check_count(name: str, value: int, *, least: int) -> int:
    if not (isinstance(value, int) and value >= least):
        raise InvalidArgument(
            f"{name} is {value!r}; it must be an integer of at least {least}", field=name
        )
    return value


def check_name(field: str, name: str) -> None:
    if not isinstance(name, str):
        raise InvalidType(
            f"{field} is of type {type(name).__name__}; the name of a matrix is a str", field=field
        )
    if not re.fullmatch("[A-Za-z0-9._-]{1,128}", name):
        raise InvalidArgument(
            f"{field} is {name[:130]!r}; the name of a matrix is 1 to 128 of A-Z a-z 0-9 . _ -",
            field=field,
        )


def _check_request_id(request_id: str) -> str:
    if not isinstance(request_id, str):
        raise InvalidType(
            f"request_id is of type {type(request_id).__name__}; it must be a str",
            field="request_id",
        )
    if len(request_id) > 128 or not all(" " <= letter <= "~" for letter in request_id):
        raise InvalidArgument(
            "request_id must be at most 128 printable ASCII characters", field="request_id"
        )
    return request_id
