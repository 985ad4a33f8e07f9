"""Host names and addresses: which stand for this machine, and the URL of the page."""

from __future__ import annotations

import ipaddress
import socket


def is_loopback(host: str) -> bool:
    """Whether a host name or address always stands for this machine.

    Args:
        host: a name or an IP address.

    Example:
        >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.org")]
        [True, True, True, False, False]
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def page_url(host: str, port: int) -> str:
    """Return the URL at which a browser finds a service.

    Args:
        host: the host that the service listens on; `0.0.0.0` and `::` stand for every address of this machine.
        port: its port.

    Example:
        >>> page_url("127.0.0.1", 8000), page_url("::1", 8000)
        ('http://127.0.0.1:8000/', 'http://[::1]:8000/')
    """
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"
