"""How large a message may be, and how long a matrix may stay."""

from __future__ import annotations

from collections.abc import Callable

from gemmd.errors import Unimplemented
from gemmd.results import ServerInfo

MESSAGE_LIMIT = 2**31 - 1  # protobuf's own
DESCRIPTION_BYTES = 4096  # more than all of a message of one product but its payloads
_SURELY_FITS = 1 << 20  # not worth a question
_TEMPORARY_LIFE = 300.0  # seconds, in addition to what a call may take


class Limits:
    """By the caller's word and the server's, which is asked once."""

    def __init__(self, own_bytes: int, ask_server: Callable[[], ServerInfo]) -> None:
        self._own = own_bytes
        self._ask_server = ask_server
        # Bytes of a message and seconds of a matrix's life; 0: it does not say.
        self._servers: tuple[int, float] | None = None

    def payload_bytes(self, needed: int) -> int:
        """What payloads of one message may have, for `needed` bytes. Only for large ones the server
        is asked."""
        limit = self._own
        if needed > _SURELY_FITS:
            limit = min(limit, self._of_server()[0] or limit)
        return max(0, limit - DESCRIPTION_BYTES)

    def temporary_life_ns(self, timeout: float) -> int:
        """How long the server is to keep what is there for one product, whose calls may take
        `timeout` seconds each: one names it once its message has arrived. What is left by a process
        that dies is gone soon."""
        return int(min(timeout + _TEMPORARY_LIFE, self._of_server()[1]) * 1e9)

    def forget(self) -> None:
        """To be called when the server refuses a size: it is not the server that was asked."""
        self._servers = None

    def _of_server(self) -> tuple[int, float]:
        servers = self._servers
        if servers is None:
            try:
                info = self._ask_server()
                servers = info.message_limit_bytes, info.time_to_live_limit
            except Unimplemented:
                servers = 0, 0.0
            self._servers = servers
        return servers
