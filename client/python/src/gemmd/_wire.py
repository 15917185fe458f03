"""Messages whose field 1000 is bulk data, put together and taken apart without protobuf touching
the bulk: the top level of the wire format is walked by hand, the small rest is left to protobuf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gemmd._allocator import expect_message
from gemmd._join import join_parts
from gemmd._payload import Array, Payload

_PAYLOADS_FIELD = 1000
_LENGTH_DELIMITED = 2
_PAYLOAD_TAG = b"\xc2\x3e"  # the varint of 1000 << 3 | 2
_FIXED_BYTES = {1: 8, 5: 4}  # by wire type


def varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def join_message(description: bytes, payloads: Sequence[Payload]) -> bytes:
    """The message: `description`, which is every other field, then the payloads.

    One join: each byte of an operand is copied once, from its array to where gRPC takes it.
    """
    size_bytes = sum(payload.size_bytes for payload in payloads)
    expect_message(size_bytes)
    parts: list[bytes | Array] = [description]
    for payload in payloads:
        parts.append(_PAYLOAD_TAG + varint(payload.size_bytes))
        parts.extend(payload.pieces)
    return join_parts(parts)


class SplitMessage(NamedTuple):
    description: bytes  # every field but the payloads
    payloads: list[tuple[int, int]]  # offset and length, bytes


def split_message(message: bytes) -> SplitMessage:
    """Finds the payloads. ValueError for what is not a message."""
    payloads = []
    rest = []
    position = 0
    while position < len(message):
        start = position
        tag, position = _read_varint(message, position)
        wire_type = tag & 7
        length = 0
        if wire_type == _LENGTH_DELIMITED:
            length, position = _read_varint(message, position)
        elif wire_type == 0:
            _, position = _read_varint(message, position)
        elif wire_type in _FIXED_BYTES:
            length = _FIXED_BYTES[wire_type]
        else:
            raise ValueError(f"wire type {wire_type} at byte {start}")
        end = position + length
        if end > len(message):
            raise ValueError(f"a field of {length} bytes at byte {start} runs past the end")
        if tag == _PAYLOADS_FIELD << 3 | _LENGTH_DELIMITED:
            payloads.append((position, length))
        else:
            rest.append(message[start:end])
        position = end
    return SplitMessage(b"".join(rest), payloads)


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    """The value and the position after it."""
    value = 0
    for shift in range(0, 64, 7):
        if position >= len(message):
            break
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ValueError(f"a varint that does not end at byte {position}")
