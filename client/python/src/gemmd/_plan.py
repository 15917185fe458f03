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

from gemmd._operands import Factor, Operands
from gemmd.matrix import Matrix

# What a call costs besides its bytes, in bytes: about 0.25 ms at 1 GB/s.
CALL_COST_BYTES = 256 << 10

_MAX_BATCH = 2**31 - 1


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
                    a=_at(whole.a, index),
                    b=_at(whole.b, index),
                    c=None if whole.c is None else _at(whole.c, index),
                    batch=whole.batch[self.loops :],
                    result_shape=whole.result_shape[self.loops :],
                ),
            )


def _at(factor: Factor, index: tuple[int, ...]) -> Factor:
    return factor if isinstance(factor, Matrix) else factor[index]


def is_shared(array: Factor) -> bool:
    """Whether all matrices of the batch are the same memory."""
    return isinstance(array, Matrix) or all(
        size == 1 or stride == 0
        for size, stride in zip(array.shape[:-2], array.strides[:-2], strict=True)
    )


def make_plan(operands: Operands, limit_bytes: int) -> Plan | None:
    """The cheapest plan whose every message is within the limit; None: not even one product of
    two matrices is."""
    best: tuple[int, Plan] | None = None
    for loops in range(len(operands.batch) + 1):
        plan = Plan(operands, loops)
        request, reply = bytes_of_call(operands, loops)
        if max(request, reply) > limit_bytes or math.prod(operands.batch[loops:]) > _MAX_BATCH:
            continue
        cost = plan.calls * (CALL_COST_BYTES + request)
        if best is None or cost < best[0]:
            best = (cost, plan)
    return None if best is None else best[1]


def bytes_of_call(operands: Operands, loops: int) -> tuple[int, int]:
    """Payload bytes of the request and of the reply."""
    count = math.prod(operands.batch[loops:])
    item = operands.dtype.itemsize
    request = 0
    for array in (operands.a, operands.b, operands.c):
        if array is not None and not isinstance(array, Matrix):
            matrix = math.prod(array.shape[-2:])
            shared = is_shared(array[(0,) * loops])
            request += item * matrix * (1 if shared else count)
    return request, item * operands.m * operands.n * count
