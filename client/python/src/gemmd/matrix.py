"""Handles of matrices that stay on the server."""

from __future__ import annotations

import operator
import threading
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from gemmd._lanes import Progress
from gemmd._payload import Array
from gemmd.errors import InvalidArgument
from gemmd.results import MatrixInfo

if TYPE_CHECKING:
    import numpy.typing as npt

    from gemmd.client import Client


@dataclass(eq=False)
class Stored:
    """A matrix on the server, which all its views share.

    Attributes:
        source: What it was made of, to be sent again when the server has lost it.
        checksums: Of the panels of `source`, in order, as they were first sent.
        deleted: By this handle's user; it is then never sent again.
        lock: Held while it is sent again.
    """

    name: str
    dtype: np.dtype[Any]
    rows: int
    columns: int
    ttl_ns: int = 0
    source: Array | None = None
    checksums: list[int] | None = None
    deleted: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def row_bytes(self) -> int:
        return self.columns * self.dtype.itemsize


class Matrix:
    """A matrix that stays on the server, or rows of one, or a transpose: what `Client.put`,
    `Client.get_matrix` and `@` return.

    It is an operand wherever an array is, and never changes. It has two dimensions, always:
    `x[3]` is a matrix of one row.

    `x @ y`, where one of them is a Matrix, is computed by the server at once, and is a Matrix
    again: D stays there, and comes here when it is asked for, by `get` or `numpy.asarray`, each
    time anew. So chains like `(a @ w1) @ w2` send a and fetch the last result only.
    `Client.matmul` returns an array, unless told to `keep`.

    Without a name of your choice a matrix lives as long as its handles: when the last of them
    and of their views is gone, or the client is closed, it is deleted. One that you have named
    stays until `delete`, or until nobody has used it for its time to live. `with` deletes either.

    A handle from `Client.put` keeps a reference to its array, and sends it again when the server
    has lost the matrix (it has restarted, or the matrix has expired). An array that was changed
    meanwhile is noticed by a checksum and refused: MatrixNotFound, as for a handle that has
    nothing to send.

    Thread-safe, as its client.
    """

    __array_ufunc__ = None  # So that `array @ matrix` asks this class.

    def __init__(
        self,
        client: Client,
        stored: Stored,
        row_begin: int = 0,
        row_count: int | None = None,
        transposed: bool = False,
    ) -> None:
        """Not to be called by users."""
        self._client = client
        self._stored = stored
        self._row_begin = row_begin
        self._row_count = stored.rows if row_count is None else row_count
        self._transposed = transposed

    @property
    def name(self) -> str:
        """On the server; views share it."""
        return self._stored.name

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._stored.dtype

    @property
    def shape(self) -> tuple[int, int]:
        shape = (self._row_count, self._stored.columns)
        return shape[::-1] if self._transposed else shape

    @property
    def ndim(self) -> int:
        return 2

    @property
    def size(self) -> int:
        """Elements."""
        return self._row_count * self._stored.columns

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def T(self) -> Matrix:  # noqa: N802  # as NumPy calls it
        """The transpose, a view."""
        return Matrix(
            self._client, self._stored, self._row_begin, self._row_count, not self._transposed
        )

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Matrix:
        """Rows, `x[3]` or `x[10:20]`, as a view; of a transpose columns, `x.T[:, 10:20]`."""
        indices = index if isinstance(index, tuple) else (index,)
        if len(indices) > 2:
            raise InvalidArgument(f"{len(indices)} indices for a matrix", field="index")
        whole = slice(None)
        indices = (*indices, whole)[:2]
        by_row, other = indices[::-1] if self._transposed else indices
        if not (isinstance(other, slice) and other == whole):
            kind = "columns of a transpose" if self._transposed else "rows"
            raise InvalidArgument(
                f"only {kind} of a matrix on the server can be taken",
                field="index",
                hint="take the rest with NumPy, of x.get()",
            )
        begin, count = _range_of(by_row, self._row_count)
        return Matrix(self._client, self._stored, self._row_begin + begin, count, self._transposed)

    def __matmul__(self, other: Any) -> Matrix:
        return self._client._matmul_kept(self, other)

    def __rmatmul__(self, other: Any) -> Matrix:
        return self._client._matmul_kept(other, self)

    def get(
        self,
        *,
        out: Array | None = None,
        progress: Progress | None = None,
        timeout: float | None = None,
    ) -> Array:
        """Its elements, as an array: a new one, Fortran-ordered for a transpose, or `out`.

        Args:
            out: Of this shape and type and any strides. Written as the rows come.
            progress: Called with the bytes that have come and those of all; never twice at once,
                but from other threads. What it raises ends the call.
            timeout: Seconds for all of it; by default the client's, for each message.
        """
        return self._client._get(self, out, progress, timeout)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        """For numpy.asarray: fetches it."""
        if copy is False:
            raise ValueError("a matrix on the server cannot be an array without a copy")
        array = self.get()
        return array if dtype is None else array.astype(dtype, copy=False)

    def info(self, *, timeout: float | None = None) -> MatrixInfo:
        """What the server says of it. MatrixNotFound when it is not there."""
        return self._client._matrix_info(self.name, timeout)

    def delete(self, *, timeout: float | None = None) -> None:
        """Frees its memory on the server, and its name. Its views and other handles are then of
        no use. Deleting twice is no error, nor deleting what the server has lost."""
        self._client._delete(self._stored, timeout)

    def __enter__(self) -> Matrix:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.delete()
        else:
            self._client._delete_later(self._stored)

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"<gemmd.Matrix {self.name!r}, {rows} x {columns} {self.dtype}>"


def _range_of(index: Any, size: int) -> tuple[int, int]:
    """First and count of the rows that an index means."""
    if isinstance(index, slice):
        begin, end, step = index.indices(size)
        if step != 1:
            raise InvalidArgument(
                f"a slice with step {step}; rows on the server are taken with step 1",
                field="index",
            )
        return begin, max(0, end - begin)
    try:
        row = operator.index(index)
    except TypeError:
        raise InvalidArgument(
            f"an index of type {type(index).__name__}; rows on the server are taken by a number or "
            "a slice",
            field="index",
        ) from None
    if not -size <= row < size:
        raise IndexError(f"row {row} of a matrix of {size} rows")
    return row % size, 1
