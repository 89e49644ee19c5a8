"""Names and addresses of machines, as text: which of them no other machine can reach."""

from __future__ import annotations

from ipaddress import ip_address

EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 - names of "every address", not a socket


def is_address(host: str) -> bool:
    """An address itself, rather than a name that is looked up."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Only programs on the same machine reach it."""
    return host.lower() == "localhost" or (is_address(host) and ip_address(host).is_loopback)
