"""Connections to one server: raw bytes out, raw bytes back, with retries."""

from __future__ import annotations

import os
import threading
from typing import Any

import grpc

from gemmd import _failure
from gemmd._retry import Deadline, RetryPolicy
from gemmd._version import __version__
from gemmd.errors import Cancelled, DeadlineExceeded, GemmdError

# The size of the whole message: the server admits a call by it before it reads a byte.
_REQUEST_BYTES_KEY = "gemmd-request-bytes"


def _channel_options(use_http_proxy: bool) -> list[tuple[str, int | str]]:
    return [
        ("grpc.primary_user_agent", f"gemmd-python/{__version__}"),
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
        ("grpc.enable_http_proxy", int(use_http_proxy)),
        ("grpc.enable_retries", 0),  # Ours know the server's hints; gRPC's would keep the bytes.
        ("grpc.service_config_disable_resolution", 1),
        ("grpc.use_local_subchannel_pool", 1),  # A connection of this channel's own.
        # Between failed connects gRPC answers with the last failure; its default of 1 s would make
        # quicker retries pointless.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 5000),
    ]


class CallGroup:
    """Calls that threads have under way for one purpose, to be given up together."""

    def __init__(self) -> None:
        self.given_up = threading.Event()
        self._lock = threading.Lock()
        self._calls: set[Any] = set()

    def give_up(self) -> None:
        """Cancels the calls, here and on the server; those that begin later fail at once."""
        with self._lock:
            self.given_up.set()
            calls = list(self._calls)
        for call in calls:  # Outside the lock: a call's callbacks may run in here.
            call.cancel()

    def result_of(self, call: Any) -> bytes:
        """Waits for a call's reply."""
        with self._lock:
            self._calls.add(call)
            late = self.given_up.is_set()
        if late:
            call.cancel()
        try:
            reply: bytes = call.result()
            return reply
        finally:
            with self._lock:
                self._calls.discard(call)


class Transport:
    """Thread-safe."""

    def __init__(self, address: str, retry: RetryPolicy, use_http_proxy: bool) -> None:
        self.address = address
        self.retry = retry
        self._uses_proxy = use_http_proxy
        self._closed = False
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._channels: list[Any] = []  # guarded by _lock
        self._methods: dict[tuple[str, int], Any] = {}
        self._channel(0)

    def call(
        self,
        method: str,
        request: bytes,
        deadline: Deadline,
        channel: int = 0,
        group: CallGroup | None = None,
    ) -> tuple[bytes, int]:
        """The reply and the number of attempts it took. Every channel is a connection of its own,
        made when it is first needed."""
        self.check_process()
        metadata = ((_REQUEST_BYTES_KEY, str(len(request))),)
        retries = 0
        while True:
            if self._closed:
                raise Cancelled("the client is closed")
            if group is not None and group.given_up.is_set():
                raise Cancelled("another part of the same operation failed")
            if deadline.left() == 0.0:
                raise DeadlineExceeded(
                    f"the timeout of {deadline.timeout} s passed before the call",
                    hint="raise timeout",
                )
            try:
                if group is None:
                    # An interrupt in here drops the call, which cancels it on the server too.
                    reply = self._method(method, channel)(
                        request, timeout=deadline.for_grpc(), metadata=metadata
                    )
                else:
                    reply = group.result_of(
                        self._method(method, channel).future(
                            request, timeout=deadline.for_grpc(), metadata=metadata
                        )
                    )
                return reply, retries + 1
            except grpc.FutureCancelledError:
                if self._closed or (group is not None and group.given_up.is_set()):
                    continue  # To what is raised above.
                raise Cancelled("the server cancelled the call") from None
            except grpc.RpcError as failure:
                error = _failure.error_of(failure, self.address, self._uses_proxy)
            except ValueError:  # What gRPC raises for a channel that is closed under it.
                if not self._closed:
                    raise
                raise Cancelled("the client is closed") from None
            try:
                self.wait_after(error, retries, deadline, group)
            finally:
                del error  # Which would refer to this frame, and it to our callers' matrices.
            retries += 1

    def wait_after(
        self, error: GemmdError, retries: int, deadline: Deadline, group: CallGroup | None = None
    ) -> None:
        """Waits for the next attempt; raises `error` when there is to be none."""
        wait = self.retry.wait_after(error, retries, deadline.left())
        if wait is None:
            try:
                raise error from None
            finally:
                del error
        (threading.Event() if group is None else group.given_up).wait(wait)

    def check_process(self) -> None:
        if not self.is_of_this_process():
            raise RuntimeError(
                "this client was made before the process forked, and gRPC's connections do not "
                "survive that: make a client in each process"
            )

    def is_of_this_process(self) -> bool:
        return os.getpid() == self._process

    def close(self) -> None:
        self._closed = True
        if self.is_of_this_process():
            with self._lock:
                channels = list(self._channels)
            for channel in channels:
                channel.close()

    def _channel(self, number: int) -> Any:
        with self._lock:
            while number >= len(self._channels):
                if self._closed:
                    raise Cancelled("the client is closed")
                options = _channel_options(self._uses_proxy)
                self._channels.append(grpc.insecure_channel(self.address, options))
            return self._channels[number]

    def _method(self, name: str, channel: int) -> Any:
        key = (name, channel)
        method = self._methods.get(key)
        if method is None:  # Two threads may both make one: the last stays.
            method = self._methods[key] = self._channel(channel).unary_unary(name)
        return method
