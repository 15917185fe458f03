"""Checks of the arrays that a caller passes, and their shapes as matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmd._payload import Array
from gemmd.errors import InvalidArgument, InvalidType, MatrixNotFound
from gemmd.matrix import Matrix

Factor = Array | Matrix

_MAX_INT64 = 2**63 - 1

# The element types of the contract, by NumPy's name.
DATA_TYPES = {"float32": "DATA_TYPE_F32", "float64": "DATA_TYPE_F64"}

# NumPy's names of those, in either byte order: asking a dtype for its name takes microseconds.
_NAMES = {np.dtype(name).newbyteorder(order): name for name in DATA_TYPES for order in ("<", ">")}

_INTEGER_CAST = "cast it to numpy.float64 (exact up to 2**53) or numpy.float32 (up to 2**24)"
_CASTS = {  # by dtype.kind
    "b": "cast it to numpy.float32",
    "i": _INTEGER_CAST,
    "u": _INTEGER_CAST,
    "c": "multiply its real and imaginary parts on their own",
    "O": "cast it to numpy.float64",
}


@dataclass(frozen=True)
class Operands:
    """The matrices of a product, all of one data type, broadcast to one batch shape.

    Attributes:
        a, b, c: Of shapes batch + (m, k), batch + (k, n) and batch + (m, n); views of what the
            caller passed. c is None where it is not read. A Matrix, which has two dimensions, is
            the same for the whole batch.
        result_shape: Of D as NumPy would have it, where one-dimensional operands lose their axis.
    """

    a: Factor
    b: Factor
    c: Factor | None
    batch: tuple[int, ...]
    m: int
    n: int
    k: int
    dtype: np.dtype[Any]
    result_shape: tuple[int, ...]

    def matrices(self) -> list[Matrix]:
        """Those that are on the server."""
        return [x for x in (self.a, self.b, self.c) if isinstance(x, Matrix)]


def check_operands(
    a: npt.ArrayLike | Matrix,
    b: npt.ArrayLike | Matrix,
    c: npt.ArrayLike | Matrix | None,
    reads_c: bool,
) -> Operands:
    """Checks types and shapes by the rules of numpy.matmul; c may be anything that broadcasts."""
    left, right = _as_factor("a", a), _as_factor("b", b)
    _check_same_type("b", right, left.dtype)
    for name, array in (("a", left), ("b", right)):
        if array.ndim == 0:
            raise InvalidArgument(
                f"{name} is a scalar; it must have at least one dimension",
                field=name,
                hint="multiply by a scalar with alpha=",
            )
    row, column = left.ndim == 1, right.ndim == 1
    if row and not isinstance(left, Matrix):
        left = left[np.newaxis, :]
    if column and not isinstance(right, Matrix):
        right = right[:, np.newaxis]
    m, k = left.shape[-2:]
    n = right.shape[-1]
    if right.shape[-2] != k:
        raise InvalidArgument(
            f"b has {right.shape[-2]} rows but a has {k} columns: shapes {np.shape(a)} and "
            f"{np.shape(b)} do not multiply",
            field="b",
        )
    if m * n * k > _MAX_INT64:
        raise InvalidArgument(f"m * n * k is {m} * {n} * {k}, over {_MAX_INT64}")
    try:
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        raise InvalidArgument(
            f"the batch dimensions of a {left.shape[:-2]} and b {right.shape[:-2]} do not "
            "broadcast together",
            field="b",
        ) from None
    result_shape = batch + (() if row else (m,)) + (() if column else (n,))
    addend: Factor | None = None
    if c is not None:
        addend = _as_factor("c", c)
        _check_same_type("c", addend, left.dtype)
        if isinstance(addend, Matrix):
            _check_addend(addend, (*batch, m, n))
        else:
            addend = _broadcast_addend(addend, result_shape, row, column)
    return Operands(
        a=_broadcast(left, (*batch, m, k)),
        b=_broadcast(right, (*batch, k, n)),
        c=addend if reads_c else None,
        batch=batch,
        m=m,
        n=n,
        k=k,
        dtype=left.dtype.newbyteorder("="),
        result_shape=result_shape,
    )


def check_handles(factors: dict[str, npt.ArrayLike | Matrix | None], address: str) -> None:
    """Whether those that are on a server are on the one at `address`, as far as is known here."""
    for name, factor in factors.items():
        if not isinstance(factor, Matrix):
            continue
        if factor._client.address != address:
            raise InvalidArgument(
                f"{name} is a matrix on {factor._client.address}, not on {address}",
                field=name,
                hint=f"fetch it: {name}.get()",
            )
        if factor._stored.deleted:
            raise MatrixNotFound(
                f"{name}, matrix {factor.name!r}, was deleted",
                reason="MATRIX_NOT_FOUND",
                field=name,
            )


def check_out(out: Array, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Whether the result can be stored in `out`."""
    if not isinstance(out, np.ndarray):
        raise InvalidType(f"out is a {type(out).__name__}; it must be a numpy array", field="out")
    if out.dtype != dtype:
        raise InvalidType(f"out is {out.dtype}, but the result is {dtype}", field="out")
    if out.shape != shape:
        raise InvalidArgument(f"out has shape {out.shape}, but the result has {shape}", field="out")
    if not out.flags.writeable:
        raise InvalidArgument("out is read-only", field="out")


def _as_factor(name: str, value: npt.ArrayLike | Matrix) -> Factor:
    return value if isinstance(value, Matrix) else as_array(name, value)


def _broadcast(factor: Factor, shape: tuple[int, ...]) -> Factor:
    return factor if isinstance(factor, Matrix) else np.broadcast_to(factor, shape)


def _check_addend(c: Matrix, shape: tuple[int, ...]) -> None:
    if c.shape != shape:
        raise InvalidArgument(
            f"c has shape {c.shape} but the result has {shape}; a matrix on the server does not "
            "broadcast",
            field="c",
        )
    if c._transposed:
        raise InvalidArgument("c is a transpose, which the service does not add", field="c")


def as_array(name: str, value: npt.ArrayLike) -> Array:
    if isinstance(value, np.ma.MaskedArray):
        raise InvalidType(
            f"{name} is a masked array, whose mask would be lost",
            field=name,
            hint=f"pass {name}.filled(0), or another value for what is masked",
        )
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise InvalidType(f"{name} cannot be made an array: {error}", field=name) from error
    if array.dtype not in _NAMES:
        cast = _CASTS.get(array.dtype.kind, "cast it to numpy.float32 or numpy.float64")
        raise InvalidType(
            f"{name} has dtype {array.dtype}; the service takes float32 and float64 and never "
            "converts silently",
            field=name,
            hint=cast if array.dtype.kind == "c" else f"{cast}, as {name}.astype(...)",
        )
    return array


def _check_same_type(name: str, array: Factor, dtype: np.dtype[Any]) -> None:
    if _NAMES[array.dtype] != _NAMES[dtype]:
        raise InvalidType(
            f"{name} has dtype {array.dtype} but a has {dtype.name}; a product has one type",
            field=name,
            hint=f"cast one of them: {name}.astype(numpy.{dtype.name}) computes in {dtype.name}",
        )


def _broadcast_addend(c: Array, shape: tuple[int, ...], row: bool, column: bool) -> Array:
    try:
        c = np.broadcast_to(c, shape)
    except ValueError:
        raise InvalidArgument(
            f"c has shape {c.shape}, which does not broadcast to the result's {shape}", field="c"
        ) from None
    if column:
        c = c[..., np.newaxis]
    return c[..., np.newaxis, :] if row else c
