from __future__ import annotations

import socket

import pytest

from upcl.core.errors import UserError
from upcl.model.server.addresses import is_loopback, listen, network_of, page_url, parse_host


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.1", False), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("x", False)],
)
def test_only_loopback_addresses_always_stand_for_this_machine(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_the_url_of_the_page_can_be_opened_in_a_browser() -> None:
    assert page_url("::1", 80) == "http://[::1]:80/" and page_url("x.org", 80) == "http://x.org:80/"
    assert page_url("0.0.0.0", 80) == page_url("::", 80) == f"http://{socket.gethostname()}:80/"


def test_the_host_of_a_request_is_read_strictly() -> None:
    """`test_access.py` has many that are refused."""
    assert parse_host("Example.org:8000") == "example.org" and parse_host("[2001:DB8::1]:80") == "2001:db8::1"
    assert [parse_host(header) for header in ("example.org:", "a b", "[::1", "x\n", "x:1e3")] == [None] * 5


def test_a_client_is_an_ipv4_address_or_an_ipv6_network() -> None:
    assert network_of("192.0.2.1") != network_of("192.0.2.2")
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:1") == network_of("2001:db8::1%eth0")
    assert network_of("2001:db8::1") != network_of("2001:db8:0:1::1")


ODD = [
    "",
    " ",
    "a b",
    "*",
    "http://x",
    "[::1]",
    "<broadcast>",
    "a" * 64,
    "a..b",
    "\udcff",
    "x\0y",
    "\x1b[2J",
    "..",
    "::1::",
]


@pytest.mark.parametrize("host", [*ODD, "1.2.3.4.5", "127.0.0.1:80"])
def test_odd_hosts_are_refused_in_one_printable_line(host: str) -> None:
    with pytest.raises(UserError, match=r"choose another --host$|is neither a host name nor an IP address$") as caught:
        listen(host, 0)
    assert str(caught.value).isprintable()


def test_a_port_in_use_is_an_error() -> None:
    with listen("127.0.0.1", 0) as first, pytest.raises(UserError, match="in use; choose another --port"):
        listen("127.0.0.1", first.getsockname()[1])
