"""Many products in few messages."""

from __future__ import annotations

import copy
import math
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmd import _contract, _failure, _messages
from gemmd._lanes import Lane, Lanes
from gemmd._matrices import Matrices
from gemmd._messages import Payloads, Terms
from gemmd._operands import Operands
from gemmd._panels import PANEL_BYTES
from gemmd._payload import Array
from gemmd._wire import join_message
from gemmd.errors import GemmdError, MatrixNotFound, MatrixNotSealed

_MOST_PRODUCTS = 4096  # of a message, by the contract
_LEAST_PRODUCTS = 32  # from here on a message costs less than its products
_RESULT_BYTES = 512  # more than a reply says about a product
_FIELD_BYTES = 8  # more than what stands before a product, or a payload, in a message
_MATRIX_ROUNDS = 3  # of a product whose matrices are sent again


@dataclass(frozen=True, eq=False)
class Unit:
    """A product of a message: all of one that was asked for, or the part at `position` of it.

    Attributes:
        into: Where D goes; None where it is the whole result, as a view of the reply.
    """

    index: int
    operands: Operands
    terms: Terms
    into: Array | None

    @property
    def result_bytes(self) -> int:
        return math.prod(self.operands.result_shape) * self.operands.dtype.itemsize


class Message:
    """A MultiplyBatchRequest that grows."""

    def __init__(self, request_id: str) -> None:
        self.units: list[Unit] = []
        self._request = _contract.MultiplyBatchRequest(request_id=request_id)
        self._payloads = Payloads()
        self._described_bytes = 0
        self._reply_bytes = 0

    def take(self, unit: Unit, most_bytes: int) -> bool:
        """Adds a product, unless that makes the message, or its reply, too long. A first one it
        always takes."""
        before = len(self._payloads.entries)
        product = self._request.products.add()
        _messages.describe_product(product, unit.operands, unit.terms, self._payloads)
        described = self._described_bytes + product.ByteSize() + 4 * _FIELD_BYTES
        reply = self._reply_bytes + unit.result_bytes + _RESULT_BYTES
        if self.units and max(self._payloads.size_bytes + described, reply) > most_bytes:
            self._payloads.cut_to(before)
            del self._request.products[-1]
            return False
        self._described_bytes, self._reply_bytes = described, reply
        self.units.append(unit)
        return True

    def join(self) -> bytes:
        return join_message(self._request.SerializeToString(), self._payloads.entries)


def pack(units: list[Unit], lanes: int, limit_bytes: int, request_id: str) -> list[Message]:
    """The units, in order, in messages that keep all lanes busy."""
    most_bytes = min(limit_bytes, PANEL_BYTES)
    most_units = min(_MOST_PRODUCTS, max(_LEAST_PRODUCTS, -(-len(units) // lanes)))
    messages: list[Message] = []
    for unit in units:
        fits = messages and len(messages[-1].units) < most_units
        if not fits or not messages[-1].take(unit, most_bytes):
            messages.append(Message(request_id))
            messages[-1].take(unit, most_bytes)
    return messages


class Sender:
    """Sends messages and sorts what comes back, by the index of the products asked for.

    Attributes:
        results: D of those that are one unit: views of replies.
        errors: Of those that failed.
    """

    def __init__(
        self, matrices: Matrices, lanes: Lanes, address: str, request_id: str, stop_early: bool
    ) -> None:
        """`stop_early`: a message that fails as a whole ends everything."""
        self.results: dict[int, Array] = {}
        self.errors: dict[int, GemmdError] = {}
        self._matrices = matrices
        self._lanes = lanes
        self._address = address
        self._request_id = request_id
        self._stop_early = stop_early
        self._lock = threading.Lock()

    def send(self, message: Message, lane: Lane) -> None:
        deadline = lane.deadline()
        retries = rounds = 0
        while True:
            try:
                failed = self._exchange(message, lane)
            except GemmdError as error:
                if self._stop_early:
                    raise with_index(error, message.units[0].index) from None
                failed = []
                for unit in message.units:
                    self._fail(unit, error)
            busy = [each for each in failed if each[1].code == "UNAVAILABLE"]
            lost = [
                unit
                for unit, reason in failed
                if isinstance(reason, (MatrixNotFound, MatrixNotSealed))
            ]
            again = [unit for unit, _ in busy]
            if busy:
                slowest = max((reason for _, reason in busy), key=lambda x: x.retry_delay or 0.0)
                try:
                    lane.wait_after(slowest, retries, deadline)
                    retries += 1
                except GemmdError:
                    again = []
            rounds += 1
            if rounds < _MATRIX_ROUNDS:
                again += [unit for unit in lost if self._restore(unit)]
            for unit, reason in failed:
                if unit not in again and unit.index not in self.errors:
                    self._fail(unit, reason)
            if not again:
                return
            message = Message(self._request_id)
            for unit in again:  # Which were one message before.
                message.take(unit, 1 << 62)

    def _exchange(self, message: Message, lane: Lane) -> list[tuple[Unit, GemmdError]]:
        """Keeps what succeeded, and returns what did not."""
        reply, _ = lane.call(_contract.MULTIPLY_BATCH, message.join())
        failed = []
        wanted = [unit.result_bytes for unit in message.units]
        found = _messages.parse_batch_reply(reply, wanted)
        for unit, (result, offset) in zip(message.units, found, strict=True):
            if result.HasField("error"):
                failed.append((unit, _failure.error_of_status(result.error, self._address)))
                continue
            shape = unit.operands.result_shape
            array = np.frombuffer(reply, unit.operands.dtype, math.prod(shape), offset)
            if unit.into is None:
                self.results[unit.index] = array.reshape(shape)
            else:
                unit.into[...] = array.reshape(shape)
        return failed

    def _restore(self, unit: Unit) -> bool:
        try:
            for matrix in unit.operands.matrices():
                self._matrices.restore(matrix._stored, self._lanes)
        except GemmdError as error:
            self._fail(unit, error)
            return False
        return True

    def _fail(self, unit: Unit, error: GemmdError) -> None:
        with self._lock:
            self.errors[unit.index] = with_index(error, unit.index)


def with_index(error: GemmdError, index: int) -> GemmdError:
    mine: Any = copy.copy(error)
    mine.index = index
    return mine  # type: ignore[no-any-return]
