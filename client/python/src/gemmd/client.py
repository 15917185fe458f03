"""The client of a gemmd server."""

from __future__ import annotations

import math
import numbers
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from gemmd import _address, _contract, _messages
from gemmd._operands import Operands, check_operands, check_out
from gemmd._plan import make_plan
from gemmd._retry import Deadline, RetryPolicy
from gemmd._transport import Transport
from gemmd.errors import InvalidArgument, InvalidType
from gemmd.results import Explanation, Health, MatmulResult, Report, ServerInfo

if TYPE_CHECKING:
    import numpy.typing as npt

    from gemmd._payload import Array

_MESSAGE_LIMIT = 2**31 - 1  # protobuf's own
_DESCRIPTION_BYTES = 4096  # more than all of a message but its payloads


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
        message_limit_bytes: int = _MESSAGE_LIMIT,
        use_http_proxy: bool = False,
    ) -> None:
        """Returns at once; a server that is not there is found by the first call.

        Args:
            address: "host:port", "[ipv6]:port", "dns:///host:port" or "unix:/path"; by default
                GEMMD_ADDRESS, or else 127.0.0.1:50051.
            timeout: Seconds for a whole call: building the request, every attempt, the waits
                between them, both transfers. math.inf waits for ever.
            max_retries: Further attempts after UNAVAILABLE (the server is full, shutting down or
                not there). Products have no side effects, so repeating them is safe. A wait that
                would outlast the timeout is not begun.
            backoff_initial, backoff_limit: Seconds. Waits grow from the one by a factor of 2 up to
                the other, each shortened at random by up to half; never shorter than the server
                asks for.
            message_limit_bytes: Larger messages are refused before they are sent. The server has a
                limit of its own, `info().message_limit_bytes`.
            use_http_proxy: Obey grpc_proxy, https_proxy and http_proxy. Off by default, since few
                proxies carry HTTP/2.
        """
        self._address = _address.resolve(address)
        self._timeout = _check_number("timeout", timeout, above_zero=True)
        if not (isinstance(max_retries, int) and max_retries >= 0):
            raise InvalidArgument(
                f"max_retries is {max_retries!r}; it must be an integer of at least 0",
                field="max_retries",
            )
        if not 0 < message_limit_bytes <= _MESSAGE_LIMIT:
            raise InvalidArgument(
                f"message_limit_bytes is {message_limit_bytes}; it must be from 1 to "
                f"{_MESSAGE_LIMIT}",
                field="message_limit_bytes",
            )
        self._payload_limit = max(0, message_limit_bytes - _DESCRIPTION_BYTES)
        retry = RetryPolicy(
            max_retries,
            _check_number("backoff_initial", backoff_initial, above_zero=True),
            _check_number("backoff_limit", backoff_limit, above_zero=True),
        )
        self._transport = Transport(self._address, retry, use_http_proxy)

    @property
    def address(self) -> str:
        return self._address

    def matmul(
        self,
        a: npt.ArrayLike,
        b: npt.ArrayLike,
        *,
        alpha: float = 1.0,
        beta: float | None = None,
        c: npt.ArrayLike | None = None,
        out: Array | None = None,
        copy: bool = True,
        precision: str = "strict",
        timeout: float | None = None,
        request_id: str = "",
    ) -> Array:
        """alpha * (a @ b) + beta * c, computed by the server.

        Shapes are those of numpy.matmul: a (..., m, k) and b (..., k, n) make (..., m, n); batch
        dimensions broadcast; a one-dimensional a is a row and a one-dimensional b a column, whose
        axis the result does not have.

        All of a, b and c are float32 or all are float64; the result is what they are. Nothing is
        converted silently. Any strides do: README.md says which are sent without a copy.

        Args:
            a, b: The factors. Where both are the same memory (a @ a.T), it is sent once.
            alpha: As in BLAS, 0 gives beta * c whatever a and b hold.
            beta: 1 by default if c is given. As in BLAS, 0 means that c is not read, nor sent.
            c: Broadcasts to the result.
            out: Where the result goes: of its shape and type and any strides. Written once,
                after the whole reply has come, and not at all when the call fails; it may be the
                memory of a, b or c.
            copy: False returns a view of the reply's own bytes: read-only, and perhaps
                misaligned. It saves one copy; see README.md for what that is worth.
            precision: "strict" computes in the type's own fused multiply-adds.
            timeout: Seconds, as for `Client`; its value by default.
            request_id: For the server's log; at most 128 printable ASCII characters.

        Returns:
            D, a new C-ordered array, or `out`; of two vectors a scalar.

        Raises:
            InvalidType: An argument has another type. A TypeError and a ValueError.
            InvalidArgument: Shapes that do not fit, and other bad arguments. A ValueError.
            ResourceExhausted: Too large for a message, or for the server.
            Unavailable: The server is full, and retries did not help.
            ConnectionFailed: The server is not there. A ConnectionError.
            DeadlineExceeded: The timeout passed. A TimeoutError.
            Unimplemented: No kernel of the server's device can do it.
            Internal: The server's device failed.
        """
        return self.matmul_result(
            a,
            b,
            alpha=alpha,
            beta=beta,
            c=c,
            out=out,
            copy=copy,
            precision=precision,
            timeout=timeout,
            request_id=request_id,
        ).array

    def matmul_result(
        self,
        a: npt.ArrayLike,
        b: npt.ArrayLike,
        *,
        alpha: float = 1.0,
        beta: float | None = None,
        c: npt.ArrayLike | None = None,
        out: Array | None = None,
        copy: bool = True,
        precision: str = "strict",
        timeout: float | None = None,
        request_id: str = "",
    ) -> MatmulResult:
        """As `matmul`, with a report: the kernel, the device and the time of every phase."""
        deadline = self._deadline(timeout)
        if beta is None:
            beta = 0.0 if c is None else 1.0
        call = _MatmulCall(
            self._transport,
            deadline,
            alpha=_check_number("alpha", alpha),
            beta=_check_number("beta", beta),
            precision=_messages.precision_number(precision),
            request_id=_check_request_id(request_id),
        )
        if call.beta != 0 and c is None:
            raise InvalidArgument(f"beta is {beta}, but there is no c", field="c")
        operands = check_operands(a, b, c, reads_c=call.beta != 0)
        if out is not None:
            check_out(out, operands)
        if math.prod(operands.result_shape) == 0:  # Nothing to compute, nothing to send.
            empty = np.empty(operands.result_shape, operands.dtype)
            return MatmulResult(empty if out is None else out, ())

        plan = make_plan(operands, self._payload_limit)
        reports: tuple[Report, ...]
        if plan.calls == 1:
            ((_, part),) = plan.parts()
            array, report = call.run(part)
            array = array.reshape(operands.result_shape)
            reports = (report,)
            if out is None and copy:
                array = array.copy()
        else:
            array = np.empty(operands.result_shape, operands.dtype)
            collected = []
            for index, part in plan.parts():
                array[index], report = call.run(part)
                collected.append(report)
            reports = tuple(collected)
        if out is not None:
            np.copyto(out, array)
            array = out
        # Of two vectors NumPy makes a scalar.
        return MatmulResult(array if array.ndim or out is not None else array[()], reports)

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
        return _messages.make_explanation(self._small_call(_contract.EXPLAIN, request, timeout))

    def info(self, *, timeout: float | None = None) -> ServerInfo:
        """Version, devices, kernels and limits of the server."""
        request = _contract.GetServerInfoRequest()
        reply = self._small_call(_contract.GET_SERVER_INFO, request, timeout)
        return _messages.make_server_info(reply)

    def health(self, *, timeout: float | None = None) -> Health:
        """Whether the server takes calls, in its own words. ConnectionFailed if it is not there."""
        request = _contract.HealthCheckRequest()
        status = _messages.health_status(self._small_call(_contract.HEALTH_CHECK, request, timeout))
        return {1: Health.SERVING, 2: Health.NOT_SERVING}.get(status, Health.UNKNOWN)

    def close(self) -> None:
        """Ends the connection. Calls that other threads have running fail with Cancelled."""
        self._transport.close()

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
        return f"gemmd.Client({self._address!r})"

    def _deadline(self, timeout: float | None) -> Deadline:
        if timeout is None:
            return Deadline(self._timeout)
        return Deadline(_check_number("timeout", timeout, above_zero=True))

    def _small_call(self, method: str, request: Any, timeout: float | None) -> bytes:
        deadline = self._deadline(timeout)
        return self._transport.call(method, request.SerializeToString(), deadline)[0]


class _MatmulCall:
    """What the calls of one product have in common."""

    def __init__(
        self,
        transport: Transport,
        deadline: Deadline,
        *,
        alpha: float,
        beta: float,
        precision: int,
        request_id: str,
    ) -> None:
        self.beta = beta
        self._transport = transport
        self._deadline = deadline
        self._alpha = alpha
        self._precision = precision
        self._request_id = request_id

    def run(self, part: Operands) -> tuple[Array, Report]:
        """D as a view of the reply's bytes, of part.result_shape."""
        start = time.perf_counter()
        request = _messages.multiply_message(
            part, self._alpha, self.beta, self._precision, self._request_id
        )
        request_bytes = len(request)
        reply, attempts = self._transport.call(_contract.MULTIPLY, request, self._deadline)
        del request
        count = math.prod(part.result_shape)
        report, offset = _messages.parse_multiply_reply(reply, count * part.dtype.itemsize)
        array = np.frombuffer(reply, part.dtype, count, offset).reshape(part.result_shape)
        wall = time.perf_counter() - start
        return array, _messages.make_report(report, wall, attempts, request_bytes, len(reply))


def _check_number(name: str, value: float, *, above_zero: bool = False) -> float:
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
