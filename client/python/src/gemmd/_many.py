"""Many products in few messages."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gemmd._arguments import make_terms
from gemmd._batch import Sender, Unit, pack, with_index
from gemmd._messages import Terms
from gemmd._multiply import Multiplier
from gemmd._operands import Operands, check_handles, check_operands
from gemmd._payload import returned
from gemmd._plan import bytes_of_call, make_plan
from gemmd._session import Session
from gemmd.errors import GemmdError, InvalidType
from gemmd.matrix import Matrix

if TYPE_CHECKING:
    import numpy.typing as npt

    Factor = npt.ArrayLike | Matrix


@dataclass(frozen=True, eq=False)
class Product:
    """alpha * (a @ b) + beta * c, for `Client.matmul_many`; as for `Client.matmul`."""

    a: Factor
    b: Factor
    alpha: float = 1.0
    beta: float | None = None
    c: Factor | None = None


def multiply_many(
    products: Iterable[tuple[Factor, Factor] | Product],
    session: Session,
    multiplier: Multiplier,
    *,
    copy: bool,
    return_exceptions: bool,
    precision: str,
    timeout: float | None,
    request_id: str,
) -> list[Any]:
    """As `Client.matmul_many`."""
    deadline = session.deadline(timeout)
    given = list(products)
    results: list[Any] = [None] * len(given)
    ready: list[tuple[int, Operands, Terms]] = []
    for index, product in enumerate(given):
        try:
            operands, terms = _check(product, session.address, precision, request_id)
        except GemmdError as error:
            error.index = index
            if not return_exceptions:
                raise
            results[index] = error
            continue
        if math.prod(operands.result_shape) == 0:
            results[index] = np.empty(operands.result_shape, operands.dtype)
        else:
            ready.append((index, operands, terms))

    needed = sum(max(bytes_of_call(operands, 0)) for _, operands, _ in ready)
    try:
        limit = session.limits.payload_bytes(needed)
    except GemmdError as error:
        if not return_exceptions:
            raise
        for index, _, _ in ready:
            results[index] = with_index(error, index)
        return results
    units: list[Unit] = []
    large: list[tuple[int, Operands, Terms]] = []
    for index, operands, terms in ready:
        plan = make_plan(operands, limit)
        if plan is None:
            large.append((index, operands, terms))
        elif plan.calls == 1:
            units += [Unit(index, part, terms, None) for _, part in plan.parts()]
        else:
            whole = results[index] = np.empty(operands.result_shape, operands.dtype)
            units += [Unit(index, part, terms, whole[position]) for position, part in plan.parts()]
    lanes = session.lanes_until(deadline)
    sender = Sender(session.matrices, lanes, session.address, request_id, not return_exceptions)
    lanes.run(sender.send, pack(units, session.channels, limit, request_id))
    failed: dict[int, GemmdError] = sender.errors
    for index, operands, _ in ready:
        if index in sender.results and index not in failed:
            array = sender.results[index].reshape(operands.result_shape)
            results[index] = returned(array, copy)
    for index, operands, terms in large:
        try:
            array, _ = multiplier.run(operands, terms, lanes, session.lanes(timeout), None, None)
            results[index] = returned(array, copy)
        except GemmdError as error:
            error.index = index
            failed[index] = error
    if failed and not return_exceptions:
        raise failed[min(failed)]
    for index in failed:
        results[index] = failed[index]
    return results


def _check(
    product: tuple[Factor, Factor] | Product, address: str, precision: str, request_id: str
) -> tuple[Operands, Terms]:
    if not isinstance(product, Product):
        if not (isinstance(product, tuple) and len(product) == 2):
            raise InvalidType("a product must be a pair (a, b) or a gemmd.Product")
        product = Product(*product)
    a, b, c = product.a, product.b, product.c
    terms = make_terms(product.alpha, product.beta, c, precision, request_id)
    check_handles({"a": a, "b": b, "c": c}, address)
    return check_operands(a, b, c, reads_c=terms.beta != 0), terms
