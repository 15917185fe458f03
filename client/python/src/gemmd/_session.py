"""What all calls of one client share."""

from __future__ import annotations

from functools import partial
from typing import Any

from gemmd import _contract, _messages
from gemmd._arguments import check_number
from gemmd._lanes import Lanes
from gemmd._limits import Limits
from gemmd._matrices import Matrices
from gemmd._retry import Deadline, RetryPolicy
from gemmd._transport import Transport
from gemmd.results import ServerInfo


class Session:
    """The connections to a server, its limits, the matrices that were put there, and how long calls
    may take. Thread-safe. Knows nothing of the client, which therefore goes with its last user.

    Attributes:
        channels: Over how many connections one call's messages go.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout: float,
        retry: RetryPolicy,
        message_limit_bytes: int,
        channels: int,
        use_http_proxy: bool,
    ) -> None:
        self.address = address
        self.channels = channels
        self._timeout = timeout
        self.transport = Transport(address, retry, use_http_proxy)
        self.limits = Limits(message_limit_bytes, partial(_ask_in_time, self.transport, timeout))
        self.matrices = Matrices(self.transport, self.limits)

    def deadline(self, timeout: float | None) -> Deadline:
        """Of a call that begins now, with the client's timeout if it has none of its own."""
        if timeout is None:
            return Deadline(self._timeout)
        return Deadline(check_number("timeout", timeout, above_zero=True))

    def lanes(self, timeout: float | None) -> Lanes:
        """For any number of messages: each has the client's timeout, or all have the call's."""
        if timeout is None:
            return Lanes(self.transport, self.channels, partial(Deadline, self._timeout))
        return self.lanes_until(self.deadline(timeout))

    def lanes_until(self, deadline: Deadline) -> Lanes:
        return Lanes(self.transport, self.channels, lambda: deadline)

    def ask(self, method: str, request: Any, timeout: float | None) -> bytes:
        """The reply to a small message."""
        deadline = self.deadline(timeout)
        return self.transport.call(method, request.SerializeToString(), deadline)[0]

    def server_info(self, timeout: float | None = None) -> ServerInfo:
        return _ask_server(self.transport, self.deadline(timeout))

    def close(self) -> None:
        self.matrices.close()
        self.transport.close()


# Not methods: what holds a method holds the session, which would then hold itself.


def _ask_server(transport: Transport, deadline: Deadline) -> ServerInfo:
    request = _contract.GetServerInfoRequest().SerializeToString()
    reply, _ = transport.call(_contract.GET_SERVER_INFO, request, deadline)
    return _messages.make_server_info(reply)


def _ask_in_time(transport: Transport, timeout: float) -> ServerInfo:
    return _ask_server(transport, Deadline(timeout))
