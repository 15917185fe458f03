"""How a product with batch dimensions becomes calls.

The contract knows one batch dimension, and an operand's matrices either differ throughout it or are
all the same one. NumPy's broadcasting is richer: (5, 1, m, k) times (1, 7, k, n), say. So the
leading batch dimensions are looped over, a call each, and the trailing ones make the batch of a
call, in which an operand that is the same throughout is sent once, and one that is the same along
some dimensions only is repeated. The split is the one with the least to send.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from gemmd._operands import Operands
from gemmd._payload import Array
from gemmd.errors import InvalidArgument, ResourceExhausted

# What a call costs besides its bytes, in bytes: about 0.25 ms at 1 GB/s.
CALL_COST_BYTES = 256 << 10

_MAX_BATCH = 2**31 - 1
_MAX_INT64 = 2**63 - 1


@dataclass(frozen=True)
class Plan:
    """The first `loops` batch dimensions are looped over."""

    operands: Operands
    loops: int

    @property
    def calls(self) -> int:
        return math.prod(self.operands.batch[: self.loops])

    def parts(self) -> Iterator[tuple[tuple[int, ...], Operands]]:
        """The operands of each call, and where its result goes in the whole result."""
        whole = self.operands
        for index in np.ndindex(*whole.batch[: self.loops]):
            yield (
                index,
                replace(
                    whole,
                    a=whole.a[index],
                    b=whole.b[index],
                    c=None if whole.c is None else whole.c[index],
                    batch=whole.batch[self.loops :],
                    result_shape=whole.result_shape[self.loops :],
                ),
            )


def is_shared(array: Array) -> bool:
    """Whether all matrices of the batch are the same memory."""
    return all(
        size == 1 or stride == 0
        for size, stride in zip(array.shape[:-2], array.strides[:-2], strict=True)
    )


def make_plan(operands: Operands, limit_bytes: int) -> Plan:
    """The cheapest plan whose every message is within the limit."""
    if operands.m * operands.n * operands.k > _MAX_INT64:
        raise InvalidArgument(
            f"m * n * k is {operands.m} * {operands.n} * {operands.k}, over {_MAX_INT64}"
        )
    best: tuple[int, Plan] | None = None
    least = 0
    for loops in range(len(operands.batch) + 1):
        plan = Plan(operands, loops)
        request, reply = _bytes_of_call(operands, loops)
        least = max(request, reply)  # of the last, which has the smallest messages
        if least > limit_bytes or math.prod(operands.batch[loops:]) > _MAX_BATCH:
            continue
        cost = plan.calls * (CALL_COST_BYTES + request)
        if best is None or cost < best[0]:
            best = (cost, plan)
    if best is None:
        raise ResourceExhausted(
            f"the product of {operands.m} x {operands.k} and {operands.k} x {operands.n} needs a "
            f"message of {least} bytes, over the limit of {limit_bytes}",
            reason="MESSAGE_TOO_LARGE",
            hint="multiply in parts: rows of a against columns of b are independent",
        )
    return best[1]


def _bytes_of_call(operands: Operands, loops: int) -> tuple[int, int]:
    """Payload bytes of the request and of the reply."""
    count = math.prod(operands.batch[loops:])
    item = operands.dtype.itemsize
    request = 0
    for array in (operands.a, operands.b, operands.c):
        if array is not None:
            matrix = math.prod(array.shape[-2:])
            shared = is_shared(array[(0,) * loops])
            request += item * matrix * (1 if shared else count)
    return request, item * operands.m * operands.n * count
