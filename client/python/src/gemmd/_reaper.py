"""Deletes matrices on the server that nobody here has a handle of any more."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable


class Reaper:
    """Deletes matrices on a thread of its own, which begins with the first handle."""

    def __init__(self, delete: Callable[[str], bool], patience: float) -> None:
        """`delete` says whether the server answered. Nothing is waited for longer than `patience`
        seconds, twice that in the end."""
        self._delete = delete
        self._patience = patience
        # Its put may be called from a finalizer, whatever the thread is in the middle of.
        self._names: queue.SimpleQueue[str | threading.Event | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None  # guarded by _lock
        self._closing = False

    def start(self) -> None:
        """Before there can be anything to delete: a finalizer must not start threads."""
        with self._lock:
            if self._thread is None and not self._closing:
                self._thread = threading.Thread(target=self._run, name="gemmd-reaper", daemon=True)
                self._thread.start()

    def add(self, name: str | None) -> None:
        self._names.put(name)

    def flush(self) -> bool:
        """Waits for what is known by now. False when there has never been anything."""
        if self._thread is None:
            return False
        done = threading.Event()
        self._names.put(done)
        return done.wait(self._patience)

    def close(self) -> None:
        """Waits for what is known by now, unless the server does not answer."""
        with self._lock:
            self._closing = True
        self._names.put(None)
        if self._thread is not None:
            self._thread.join(2 * self._patience)

    def _run(self) -> None:
        while (name := self._names.get()) is not None:
            if isinstance(name, threading.Event):
                name.set()
                continue
            if not self._delete(name) and self._closing:
                return
