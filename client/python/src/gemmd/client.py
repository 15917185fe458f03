"""The client of a gemmd server."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from gemmd import _address, _contract, _messages
from gemmd._arguments import check_count, check_name, check_number, make_terms, ttl_ns
from gemmd._lanes import Meter, Progress
from gemmd._limits import MESSAGE_LIMIT
from gemmd._many import Product, multiply_many
from gemmd._messages import Terms
from gemmd._multiply import Multiplier
from gemmd._operands import Operands, as_array, check_handles, check_operands, check_out
from gemmd._payload import returned
from gemmd._retry import RetryPolicy
from gemmd._session import Session
from gemmd.errors import InvalidArgument, InvalidType
from gemmd.matrix import Matrix, Stored
from gemmd.results import Explanation, Health, MatmulResult, MatrixInfo, ServerInfo

if TYPE_CHECKING:
    import numpy.typing as npt

    from gemmd._payload import Array

    Factor = npt.ArrayLike | Matrix


class Client:
    """A connection to one gemmd server.

    Thread-safe: threads may share a client and its connection, and calls run side by side. Not for
    use on both sides of a fork: make a client in each process. A context manager; `close` ends it.

    Every method blocks until the answer is there, the timeout has passed, or Ctrl-C, which cancels
    the call. Errors are `GemmdError`s.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        timeout: float = 60.0,
        max_retries: int = 3,
        backoff_initial: float = 0.1,
        backoff_limit: float = 5.0,
        message_limit_bytes: int = MESSAGE_LIMIT,
        channels: int = 4,
        use_http_proxy: bool = False,
    ) -> None:
        """Returns at once; a server that is not there is found by the first call.

        Args:
            address: "host:port", "[ipv6]:port", "dns:///host:port" or "unix:/path"; by default
                GEMMD_ADDRESS, or else 127.0.0.1:50051.
            timeout: Seconds for a whole call: building the request, every attempt, the waits
                between them, both transfers. math.inf waits for ever. Of what goes in panels,
                which may be of any size, it is for each message, unless the call has a timeout
                of its own.
            max_retries: Further attempts after UNAVAILABLE (the server is full, shutting down or
                not there). Products have no side effects, so repeating them is safe. A wait that
                would outlast the timeout is not begun.
            backoff_initial, backoff_limit: Seconds. Waits grow from the one by a factor of 2 up to
                the other, each shortened at random by up to half; never shorter than the server
                asks for.
            message_limit_bytes: No message is larger. The server has a limit of its own,
                `info().message_limit_bytes`, which is kept too.
            channels: Connections over which the messages of one call go side by side, two on
                each, where it has several. They are made when they are first needed. More help
                over links with delay; within a host the interpreter's lock is the limit.
            use_http_proxy: Obey grpc_proxy, https_proxy and http_proxy. Off by default, since few
                proxies carry HTTP/2.
        """
        if not 0 < message_limit_bytes <= MESSAGE_LIMIT:
            raise InvalidArgument(
                f"message_limit_bytes is {message_limit_bytes}; it must be from 1 to "
                f"{MESSAGE_LIMIT}",
                field="message_limit_bytes",
            )
        self._session = Session(
            _address.resolve(address),
            timeout=check_number("timeout", timeout, above_zero=True),
            retry=RetryPolicy(
                check_count("max_retries", max_retries, least=0),
                check_number("backoff_initial", backoff_initial, above_zero=True),
                check_number("backoff_limit", backoff_limit, above_zero=True),
            ),
            message_limit_bytes=message_limit_bytes,
            channels=check_count("channels", channels, least=1),
            use_http_proxy=use_http_proxy,
        )
        weakref.finalize(self, self._session.matrices.abandon).atexit = False

    @property
    def address(self) -> str:
        return self._session.address

    @overload
    def matmul(
        self,
        a: Factor,
        b: Factor,
        *,
        alpha: float = 1.0,
        beta: float | None = None,
        c: Factor | None = None,
        out: Array | None = None,
        copy: bool = True,
        keep: Literal[False] = False,
        ttl: float | None = None,
        progress: Progress | None = None,
        precision: str = "strict",
        timeout: float | None = None,
        request_id: str = "",
    ) -> Array: ...

    @overload
    def matmul(
        self,
        a: Factor,
        b: Factor,
        *,
        alpha: float = 1.0,
        beta: float | None = None,
        c: Factor | None = None,
        keep: Literal[True] | str,
        ttl: float | None = None,
        precision: str = "strict",
        timeout: float | None = None,
        request_id: str = "",
    ) -> Matrix: ...

    def matmul(
        self,
        a: Factor,
        b: Factor,
        *,
        alpha: float = 1.0,
        beta: float | None = None,
        c: Factor | None = None,
        out: Array | None = None,
        copy: bool = True,
        keep: bool | str = False,
        ttl: float | None = None,
        progress: Progress | None = None,
        precision: str = "strict",
        timeout: float | None = None,
        request_id: str = "",
    ) -> Array | Matrix:
        """alpha * (a @ b) + beta * c, computed by the server.

        Shapes are those of numpy.matmul: a (..., m, k) and b (..., k, n) make (..., m, n); batch
        dimensions broadcast; a one-dimensional a is a row and a one-dimensional b a column, whose
        axis the result does not have.

        All of a, b and c are float32 or all are float64; the result is what they are. Nothing is
        converted silently. Any strides do: README.md says which are sent without a copy. Each may
        be a Matrix, which is on the server already.

        Any size does. Up to 24 MiB, there and back, go in one message; 10 where b is a Matrix.
        Else b is put on the server for the call, and rows of a go there, and rows of the result
        come back, in panels side by side. The height of the panels depends on the shapes and on
        the server's limits only, so the same call gives the same bits over any number of channels.
        They may differ in rounding from those of one product of the whole: each panel is a product
        of its own. Where the server has no room for b at the time, what fits a message is one all
        the same.

        Args:
            a, b: The factors. Where both are the same memory (a @ a.T), it is sent once.
            alpha: As in BLAS, 0 gives beta * c whatever a and b hold.
            beta: 1 by default if c is given. As in BLAS, 0 means that c is not read, nor sent.
            c: Broadcasts to the result, unless it is a Matrix.
            out: Where the result goes: of its shape and type and any strides. Of one message it
                is written once, after the whole reply has come, and not at all when the call
                fails; in panels, as they come. It may be the memory of a, b or c.
            copy: False returns a view of the reply's own bytes: read-only, and perhaps
                misaligned. It saves one copy; see README.md for what that is worth.
            keep: True leaves the result on the server, under this name if it is one, and returns
                its Matrix. Of two-dimensional factors only. MatrixExists if the name is taken.
            ttl: Seconds that a result on the server is kept without being used.
            progress: Called with the bytes that have moved and those that will have, roughly;
                never twice at once, but from other threads. What it raises ends the call.
            precision: "strict" computes in the type's own fused multiply-adds.
            timeout: Seconds, as for `Client`; its value by default.
            request_id: For the server's log; at most 128 printable ASCII characters.

        Returns:
            D, a new C-ordered array, or `out`; of two vectors a scalar. A Matrix to `keep`.

        Raises:
            InvalidType: An argument has another type. A TypeError and a ValueError.
            InvalidArgument: Shapes that do not fit, and other bad arguments. A ValueError.
            ResourceExhausted: Too large for the server: a single row for a message, a matrix for
                its memory (QuotaExceeded: for your share of it).
            MatrixNotFound: The server has lost a Matrix that cannot be sent again.
            Unavailable: The server is full, and retries did not help.
            ConnectionFailed: The server is not there. A ConnectionError.
            DeadlineExceeded: The timeout passed. A TimeoutError.
            Unimplemented: No kernel of the server's device can do it.
            Internal: The server's device failed.
        """
        if not isinstance(keep, bool):
            check_name("keep", keep)
        if keep is False:
            return self.matmul_result(
                a,
                b,
                alpha=alpha,
                beta=beta,
                c=c,
                out=out,
                copy=copy,
                progress=progress,
                precision=precision,
                timeout=timeout,
                request_id=request_id,
            ).array
        if out is not None:
            raise InvalidArgument("out is for a result that comes back", field="out")
        terms = make_terms(alpha, beta, c, precision, request_id, ttl_ns(ttl))
        operands = self._operands(a, b, c, terms)
        name = keep if isinstance(keep, str) else None
        return self._multiplier().kept(operands, terms, self._session.lanes(timeout), name)[0]

    def matmul_result(
        self,
        a: Factor,
        b: Factor,
        *,
        alpha: float = 1.0,
        beta: float | None = None,
        c: Factor | None = None,
        out: Array | None = None,
        copy: bool = True,
        progress: Progress | None = None,
        precision: str = "strict",
        timeout: float | None = None,
        request_id: str = "",
    ) -> MatmulResult:
        """As `matmul`, with a report: the kernel, the device and the time of every phase."""
        lanes = self._session.lanes_until(self._session.deadline(timeout))
        terms = make_terms(alpha, beta, c, precision, request_id)
        operands = self._operands(a, b, c, terms)
        if out is not None:
            check_out(out, operands.dtype, operands.result_shape)
        if math.prod(operands.result_shape) == 0:  # Nothing to compute, nothing to send.
            empty = np.empty(operands.result_shape, operands.dtype)
            return MatmulResult(empty if out is None else out, ())

        array, reports = self._multiplier().run(
            operands, terms, lanes, self._session.lanes(timeout), out, progress
        )
        if out is not None:
            if array is not out:
                np.copyto(out, array)
            return MatmulResult(out, reports)
        return MatmulResult(returned(array, copy), reports)

    def matmul_many(
        self,
        products: Iterable[tuple[Factor, Factor] | Product],
        *,
        copy: bool = True,
        return_exceptions: bool = False,
        precision: str = "strict",
        timeout: float | None = None,
        request_id: str = "",
    ) -> list[Any]:
        """Many products, of one shape or of many, in few messages.

        Small ones cost a fraction of what calls of their own do. What they share, the same memory,
        is sent once a message. The messages go side by side. Each result has the bits that
        `matmul` gives.

        Args:
            products: Pairs (a, b), or `Product`s. Factors as for `matmul`.
            copy: False returns views of the replies, as for `matmul`; each keeps all of its
                message's results in memory.
            return_exceptions: True: the result of a product that failed is its GemmdError.
            precision, timeout, request_id: As for `matmul`.

        Returns:
            The results, in order.

        Raises:
            GemmdError: What the first product that failed did; its `index` is set. The others
                were computed, unless the failure was one of the connection or the whole server.
        """
        return multiply_many(
            products,
            self._session,
            self._multiplier(),
            copy=copy,
            return_exceptions=return_exceptions,
            precision=precision,
            timeout=timeout,
            request_id=request_id,
        )

    def put(
        self,
        array: npt.ArrayLike,
        *,
        name: str | None = None,
        ttl: float | None = None,
        exist_ok: bool = False,
        keep_source: bool = True,
        progress: Progress | None = None,
        timeout: float | None = None,
    ) -> Matrix:
        """Puts a matrix on the server, to be an operand as often as wanted.

        It goes in panels of rows, side by side, whatever its size. It is stored row by row, so
        Fortran-ordered arrays are packed on the way.

        Args:
            array: Of two dimensions, float32 or float64. What it holds must not change until this
                returns.
            name: At most 128 of A-Z a-z 0-9 . _ -, for `get_matrix` by others. By default a random
                one, and the matrix is deleted with the last handle (see `Matrix`).
            ttl: Seconds that it is kept without being used; by default the server's choice.
            exist_ok: A matrix of this name, type and shape may be there already, in part or as a
                whole; rows that are there stay as they are, so they must be those of this array.
                That completes an upload that was interrupted.
            keep_source: Keep a reference to the array, to send it again when the server has lost
                the matrix.
            progress, timeout: As for `Matrix.get`.

        Raises:
            MatrixExists: The name is in use.
            QuotaExceeded: Your share of the server's memory is used up.
            ResourceExhausted: No device of the server can hold it, or a row does not fit a message.
        """
        source = as_array("array", array)
        if source.ndim != 2:
            raise InvalidArgument(
                f"array has {source.ndim} dimensions; a matrix on the server has two",
                field="array",
                hint="reshape it: a batch of matrices is their rows, one after another",
            )
        if name is not None:
            check_name("name", name)
        matrices = self._session.matrices
        stored = Stored(
            matrices.new_name() if name is None else name,
            source.dtype.newbyteorder("="),
            rows=source.shape[0],
            columns=source.shape[1],
            ttl_ns=ttl_ns(ttl),
            source=source if keep_source else None,
        )
        if name is None:
            matrices.delete_with_last_handle(stored)
        lanes = self._session.lanes(timeout)
        meter = Meter(progress, source.nbytes)
        matrices.upload(stored, source, lanes, meter, exist_ok=exist_ok)
        return Matrix(self, stored)

    def get_matrix(self, name: str, *, timeout: float | None = None) -> Matrix:
        """The handle of a matrix that is on the server. MatrixNotFound when it is not."""
        info = self._matrix_info(name, timeout)
        if not info.dtype:
            raise InvalidType(f"matrix {name!r} has a type that this client does not know")
        return Matrix(self, Stored(info.name, np.dtype(info.dtype), *info.shape))

    def matrices(self, *, timeout: float | None = None) -> list[MatrixInfo]:
        """Your matrices on the server, ordered by name."""
        return self._session.matrices.list(self._session.lanes(timeout).single())

    def explain(
        self,
        m: int,
        n: int,
        k: int,
        *,
        dtype: npt.DTypeLike = np.float32,
        transpose_a: bool = False,
        transpose_b: bool = False,
        batch_count: int = 1,
        precision: str = "strict",
        timeout: float | None = None,
    ) -> Explanation:
        """Which kernel would multiply m x k by k x n, and why each other would not.

        `transpose_a` and `transpose_b` say that a factor is Fortran-ordered.
        """
        request = _contract.ExplainRequest()
        product = request.product
        sizes = {"m": m, "n": n, "k": k, "batch_count": batch_count}
        for name, size in sizes.items():
            try:
                setattr(product, name, size)
            except (TypeError, ValueError):
                raise InvalidArgument(
                    f"{name} is {size!r}; it must be an integer of 64 bits", field=name
                ) from None
        product.data_type = _messages.data_type_number(np.dtype(dtype).name)
        product.precision = _messages.precision_number(precision)
        product.a.transposed, product.b.transposed = transpose_a, transpose_b
        return _messages.make_explanation(self._session.ask(_contract.EXPLAIN, request, timeout))

    def info(self, *, timeout: float | None = None) -> ServerInfo:
        """Version, devices, kernels and limits of the server."""
        return self._session.server_info(timeout)

    def health(self, *, timeout: float | None = None) -> Health:
        """Whether the server takes calls, in its own words. ConnectionFailed if it is not there."""
        request = _contract.HealthCheckRequest()
        reply = self._session.ask(_contract.HEALTH_CHECK, request, timeout)
        status = _messages.health_status(reply)
        return {1: Health.SERVING, 2: Health.NOT_SERVING}.get(status, Health.UNKNOWN)

    def close(self) -> None:
        """Deletes the matrices that live as long as their handles, and ends the connections. Calls
        that other threads have running fail with Cancelled."""
        self._session.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"gemmd.Client({self.address!r})"

    # For Matrix.

    def _matmul_kept(self, a: Factor, b: Factor) -> Matrix:
        return self.matmul(a, b, keep=True)

    def _get(
        self, matrix: Matrix, out: Array | None, progress: Progress | None, timeout: float | None
    ) -> Array:
        stored, matrices = matrix._stored, self._session.matrices
        array = np.empty(matrix.shape[::-1], matrix.dtype).T if matrix._transposed else None
        if out is not None:
            check_out(out, matrix.dtype, matrix.shape)
            array = out
        elif array is None:
            array = np.empty(matrix.shape, matrix.dtype)
        into = array.T if matrix._transposed else array
        lanes = self._session.lanes(timeout)
        meter = Meter(progress, matrix.nbytes)
        matrices.restored(
            [stored],
            lanes,
            lambda: matrices.download(stored, matrix._row_begin, into, lanes, meter),
        )
        return array

    def _matrix_info(self, name: str, timeout: float | None) -> MatrixInfo:
        return self._session.matrices.info(name, self._session.lanes(timeout).single())

    def _delete(self, stored: Stored, timeout: float | None) -> None:
        self._session.matrices.delete(stored, self._session.lanes(timeout).single())

    def _delete_later(self, stored: Stored) -> None:
        self._session.matrices.delete_later(stored)

    # For calls.

    def _operands(self, a: Factor, b: Factor, c: Factor | None, terms: Terms) -> Operands:
        check_handles({"a": a, "b": b, "c": c}, self.address)
        return check_operands(a, b, c, reads_c=terms.beta != 0)

    def _multiplier(self) -> Multiplier:
        # Made for each call: as a member it would be a cycle, and connections would wait for the
        # garbage collector.
        return Multiplier(self, self._session)
