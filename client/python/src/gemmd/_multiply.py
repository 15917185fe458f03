"""The roads of a product: one message, or panels against a matrix that is put on the server for
it, or with a result that stays there."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gemmd import _contract, _messages, _panels
from gemmd._lanes import Lane, Lanes, Meter, Progress
from gemmd._messages import Terms
from gemmd._operands import Factor, Operands
from gemmd._panels import cut, panel_rows
from gemmd._payload import Array, stored_form
from gemmd._plan import bytes_of_call, is_shared, make_plan
from gemmd._session import Session
from gemmd.errors import (
    GemmdError,
    InvalidArgument,
    ResourceExhausted,
    Unavailable,
    Unimplemented,
)
from gemmd.matrix import Matrix, Stored
from gemmd.results import Report

if TYPE_CHECKING:
    from gemmd.client import Client

# Columns of a panel of b are a multiple of it, unless they are all.
_COLUMN_STEP = 64


class Multiplier:
    """Thread-safe."""

    def __init__(self, client: Client, session: Session) -> None:
        """`client` is whose the handles are of what stays on the server."""
        self._client = client
        self._session = session
        self._limits = session.limits
        self._matrices = session.matrices

    def run(
        self,
        operands: Operands,
        terms: Terms,
        lanes: Lanes,
        panel_lanes: Lanes,
        out: Array | None,
        progress: Progress | None,
    ) -> tuple[Array, tuple[Report, ...]]:
        """D, of operands.result_shape, by the road that its size asks for. `lanes` are for a
        product of few messages, `panel_lanes` for one in panels.

        D is a view of the reply where it is all of one; in panels it is written to `out` as it
        comes, if that is given and is not the memory of an operand.
        """
        limit = self._limits.payload_bytes(max(bytes_of_call(operands, 0)))
        plan = make_plan(operands, limit)
        is_b_there = isinstance(operands.b, Matrix)
        whole = _panels.WHOLE_BYTES_BESIDE_B if is_b_there else _panels.WHOLE_BYTES
        if plan is None or sum(bytes_of_call(operands, len(operands.batch))) > whole:
            try:
                return self._by_panels(operands, terms, panel_lanes, limit, out, progress)
            except (ResourceExhausted, Unimplemented, Unavailable) as error:
                # No room for b, ever or now, or a server that keeps no matrices.
                full = error.reason == "MEMORY_FULL" or not isinstance(error, Unavailable)
                if plan is None or not full:
                    raise
        lane = lanes.single()
        reports = []
        if plan.calls == 1:
            ((_, part),) = plan.parts()
            array, report = self.inline(part, terms, lanes, lane)
            array = array.reshape(operands.result_shape)
            reports.append(report)
        else:
            array = np.empty(operands.result_shape, operands.dtype)
            for index, part in plan.parts():
                array[index], report = self.inline(part, terms, lanes, lane)
                reports.append(report)
        if progress is not None:
            total = sum(report.request_bytes + report.reply_bytes for report in reports)
            progress(total, total)
        return array, tuple(reports)

    def inline(
        self, part: Operands, terms: Terms, lanes: Lanes, lane: Lane
    ) -> tuple[Array, Report]:
        """D as a view of the reply's bytes, of part.result_shape; of 0 bytes when it is kept."""

        def call() -> tuple[Array, Report]:
            start = time.perf_counter()
            request = _messages.multiply_message(part, terms)
            request_bytes = len(request)
            try:
                reply, attempts = lane.call(_contract.MULTIPLY, request)
            except ResourceExhausted:
                self._limits.forget()
                raise
            del request
            count = 0 if terms.keep is not None else math.prod(part.result_shape)
            message, ((offset, _),) = _messages.parse_bulk_reply(
                _contract.MultiplyReply, reply, [count * part.dtype.itemsize]
            )
            array: Array = np.frombuffer(reply, part.dtype, count, offset)
            if terms.keep is None:
                array = array.reshape(part.result_shape)
            wall = time.perf_counter() - start
            report = _messages.make_report(
                message.report, wall, attempts, request_bytes, len(reply)
            )
            return array, report

        return self._matrices.restored([x._stored for x in part.matrices()], lanes, call)

    # A result that stays.

    def kept(
        self, operands: Operands, terms: Terms, lanes: Lanes, name: str | None
    ) -> tuple[Matrix, Report | None]:
        """D as a matrix of this name, or of one of our own, on the server."""
        if len(operands.result_shape) != 2:
            raise InvalidArgument(
                "a result that stays on the server has two dimensions, of factors that have",
                hint="reshape them, or use matmul without keep, which returns an array",
            )
        ours = name is None
        stored = Stored(
            self._matrices.new_name() if name is None else name,
            operands.dtype,
            operands.m,
            operands.n,
            ttl_ns=terms.keep_ttl_ns,
        )
        if not ours:
            self._matrices.check_free(stored.name, lanes.single())
        else:
            self._matrices.delete_with_last_handle(stored)
        result = Matrix(self._client, stored)
        report = None
        if result.size == 0:  # Nothing to compute.
            empty = np.empty(result.shape, result.dtype)
            self._matrices.upload(stored, empty, lanes, Meter(None, 0), exist_ok=False)
            return result, report
        with contextlib.ExitStack() as temporary:
            operands = self._within_limit(operands, lanes, temporary)
            terms = replace(terms, keep=stored.name)
            _, report = self._matrices.with_room(
                lambda: self.inline(operands, terms, lanes, lanes.single())
            )
        return result, report

    def _within_limit(
        self, operands: Operands, lanes: Lanes, temporary: contextlib.ExitStack
    ) -> Operands:
        """With the largest arrays put on the server, until the rest fits a message."""
        while True:
            request, _ = bytes_of_call(operands, 0)
            if request <= self._limits.payload_bytes(request):
                return operands
            factors: dict[str, Array] = {
                name: factor
                for name in ("a", "b", "c")
                if isinstance(factor := getattr(operands, name), np.ndarray)
            }
            name = max(factors, key=lambda each: factors[each].size)
            matrix = temporary.enter_context(
                self._temporary(factors[name], lanes, Meter(None, 0), as_it_is=name == "c")
            )
            for other, factor in factors.items():  # a @ a sends a once.
                same = factor is factors[name] or (
                    factor.__array_interface__ == factors[name].__array_interface__
                )
                if same:
                    operands = replace(operands, **{other: matrix})  # type: ignore[arg-type]

    @contextlib.contextmanager
    def _temporary(
        self, array: Array, lanes: Lanes, meter: Meter, as_it_is: bool = False
    ) -> Iterator[Matrix]:
        """A matrix of `array`, deleted in the end; stored as its transpose if that is how it
        lies, unless it is wanted `as_it_is`."""
        source, transposed = (array, False) if as_it_is else stored_form(array)
        rows, columns = source.shape
        stored = Stored(
            self._matrices.new_name(),
            array.dtype.newbyteorder("="),
            rows,
            columns,
            ttl_ns=self._temporary_life_ns(lanes),
            source=source,
        )
        try:
            self._matrices.upload(stored, source, lanes, meter, exist_ok=False)
            yield Matrix(self._client, stored, transposed=transposed)
        except BaseException:
            self._matrices.delete_later(stored)
            raise
        self._delete(stored, lanes)

    def _temporary_life_ns(self, lanes: Lanes) -> int:
        return self._limits.temporary_life_ns(lanes.single().deadline().left())

    def _delete(self, stored: Stored, lanes: Lanes) -> None:
        """At once, since the next may need the room."""
        try:
            self._matrices.delete(stored, lanes.single())
        except GemmdError:  # The product has succeeded nevertheless.
            self._matrices.delete_later(stored)

    # Panels.

    def _by_panels(
        self,
        operands: Operands,
        terms: Terms,
        lanes: Lanes,
        limit: int,
        out: Array | None,
        progress: Progress | None,
    ) -> tuple[Array, tuple[Report, ...]]:
        item = operands.dtype.itemsize
        if isinstance(operands.a, np.ndarray) and operands.k * item > limit:
            raise ResourceExhausted(
                f"a row of a needs a message of {operands.k * item} bytes, over the limit of "
                f"{limit}",
                reason="MESSAGE_TOO_LARGE",
                hint="start the server with a larger --message-limit, or multiply parts of k: each "
                "product adds to the one before as its c",
            )
        factors = [x for x in (operands.a, operands.b, operands.c) if isinstance(x, np.ndarray)]
        if out is None or any(np.may_share_memory(out, factor) for factor in factors):
            out = np.empty(operands.result_shape, operands.dtype)
        # Gives back the axes that one-dimensional factors lost, which never takes a copy.
        whole = out.reshape(*operands.batch, operands.m, operands.n)
        meter = Meter(progress, _bytes_by_panels(operands))
        columns = self._column_panels(operands, limit)
        reports: list[Report] = []
        for begin, end in columns:
            with contextlib.ExitStack() as temporary:
                shared: Matrix | None = None
                for index in np.ndindex(*operands.batch):
                    one = _matrix_of_batch(operands, index, begin, end)
                    if isinstance(one.b, np.ndarray):
                        if shared is None or not is_shared(operands.b):
                            if shared is not None:
                                temporary.close()
                            shared = temporary.enter_context(self._temporary(one.b, lanes, meter))
                        one = replace(one, b=shared)
                    into = whole[(*index, slice(None), slice(begin, end))]
                    reports += self._rows_by_panels(one, terms, lanes, limit, into, meter)
        return out, tuple(reports)

    def _column_panels(self, operands: Operands, limit: int) -> list[tuple[int, int]]:
        """How the columns of b are cut: not at all, unless a row of D is more than a message, or b
        more than what a device of the server may hold."""
        n, k, item = operands.n, operands.k, operands.dtype.itemsize
        beside = k if isinstance(operands.a, np.ndarray) and operands.c is not None else 0
        most = max(1, limit // item - beside)
        if isinstance(operands.b, np.ndarray):
            info = self._session.server_info()
            budget = info.matrix_memory_bytes // max(1, len(info.devices))
            # Rows in memory are padded by up to an eighth.
            if budget > 0:
                most = min(most, max(1, budget * 8 // 9 // max(1, k * item)))
        if most >= n:
            return [(0, n)]
        if isinstance(operands.c, Matrix) or (
            isinstance(operands.b, Matrix) and not operands.b._transposed
        ):
            raise ResourceExhausted(
                f"the product of {operands.m} x {k} and {k} x {n} has rows too long for a message, "
                "and a matrix on the server cannot be cut into columns",
                reason="RESULT_TOO_LARGE",
                hint="use keep=True and get() rows of the result",
            )
        parts = -(-n // most)
        step = -(-n // parts)
        step = min(most, -(-step // _COLUMN_STEP) * _COLUMN_STEP)
        return cut(n, step)

    def _rows_by_panels(
        self,
        one: Operands,
        terms: Terms,
        lanes: Lanes,
        limit: int,
        into: Array,
        meter: Meter,
    ) -> list[Report]:
        """D of two matrices, b being on the server, by rows of a."""
        if isinstance(one.a, Matrix) and one.a._transposed:  # Whose rows cannot be taken.
            life_ns = self._temporary_life_ns(lanes)
            result, report = self.kept(one, replace(terms, keep_ttl_ns=life_ns), lanes, None)
            self._matrices.download(result._stored, 0, into, lanes, meter)
            self._delete(result._stored, lanes)
            return [] if report is None else [report]

        item = one.dtype.itemsize
        to_send = (0 if isinstance(one.a, Matrix) else one.k) + (
            one.n if isinstance(one.c, np.ndarray) else 0
        )
        step = panel_rows(item * max(to_send, one.n), one.m, limit)
        panels = cut(one.m, step)
        reports: dict[int, Report] = {}

        def multiply(panel: tuple[int, int], lane: Lane) -> None:
            begin, end = panel
            part = replace(
                one,
                a=one.a[begin:end],
                c=None if one.c is None else one.c[begin:end],
                m=end - begin,
                result_shape=(end - begin, one.n),
            )
            array, reports[begin] = self.inline(part, terms, lanes, lane)
            into[begin:end] = array
            meter.add(item * (end - begin) * (to_send + one.n))

        lanes.run(multiply, panels)
        return [reports[begin] for begin, _ in panels]


def _matrix_of_batch(operands: Operands, index: tuple[int, ...], begin: int, end: int) -> Operands:
    """One product of a batch, and of its columns those from `begin` to `end`."""

    def columns_of(factor: Factor) -> Factor:
        if (begin, end) == (0, operands.n):
            return factor
        return factor[:, begin:end]

    def at(factor: Factor) -> Factor:
        return factor if isinstance(factor, Matrix) else factor[index]

    return replace(
        operands,
        a=at(operands.a),
        b=columns_of(at(operands.b)),
        c=None if operands.c is None else columns_of(at(operands.c)),
        batch=(),
        n=end - begin,
        result_shape=(operands.m, end - begin),
    )


def _bytes_by_panels(operands: Operands) -> int:
    """About what goes over the wire both ways; for progress."""
    count = math.prod(operands.batch)
    moved = operands.m * operands.n * count
    if isinstance(operands.a, np.ndarray):
        moved += operands.m * operands.k * count
    if isinstance(operands.b, np.ndarray):
        moved += operands.k * operands.n * (1 if is_shared(operands.b) else count)
    if isinstance(operands.c, np.ndarray):
        moved += operands.m * operands.n * count
    return moved * operands.dtype.itemsize
