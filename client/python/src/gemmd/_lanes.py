"""Work that takes many calls, spread over the connections of a client."""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from gemmd._retry import Deadline
from gemmd._transport import CallGroup, Transport
from gemmd.errors import GemmdError, Unavailable

Task = TypeVar("Task")

# Under way at once on each connection: while one is on the wire, the next is put together.
CALLS_PER_CHANNEL = 2

_INTERRUPT_WAIT = 0.2  # seconds that Ctrl-C may take
_GIVE_UP_WAIT = 5.0  # seconds; calls that are cancelled end at once

# Called with the bytes that are done and those of all.
Progress = Callable[[int, int], None]


class Lane:
    """Calls of one thread."""

    def __init__(
        self,
        transport: Transport,
        make_deadline: Callable[[], Deadline],
        channel: int = 0,
        group: CallGroup | None = None,
    ) -> None:
        self._transport = transport
        self._make_deadline = make_deadline
        self._channel = channel
        self._group = group

    def call(self, method: str, request: bytes) -> tuple[bytes, int]:
        """As Transport.call."""
        return self._transport.call(method, request, self.deadline(), self._channel, self._group)

    def deadline(self) -> Deadline:
        """Of a call that begins now."""
        return self._make_deadline()

    def wait_after(self, error: GemmdError, retries: int, deadline: Deadline) -> None:
        """As Transport.wait_after."""
        self._transport.wait_after(error, retries, deadline, self._group)


class Lanes:
    """Calls side by side, up to CALLS_PER_CHANNEL over each of so many connections."""

    def __init__(
        self, transport: Transport, channels: int, make_deadline: Callable[[], Deadline]
    ) -> None:
        self._transport = transport
        self._channels = channels
        self._make_deadline = make_deadline

    def single(self) -> Lane:
        """A lane for the calling thread."""
        return Lane(self._transport, self._make_deadline)

    def run(self, work: Callable[[Task, Lane], None], tasks: Sequence[Task]) -> None:
        """`work` on each task. Raises the first failure, when no thread is working any more.

        A server that is full may have no room for so many calls at once: a thread that finds it so,
        after the call's own retries, leaves the task to the others, and the last tries it alone."""
        self._transport.check_process()
        width = min(self._channels * CALLS_PER_CHANNEL, len(tasks))
        if width <= 1:
            lane = self.single()
            for task in tasks:
                work(task, lane)
            return

        group = CallGroup()
        lock = threading.Lock()
        waiting = collections.deque(tasks)  # guarded by lock, as is failures
        failures: list[BaseException] = []
        working = width  # guarded by lock
        at_work = width  # those that will look for a task again; guarded by lock
        finished = threading.Event()

        def drain(number: int) -> None:
            nonlocal at_work, working
            lane = Lane(self._transport, self._make_deadline, number % self._channels, group)
            try:
                while not group.given_up.is_set():
                    with lock:
                        if not waiting:
                            at_work -= 1
                            return
                        task, alone = waiting.popleft(), at_work == 1
                    try:
                        work(task, lane)
                    except Unavailable as failure:
                        if failure.retry_delay is None or alone:
                            raise
                        with lock:
                            waiting.append(task)
                            if at_work > 1:
                                at_work -= 1
                                return
            except BaseException as failure:
                with lock:
                    failures.append(failure)
                group.give_up()
            finally:
                with lock:
                    working -= 1
                    if working == 0:
                        finished.set()

        started = 0
        try:
            for number in range(width):
                name = f"gemmd-lane-{number}"
                thread = threading.Thread(target=drain, args=(number,), name=name, daemon=True)
                started += 1
                thread.start()
            # Not join, and not for ever: an interrupt breaks the one, and may get lost just before
            # the other.
            while not finished.wait(_INTERRUPT_WAIT):
                pass
        except BaseException:  # An interrupt, or no thread to be had.
            group.give_up()
            with lock:
                working -= width - started
                if working == 0:
                    finished.set()
            finished.wait(_GIVE_UP_WAIT)
            raise
        if failures:
            raise failures[0]


class Meter:
    """Counts bytes towards a total, and tells a caller. Thread-safe."""

    def __init__(self, progress: Progress | None, total_bytes: int) -> None:
        self._progress = progress
        self._total = total_bytes
        self._done = 0
        self._lock = threading.Lock()

    def add(self, size_bytes: int) -> None:
        if self._progress is None:
            return
        with self._lock:
            self._done += size_bytes
            self._progress(min(self._done, self._total), self._total)
