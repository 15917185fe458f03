"""Between the contract's messages and this package's values."""

from __future__ import annotations

import math
from typing import Any

from google.protobuf.message import DecodeError

from gemmd import _contract
from gemmd._operands import DATA_TYPES, Operands
from gemmd._payload import Payload, make_payload, stored_form
from gemmd._plan import is_shared
from gemmd._wire import join_message, split_message
from gemmd.errors import Internal, InvalidArgument, InvalidType
from gemmd.results import Candidate, Device, Explanation, Report, ServerInfo

_PHASES = ("admit", "receive", "decode", "queue", "copy_in", "compute", "copy_out")


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


def multiply_message(
    operands: Operands, alpha: float, beta: float, precision: int, request_id: str
) -> bytes:
    request = _contract.MultiplyRequest(request_id=request_id)
    product = request.product
    product.m, product.n, product.k = operands.m, operands.n, operands.k
    product.data_type = data_type_number(operands.dtype.name)
    product.precision = precision
    product.alpha, product.beta = alpha, beta
    count = math.prod(operands.batch)
    product.batch_count = count

    payloads: list[Payload] = []
    indices: dict[tuple[object, ...], int] = {}
    for name in ("a", "b", "c"):
        array = getattr(operands, name)
        if array is None:
            continue
        operand = getattr(product, name)
        if count != 1 and is_shared(array):
            operand.batch_stride = 0
            array = array[(0,) * (array.ndim - 2)]
        if name != "c":  # which the contract takes as it is only
            array, operand.transposed = stored_form(array)
        payload = make_payload(array)
        if payload.key not in indices:  # else the same memory: a @ a.T sends a once
            indices[payload.key] = len(payloads)
            payloads.append(payload)
        operand.payload = indices[payload.key]
    return join_message(request.SerializeToString(), payloads)


def parse_multiply_reply(reply: bytes, wanted_bytes: int) -> tuple[Any, int]:
    """The report's message, and where in the reply the result begins."""
    try:
        description, payloads = split_message(reply)
        report = _contract.MultiplyReply.FromString(description).report
    except (ValueError, DecodeError) as error:
        raise _bad_reply(f"it is malformed: {error}") from error
    sizes = [size for _, size in payloads]
    if sizes != [wanted_bytes]:
        raise _bad_reply(f"its payloads have {sizes} bytes instead of [{wanted_bytes}]")
    return report, payloads[0][0]


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
    message = _parse(_contract.GetServerInfoReply, reply)
    known = {_contract.DATA_TYPES[name]: dtype for dtype, name in DATA_TYPES.items()}
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
        dtypes=tuple(known[number] for number in message.data_types if number in known),
        message_limit_bytes=message.message_limit_bytes,
        uptime=message.uptime_ns / 1e9,
    )


def make_explanation(reply: bytes) -> Explanation:
    message = _parse(_contract.ExplainReply, reply)
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
    return int(_parse(_contract.HealthCheckResponse, reply).status)


def _parse(message_class: Any, reply: bytes) -> Any:
    try:
        return message_class.FromString(reply)
    except DecodeError as error:
        raise _bad_reply(f"it is malformed: {error}") from error


def _bad_reply(fault: str) -> Internal:
    return Internal(
        f"the server's reply makes no sense: {fault}",
        reason="BAD_REPLY",
        hint="the server and this client disagree about the contract: compare their versions",
    )
