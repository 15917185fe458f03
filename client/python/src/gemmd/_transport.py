"""A connection to one server: raw bytes out, raw bytes back, with retries."""

from __future__ import annotations

import os
import time
from typing import Any

import grpc

from gemmd import _failure
from gemmd._retry import Deadline, RetryPolicy
from gemmd._version import __version__
from gemmd.errors import Cancelled, DeadlineExceeded

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
        ("grpc.use_local_subchannel_pool", 1),  # A connection of this client's own.
        # Between failed connects gRPC answers with the last failure; its default of 1 s would make
        # quicker retries pointless.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 5000),
    ]


class Transport:
    """Thread-safe."""

    def __init__(self, address: str, retry: RetryPolicy, use_http_proxy: bool) -> None:
        self._address = address
        self._retry = retry
        self._uses_proxy = use_http_proxy
        self._closed = False
        self._process = os.getpid()
        self._channel: Any = grpc.insecure_channel(address, _channel_options(use_http_proxy))
        self._methods: dict[str, Any] = {}

    def call(self, method: str, request: bytes, deadline: Deadline) -> tuple[bytes, int]:
        """The reply and the number of attempts it took."""
        if os.getpid() != self._process:
            raise RuntimeError(
                "this client was made before the process forked, and gRPC's connections do not "
                "survive that: make a client in each process"
            )
        metadata = ((_REQUEST_BYTES_KEY, str(len(request))),)
        retries = 0
        while True:
            if self._closed:
                raise Cancelled("the client is closed")
            if deadline.left() == 0.0:
                raise DeadlineExceeded(
                    f"the timeout of {deadline.timeout} s passed before the call",
                    hint="raise timeout",
                )
            try:
                # An interrupt in here drops the call, which cancels it on the server too.
                reply = self._method(method)(
                    request, timeout=deadline.for_grpc(), metadata=metadata
                )
                return reply, retries + 1
            except grpc.RpcError as failure:
                error = _failure.error_of(failure, self._address, self._uses_proxy)
                wait = self._retry.wait_after(error, retries, deadline.left())
                if wait is None:
                    raise error from None
            except ValueError:  # What gRPC raises for a channel that is closed under it.
                if not self._closed:
                    raise
                raise Cancelled("the client is closed") from None
            time.sleep(wait)
            retries += 1

    def close(self) -> None:
        self._closed = True
        if os.getpid() == self._process:
            self._channel.close()

    def _method(self, name: str) -> Any:
        method = self._methods.get(name)
        if method is None:  # Two threads may both make one: the last stays.
            method = self._methods[name] = self._channel.unary_unary(name)
        return method
