"""What a person should look at after a failure, in plain words."""

from __future__ import annotations

import os

_BY_REASON = {
    "MESSAGE_TOO_LARGE": "start the server with a larger --message-limit (Client.info() tells the "
    "present one), or multiply in parts: rows of a against columns of b are independent",
    "RESULT_TOO_LARGE": "start the server with a larger --message-limit, or ask for the result in "
    "parts: rows of a against columns of b are independent",
    "QUOTA_EXCEEDED": "delete matrices that are not needed (Client.matrices() lists yours), or "
    "start the server with a larger --matrix-quota or --matrix-count",
    "MATRIX_NOT_FOUND": "it expired (put it with a longer ttl), was deleted, or the server has "
    "restarted: put it again",
    "MATRIX_EXISTS": "delete that one first, or choose another name; without a name, a new one is "
    "made up",
    "MATRIX_NOT_SEALED": "its upload has not finished: put the same array under the same name with "
    "exist_ok=True to complete it",
    "MATRIX_BUSY": "another call is making or writing this very matrix: try again when it is done",
    "MEMORY_TOO_SMALL": "start the server with a larger --host-memory, or --matrix-memory "
    "for matrices that stay there, or work in parts",
    "QUEUE_FULL": "the server is busy: run fewer calls at a time, or raise max_retries",
    "MEMORY_FULL": "the server's memory is in use: run fewer calls at a time, raise max_retries, "
    "or delete matrices that are not needed",
    "DRAINING": "the server is shutting down: use another one, or try again when it has restarted",
    "UNSUPPORTED": "Client.explain() says which kernels the server has and why each would not run",
    "DEVICE_FAILED": "the server's log says more; the same call may work on another server",
    "DEVICE_LOST": "the server has lost its device and must be restarted; its log says more",
}

# What gRPC says, and what it means. The first match counts.
_CONNECTION = [
    (
        ("connection refused", "no such file or directory"),
        "no server listens at {address}: is gemmd running there, and is the port right?",
    ),
    (
        ("dns resolution failed", "name resolution", "resolving", "hostname lookup"),
        "the host of {address} cannot be found: is its name right?",
    ),
    (
        # "HTTP/1.1" read as an HTTP/2 frame has the letter P, 80, for its type.
        ("http1", "http/1", "http2 header with status", "got frame type 80"),
        "{address} speaks HTTP but not gRPC: is it a proxy, a web page or the metrics port?",
    ),
    (
        ("settings frame", "socket closed", "handshake", "reset by peer", "broken pipe", "http/2"),
        "whatever listens at {address} closed the connection or does not speak gRPC: it stopped, "
        "is not gemmd, or expects TLS, which this client does not speak",
    ),
    (
        ("unreachable", "no route to host", "timed out", "timeout", "deadline"),
        "{address} cannot be reached: is the host up and the port open?",
    ),
]

_PROXY_VARIABLES = ("grpc_proxy", "https_proxy", "http_proxy")


def hint_for(
    code: str, reason: str | None, message: str, address: str, uses_proxy: bool
) -> str | None:
    if reason is not None:
        return _BY_REASON.get(reason)
    text = message.lower()
    if "http2 header with status" in text:  # Not gRPC, whatever code gRPC made of it.
        code = "UNAVAILABLE"
    if code == "UNAVAILABLE":
        return _connection_hint(text, address, uses_proxy)
    if code == "UNIMPLEMENTED":
        return f"the server at {address} does not know this call: it is older, or is not gemmd"
    if code == "DEADLINE_EXCEEDED":
        return (
            f"{address} did not answer in time: raise timeout for large products; if health() "
            "times out too, the host is down or a firewall drops its packets"
        )
    if code == "RESOURCE_EXHAUSTED":
        return _BY_REASON["MESSAGE_TOO_LARGE"]
    return None


def _connection_hint(text: str, address: str, uses_proxy: bool) -> str | None:
    hints = []
    for signs, meaning in _CONNECTION:
        if any(sign in text for sign in signs):
            hints.append(meaning.format(address=address))
            break
    proxy = next((name for name in _PROXY_VARIABLES if os.environ.get(name)), None)
    if uses_proxy and proxy is not None:
        hints.append(f"the environment's {proxy} is in use, as use_http_proxy asks: is it meant?")
    return "; ".join(hints) or None
