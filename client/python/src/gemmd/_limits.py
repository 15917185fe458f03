"""How large a message may be."""

from __future__ import annotations

from collections.abc import Callable

from gemmd.errors import Unimplemented

MESSAGE_LIMIT = 2**31 - 1  # protobuf's own
DESCRIPTION_BYTES = 4096  # more than all of a message of one product but its payloads
_SURELY_FITS = 1 << 20  # not worth a question


class Limits:
    """What payloads of one message may have, in bytes: by the caller's word and the server's."""

    def __init__(self, own_bytes: int, ask_server: Callable[[], int]) -> None:
        self._own = own_bytes
        self._ask_server = ask_server
        self._servers: int | None = None

    def payload_bytes(self, needed: int) -> int:
        """The limit, for payloads of `needed` bytes. The server is asked once, by large ones."""
        limit = self._own
        if needed > _SURELY_FITS:
            if self._servers is None:
                try:
                    self._servers = self._ask_server()
                except Unimplemented:
                    self._servers = 0
            limit = min(limit, self._servers or limit)  # 0: it does not say
        return max(0, limit - DESCRIPTION_BYTES)

    def forget(self) -> None:
        """To be called when the server refuses a size: it is not the server that was asked."""
        self._servers = None
