"""Between the contract's messages and this package's values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from gemmd import _contract
from gemmd._operands import DATA_TYPES, Operands
from gemmd._payload import Array, Payload, make_payload, stored_form
from gemmd._plan import is_shared
from gemmd._wire import join_message, split_message
from gemmd.errors import Internal, InvalidArgument, InvalidType
from gemmd.matrix import Matrix
from gemmd.results import Candidate, Device, Explanation, MatrixInfo, Report, ServerInfo

_PHASES = ("admit", "receive", "decode", "queue", "copy_in", "compute", "copy_out")
_DATA_TYPES = {np.dtype(dtype): _contract.DATA_TYPES[name] for dtype, name in DATA_TYPES.items()}
_DTYPES = {_contract.DATA_TYPES[name]: dtype for dtype, name in DATA_TYPES.items()}


def precision_number(precision: str) -> int:
    number = _contract.PRECISIONS.get(f"PRECISION_{precision}".upper())
    if not number:  # 0 is PRECISION_UNSPECIFIED
        names = [name.removeprefix("PRECISION_").lower() for name in _contract.PRECISIONS]
        raise InvalidArgument(
            f"precision is {precision!r}; it must be one of {names[1:]}", field="precision"
        )
    return number


def data_type_number(dtype: str) -> int:
    if dtype not in DATA_TYPES:
        raise InvalidType(f"dtype is {dtype}; it must be one of {list(DATA_TYPES)}", field="dtype")
    return _contract.DATA_TYPES[DATA_TYPES[dtype]]


class Payloads:
    """The payloads of one message: what lies in the same memory is sent once."""

    def __init__(self) -> None:
        self.entries: list[Payload] = []
        self.size_bytes = 0
        self._indices: dict[tuple[object, ...], int] = {}

    def add(self, array: Array) -> int:
        """The entry's index. `array` must live as long as this."""
        payload = make_payload(array)
        index = self._indices.get(payload.key)
        if index is None:
            index = self._indices[payload.key] = len(self.entries)
            self.entries.append(payload)
            self.size_bytes += payload.size_bytes
        return index

    def cut_to(self, count: int) -> None:
        """Takes the entries from the one of index `count` on out again."""
        for entry in self.entries[count:]:
            self.size_bytes -= entry.size_bytes
            del self._indices[entry.key]
        del self.entries[count:]


@dataclass(frozen=True)
class Terms:
    """What a product is beside its operands.

    Attributes:
        precision: By the contract's number.
        keep: The name of the matrix that D becomes, and stays on the server; None: it comes back.
    """

    alpha: float
    beta: float
    precision: int
    request_id: str = ""
    keep: str | None = None
    keep_ttl_ns: int = 0


def describe_product(product: Any, operands: Operands, terms: Terms, payloads: Payloads) -> None:
    """Fills a Product in, and adds to the payloads what it needs."""
    product.m, product.n, product.k = operands.m, operands.n, operands.k
    product.data_type = _DATA_TYPES[operands.dtype]
    product.precision = terms.precision
    product.alpha, product.beta = terms.alpha, terms.beta
    count = math.prod(operands.batch)
    product.batch_count = count
    if terms.keep is not None:
        product.result.name = terms.keep
        product.result.time_to_live_ns = terms.keep_ttl_ns

    for name in ("a", "b", "c"):
        factor = getattr(operands, name)
        if factor is None:
            continue
        operand = getattr(product, name)
        if count != 1 and is_shared(factor):
            operand.batch_stride = 0
        if isinstance(factor, Matrix):
            if factor.size > 0:
                operand.transposed = factor._transposed
                operand.matrix.name = factor.name
                operand.matrix.row_begin = factor._row_begin
                operand.matrix.row_count = factor._row_count
                continue
            array = np.empty(factor.shape, factor.dtype)  # The contract knows no range of 0 rows.
        elif operand.HasField("batch_stride"):
            array = factor[(0,) * (factor.ndim - 2)]
        else:
            array = factor
        if name != "c":  # which the contract takes as it is only
            array, operand.transposed = stored_form(array)
        operand.payload = payloads.add(array)


def multiply_message(operands: Operands, terms: Terms) -> bytes:
    request = _contract.MultiplyRequest(request_id=terms.request_id)
    payloads = Payloads()
    describe_product(request.product, operands, terms, payloads)
    return join_message(request.SerializeToString(), payloads.entries)


def parse_bulk_reply(
    message_class: Any, reply: bytes, wanted_bytes: Sequence[int]
) -> tuple[Any, list[tuple[int, int]]]:
    """The message without its payloads, and where in the reply those lie, which have the sizes
    that are wanted."""
    try:
        description, payloads = split_message(reply)
        message = message_class.FromString(description)
    except (ValueError, DecodeError) as error:
        raise bad_reply(f"it is malformed: {error}") from error
    sizes = [size for _, size in payloads]
    if sizes != list(wanted_bytes):
        found, wanted = _listed(sizes), _listed(wanted_bytes)
        raise bad_reply(f"its payloads have {found} bytes instead of {wanted}")
    return message, payloads


def parse_batch_reply(reply: bytes, wanted_bytes: Sequence[int]) -> list[tuple[Any, int]]:
    """Of each product its Result and where in the reply D lies. What failed has no D."""
    try:
        description, payloads = split_message(reply)
        results = _contract.MultiplyBatchReply.FromString(description).results
    except (ValueError, DecodeError) as error:
        raise bad_reply(f"it is malformed: {error}") from error
    if not len(results) == len(payloads) == len(wanted_bytes):
        raise bad_reply(
            f"it has {len(results)} results and {len(payloads)} payloads for {len(wanted_bytes)} "
            "products"
        )
    found = []
    for result, (offset, size), wanted in zip(results, payloads, wanted_bytes, strict=True):
        if size != (0 if result.HasField("error") else wanted):
            raise bad_reply(f"a payload has {size} bytes instead of {wanted}")
        found.append((result, offset))
    return found


def _listed(sizes: Sequence[int]) -> str:
    shown = ", ".join(map(str, sizes[:8]))
    return f"[{shown}, ... of {len(sizes)}]" if len(sizes) > 8 else f"[{shown}]"


def make_report(
    message: Any, wall: float, attempts: int, request_bytes: int, reply_bytes: int
) -> Report:
    return Report(
        kernel=message.kernel,
        device=message.device,
        device_index=message.device_index,
        batch_problems=message.batch_problems,
        phases={phase: getattr(message, f"{phase}_ns") / 1e9 for phase in _PHASES},
        wall=wall,
        attempts=attempts,
        request_bytes=request_bytes,
        reply_bytes=reply_bytes,
    )


def make_server_info(reply: bytes) -> ServerInfo:
    message = parse(_contract.GetServerInfoReply, reply)
    return ServerInfo(
        version=message.version,
        commit=message.commit,
        devices=tuple(
            Device(
                index=device.index,
                name=device.name,
                uuid=device.uuid,
                kind=device.kind,
                compute_capability=device.compute_capability,
                multiprocessors=device.multiprocessors,
                memory_bytes=device.memory_bytes,
                healthy=device.healthy,
            )
            for device in message.devices
        ),
        kernels=tuple(message.kernels),
        dtypes=tuple(_DTYPES[number] for number in message.data_types if number in _DTYPES),
        message_limit_bytes=message.message_limit_bytes,
        uptime=message.uptime_ns / 1e9,
        matrix_memory_bytes=message.matrix_memory_bytes,
        matrix_memory_used_bytes=message.matrix_memory_used_bytes,
        time_to_live_limit=message.time_to_live_limit_ns / 1e9,
    )


def matrix_info(message: Any) -> MatrixInfo:
    return MatrixInfo(
        name=message.name,
        dtype=_DTYPES.get(message.data_type, ""),
        shape=(message.rows, message.columns),
        rows_written=message.rows_written,
        sealed=message.sealed,
        ttl=message.time_to_live_ns / 1e9,
        expires_in=message.expires_in_ns / 1e9,
        memory_bytes=message.memory_bytes,
        device_index=message.device_index,
    )


def make_explanation(reply: bytes) -> Explanation:
    message = parse(_contract.ExplainReply, reply)
    return Explanation(
        chosen=message.chosen,
        reason=message.reason,
        device=message.device,
        candidates=tuple(
            Candidate(candidate.kernel, candidate.why_not, candidate.modelled_seconds)
            for candidate in message.candidates
        ),
    )


def health_status(reply: bytes) -> int:
    return int(parse(_contract.HealthCheckResponse, reply).status)


def parse(message_class: Any, reply: bytes) -> Any:
    try:
        return message_class.FromString(reply)
    except DecodeError as error:
        raise bad_reply(f"it is malformed: {error}") from error


def bad_reply(fault: str) -> Internal:
    return Internal(
        f"the server's reply makes no sense: {fault}",
        reason="BAD_REPLY",
        hint="the server and this client disagree about the contract: compare their versions",
    )
