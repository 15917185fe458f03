"""Arrays as payloads of a message: which bytes go out, in which order, and copied only where the
layout leaves no other way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# A strided array is sent piece by piece, straight from its memory, when its contiguous pieces are
# at least this long; shorter ones cost more to list than to copy.
MIN_PIECE_BYTES = 512


@dataclass(frozen=True)
class Payload:
    """One entry of a message's payloads.

    Attributes:
        pieces: Contiguous byte arrays that make up the payload. They are views of the operand's
            memory, unless it had to be packed.
        size_bytes: Of all pieces.
        key: Equal for payloads made of the same elements of the same memory.
    """

    pieces: list[Array]
    size_bytes: int
    key: tuple[object, ...]


def stored_form(matrix: Array) -> tuple[Array, bool]:
    """`matrix`, or its transpose, whichever lies closer to row-major, and whether it is the
    transpose. A Fortran-ordered matrix thus becomes a transposed C-ordered one."""
    rows, columns = matrix.shape[-2:]
    row_stride, column_stride = matrix.strides[-2:]
    transposed = rows > 1 and columns > 1 and abs(column_stride) > abs(row_stride)
    return (matrix.swapaxes(-1, -2), True) if transposed else (matrix, False)


def make_payload(array: Array) -> Payload:
    """The elements of `array`, of any strides, in C order and native byte order."""
    significant = [
        (size, stride) for size, stride in zip(array.shape, array.strides, strict=True) if size != 1
    ]
    key = (array.__array_interface__["data"][0], array.dtype.str, *significant)
    if array.size == 0:
        return Payload([], 0, key)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="), order="C")
    loops, piece_bytes = _contiguity(array)
    if loops > 0 and piece_bytes < MIN_PIECE_BYTES:
        array = np.ascontiguousarray(array)
        loops = 0
    # Merges dimensions that are contiguous already, so neither call copies.
    merged = array.reshape(*array.shape[:loops], -1).view(np.uint8)
    return Payload(list(_pieces(merged, loops)), array.nbytes, key)


def _contiguity(array: Array) -> tuple[int, int]:
    """How many leading dimensions lie outside the contiguous pieces, and a piece's bytes."""
    piece_bytes = array.itemsize
    for axis in range(array.ndim - 1, -1, -1):
        if array.shape[axis] == 1:
            continue
        if array.strides[axis] != piece_bytes:
            return axis + 1, piece_bytes
        piece_bytes *= array.shape[axis]
    return 0, piece_bytes


def _pieces(array: Array, loops: int) -> Iterator[Array]:
    if loops == 0:
        yield array
    elif loops == 1:
        yield from array
    else:
        for part in array:
            yield from _pieces(part, loops - 1)


def returned(array: Array, copy: bool) -> Any:
    """A result as a caller gets it."""
    if copy and not array.flags.owndata:
        array = array.copy()
    return array if array.ndim else array[()]  # Of two vectors NumPy makes a scalar.
