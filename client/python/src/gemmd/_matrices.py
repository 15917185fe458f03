"""The calls about matrices that stay on the server."""

from __future__ import annotations

import contextlib
import time
import uuid
import weakref
import zlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from gemmd import _contract, _messages
from gemmd._lanes import Lane, Lanes, Meter
from gemmd._limits import Limits
from gemmd._panels import cut, panel_rows
from gemmd._payload import Array, make_payload
from gemmd._reaper import Reaper
from gemmd._retry import Deadline
from gemmd._transport import Transport
from gemmd._wire import join_message
from gemmd.errors import (
    Cancelled,
    ConnectionFailed,
    DeadlineExceeded,
    GemmdError,
    MatrixExists,
    MatrixNotFound,
    MatrixNotSealed,
    QuotaExceeded,
)
from gemmd.matrix import Stored
from gemmd.results import MatrixInfo

Result = TypeVar("Result")

_ROOM_WAITS = (0.0, 0.02, 0.1)  # seconds; what is let go of goes just after its last reply
_UPLOADS = 3  # of one matrix, by a server that restarts meanwhile
_DELETE_TIMEOUT = 5.0  # seconds; what is not deleted in time expires


class Matrices:
    """Thread-safe."""

    def __init__(self, transport: Transport, limits: Limits) -> None:
        self._transport = transport
        self._limits = limits
        self._reaper = Reaper(self._delete_quietly, _DELETE_TIMEOUT)
        self._finalizers: weakref.WeakKeyDictionary[Stored, Any] = weakref.WeakKeyDictionary()

    # Names.

    def new_name(self) -> str:
        return str(uuid.uuid4())

    def delete_with_last_handle(self, stored: Stored) -> None:
        # Finalizers run wherever garbage is collected, perhaps inside gRPC: they only tell.
        self._reaper.start()
        finalizer = weakref.finalize(stored, self._reaper.add, stored.name)
        finalizer.atexit = False
        self._finalizers[stored] = finalizer

    # One call each.

    def info(self, name: str, lane: Lane) -> MatrixInfo:
        request = _contract.GetMatrixRequest(name=name)
        reply, _ = lane.call(_contract.GET_MATRIX, request.SerializeToString())
        return _messages.matrix_info(_messages.parse(_contract.GetMatrixReply, reply).matrix)

    def check_free(self, name: str, lane: Lane) -> None:
        """MatrixExists when there is a matrix of this name, whatever it is."""
        try:
            self.info(name, lane)
        except MatrixNotFound:
            return
        raise _exists(name, "delete it first, or choose another name")

    def list(self, lane: Lane) -> list[MatrixInfo]:
        found: list[MatrixInfo] = []
        request = _contract.ListMatricesRequest()
        while True:
            reply, _ = lane.call(_contract.LIST_MATRICES, request.SerializeToString())
            page = _messages.parse(_contract.ListMatricesReply, reply)
            found += map(_messages.matrix_info, page.matrices)
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    def delete(self, stored: Stored, lane: Lane) -> None:
        self._forget(stored)
        request = _contract.DeleteMatrixRequest(name=stored.name)
        with contextlib.suppress(MatrixNotFound):  # Gone already, as it should be.
            lane.call(_contract.DELETE_MATRIX, request.SerializeToString())

    def delete_later(self, stored: Stored) -> None:
        self._forget(stored)
        self._reaper.start()
        self._reaper.add(stored.name)

    def _forget(self, stored: Stored) -> None:
        stored.deleted = True
        stored.source = None
        finalizer = self._finalizers.pop(stored, None)
        if finalizer is not None:
            finalizer.detach()

    def _create(self, stored: Stored, lane: Lane) -> MatrixInfo:
        request = _contract.CreateMatrixRequest(
            name=stored.name,
            data_type=_messages.data_type_number(stored.dtype.name),
            rows=stored.rows,
            columns=stored.columns,
            time_to_live_ns=stored.ttl_ns,
        )
        reply, _ = self.with_room(
            lambda: lane.call(_contract.CREATE_MATRIX, request.SerializeToString())
        )
        return _messages.matrix_info(_messages.parse(_contract.CreateMatrixReply, reply).matrix)

    def with_room(self, call: Callable[[], Result]) -> Result:
        """What `call` returns, which makes a matrix. When your share is used up it is called
        again, once those are gone whose handles are, and the calls that still used them."""
        for wait in _ROOM_WAITS:
            try:
                return call()
            except QuotaExceeded:
                if not self._reaper.flush():
                    raise
                time.sleep(wait)
        return call()

    # Many calls each.

    def upload(
        self, stored: Stored, source: Array, lanes: Lanes, meter: Meter, *, exist_ok: bool
    ) -> None:
        """Makes the matrix of `source`, which has its shape. MatrixExists when some of it is there
        and that is not `exist_ok`."""
        limit = self._limits.payload_bytes(source.nbytes)
        panels = cut(stored.rows, panel_rows(stored.row_bytes, stored.rows, limit))
        if not source.nbytes:  # Rows of 0 bytes are written, too.
            panels = [(0, stored.rows)]
        for attempt in range(_UPLOADS):
            try:
                state = self._create(stored, lanes.single())
                # One without elements is complete from the start, whoever made it.
                if state.rows_written and source.nbytes and not (exist_ok or attempt > 0):
                    raise _exists(
                        stored.name,
                        "delete it first, choose another name, or say exist_ok=True if it was made "
                        "of this very array",
                    )
                if not state.sealed:
                    self._write(stored, source, panels, lanes, meter)
                return
            except MatrixNotFound:  # The server has restarted meanwhile.
                if attempt + 1 == _UPLOADS:
                    raise

    def _write(
        self,
        stored: Stored,
        source: Array,
        panels: Sequence[tuple[int, int]],
        lanes: Lanes,
        meter: Meter,
    ) -> None:
        checksums = [0] * len(panels)
        known = stored.checksums

        def write(number: int, lane: Lane) -> None:
            begin, end = panels[number]
            payload = make_payload(source[begin:end])
            request = _contract.WriteRowsRequest(
                name=stored.name, row_begin=begin, row_count=end - begin
            )
            message = join_message(request.SerializeToString(), [payload])
            begin_of_rows = len(message) - payload.size_bytes
            checksums[number] = zlib.crc32(memoryview(message)[begin_of_rows:])
            if known is not None and checksums[number] != known[number]:
                raise _SourceChanged
            lane.call(_contract.WRITE_ROWS, message)
            meter.add(payload.size_bytes)

        lanes.run(write, range(len(panels)))
        stored.checksums = checksums

    def download(
        self, stored: Stored, row_begin: int, into: Array, lanes: Lanes, meter: Meter
    ) -> None:
        """Rows from `row_begin` on, as many as `into` has, each copied there once."""
        rows = into.shape[0]
        limit = self._limits.payload_bytes(into.nbytes)
        panels = cut(rows, panel_rows(stored.row_bytes, rows, limit)) if into.size else []

        def read(panel: tuple[int, int], lane: Lane) -> None:
            begin, end = panel
            request = _contract.ReadRowsRequest(
                name=stored.name, row_begin=row_begin + begin, row_count=end - begin
            )
            reply, _ = lane.call(_contract.READ_ROWS, request.SerializeToString())
            wanted = (end - begin) * stored.row_bytes
            _, ((offset, _),) = _messages.parse_bulk_reply(_contract.ReadRowsReply, reply, [wanted])
            rows_read = np.frombuffer(reply, stored.dtype, (end - begin) * stored.columns, offset)
            into[begin:end] = rows_read.reshape(end - begin, stored.columns)
            meter.add(wanted)

        lanes.run(read, panels)

    def restored(
        self, stored: Sequence[Stored], lanes: Lanes, call: Callable[[], Result]
    ) -> Result:
        """What `call` returns, which uses these. When the server has lost some they are sent again
        and so is the call."""
        for _ in range(_UPLOADS - 1):
            try:
                return call()
            except (MatrixNotFound, MatrixNotSealed):
                for each in stored:
                    self.restore(each, lanes)
        return call()

    def restore(self, stored: Stored, lanes: Lanes) -> None:
        """Sends again what the server has lost, or lacks rows of. MatrixNotFound when that cannot
        be."""
        with stored.lock:
            found = False
            if not stored.deleted:
                with contextlib.suppress(MatrixNotFound):
                    sealed = self.info(stored.name, lanes.single()).sealed
                    if sealed or stored.source is None:
                        return
                    found = True
            source = stored.source
            if source is None:
                raise _lost(
                    stored,
                    "it was deleted"
                    if stored.deleted
                    else "it expired, was deleted, or the server has restarted, and there is no "
                    "array to send again",
                )
            try:
                self.upload(stored, source, lanes, Meter(None, 0), exist_ok=found)
            except _SourceChanged:
                self._reaper.start()
                self._reaper.add(stored.name)
                raise _lost(
                    stored, "and the array that it was made of has been changed meanwhile"
                ) from None

    # The end.

    def close(self) -> None:
        """Deletes what lives as long as its handles."""
        if self._transport.is_of_this_process():
            for finalizer in list(self._finalizers.values()):
                finalizer()
            self._reaper.close()

    def abandon(self) -> None:
        """In place of `close`, when nobody is there to wait."""
        self._reaper.add(None)

    def _delete_quietly(self, name: str) -> bool:
        """Whether the server answered."""
        request = _contract.DeleteMatrixRequest(name=name).SerializeToString()
        try:
            self._transport.call(_contract.DELETE_MATRIX, request, Deadline(_DELETE_TIMEOUT))
        except (ConnectionFailed, DeadlineExceeded, Cancelled):
            return False
        except GemmdError:
            pass  # Gone already; or else it expires.
        return True


class _SourceChanged(Exception):
    pass


def _exists(name: str, hint: str) -> MatrixExists:
    return MatrixExists(
        f"the server has a matrix {name!r} already", reason="MATRIX_EXISTS", field="name", hint=hint
    )


def _lost(stored: Stored, why: str) -> MatrixNotFound:
    return MatrixNotFound(
        f"the server has no matrix {stored.name!r}: {why}",
        reason="MATRIX_NOT_FOUND",
        hint="put it, or compute it, again",
    )
