"""Host names and addresses: which stand for this machine, where to listen, and the URL of the page."""

from __future__ import annotations

import errno
import ipaddress
import re
import socket

from upcl.core.errors import UserError

_AUTHORITY = re.compile(r"([a-z0-9.-]+|\[[0-9a-f.]*:[0-9a-f:.]*\])(?::([0-9]{1,5}))?", re.ASCII | re.IGNORECASE)


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


def parse_host(header: str) -> str | None:
    """Return the host that the `Host` header of a request names.

    Args:
        header: a name or an address, with or without a port.

    Returns:
        The host in lower case, without brackets; None for anything that a browser would not send.

    Example:
        >>> [parse_host(header) for header in ("localhost:8000", "[::1]", "evil.example:", "user@localhost", "")]
        ['localhost', '::1', None, None, None]
    """
    match = _AUTHORITY.fullmatch(header)
    if not match or not 0 < int(match[2] or 80) < 2**16:
        return None
    return match[1].strip("[]").lower()


def network_of(address: str) -> str:
    """Return what belongs to the same client as an address: itself, or for IPv6 the network of its first 64 bits.

    Args:
        address: an IP address.

    Example:
        >>> network_of("192.0.2.7"), network_of("2001:db8::7") == network_of("2001:db8::8")
        ('192.0.2.7', True)
    """
    return address if ":" not in address else str(ipaddress.IPv6Interface(f"{address.partition('%')[0]}/64").network)


def listen(host: str, port: int) -> socket.socket:
    """Open a socket that accepts connections.

    Args:
        host: a name or an address of this machine.
        port: the port; 0 picks a free one.

    Raises:
        UserError: if the host is not one of this machine, or the port is taken.

    Example:
        >>> with listen("127.0.0.1", 0) as listener:
        ...     listener.getsockname()[0]
        '127.0.0.1'
    """
    try:
        if not re.fullmatch(r"[\w.:%-]+", host):  # some other texts have a meaning of their own in Python
            raise UnicodeError
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        reason = str(error.strerror).partition(" (while ")[0]
        option = "--port" if error.errno in (errno.EADDRINUSE, errno.EACCES) else "--host"
        raise UserError(f"cannot listen on {host!r} port {port}: {reason}; choose another {option}") from None
    except (UnicodeError, TypeError):
        raise UserError(f"--host {host!r} is neither a host name nor an IP address") from None


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
