"""Which Host headers name a server; no foreign domain may point at it."""

import ipaddress
import socket
from collections.abc import Callable, Collection


def host_check(bound: str, more: Collection[str] = ()) -> Callable[[str], bool]:
    """Whether a Host header names a server bound to ``bound``, or one of the names in ``more``.

    A server for all interfaces answers to any address, which no foreign page can forge.
    """
    names = {"localhost", bound.lower(), *(name.lower() for name in more)}
    everywhere = is_address(bound) and ipaddress.ip_address(bound).is_unspecified
    if everywhere:
        names |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    def known(header: str) -> bool:
        name = _host_name(header)
        if name in names:
            return True
        return is_address(name) and (everywhere or ipaddress.ip_address(name).is_loopback)

    return known


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(address: str) -> bool:
    return is_address(address) and ipaddress.ip_address(address).is_loopback


def url_of(host: str, port: int) -> str:
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _host_name(header: str) -> str:
    """The name or address in a Host header, without the port; empty if it is malformed."""
    name, _, port = header.rpartition(":")
    if not port.isdigit() or (":" in name and not name.endswith("]")):
        name = header
    if any(c in name for c in " /@,;'\"<>\\") or not name.isascii():
        return ""
    return name.strip("[]").lower()
