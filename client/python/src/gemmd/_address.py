"""Where the server is."""

from __future__ import annotations

import os

from gemmd.errors import InvalidArgument

DEFAULT = "127.0.0.1:50051"
_VARIABLE = "GEMMD_ADDRESS"

_GRPC_SCHEMES = ("dns:", "unix:", "unix-abstract:", "ipv4:", "ipv6:")
_FOREIGN_SCHEMES = ("http://", "https://", "grpc://", "grpcs://", "tcp://")


def resolve(address: str | None) -> str:
    """`address`, or else GEMMD_ADDRESS, or else this machine; InvalidArgument when gRPC could make
    no sense of it."""
    if address is None:
        address = os.environ.get(_VARIABLE) or DEFAULT
    fault = _fault(address)
    if fault is not None:
        raise InvalidArgument(
            f'address "{address}" {fault}',
            field="address",
            hint="write host:port, [ipv6]:port, dns:///host:port or unix:/path",
        )
    return address


def _fault(address: str) -> str | None:
    if not address:
        return "is empty"
    for scheme in _FOREIGN_SCHEMES:
        if address.lower().startswith(scheme):
            return f"starts with {scheme}, which gRPC does not know"
    if address.startswith(_GRPC_SCHEMES):
        return None
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        return "has no port"
    if not host:
        return "has no host"
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        return "has an IPv6 address without brackets"
    if not (port.isascii() and port.isdecimal() and 1 <= int(port) <= 65535):
        return "has a port outside of 1 to 65535"
    return None
