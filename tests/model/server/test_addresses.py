from __future__ import annotations

import socket

import pytest

from upcl.model.server.addresses import is_loopback, page_url


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.1", False), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("x", False)],
)
def test_only_loopback_addresses_always_stand_for_this_machine(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_the_url_of_the_page_can_be_opened_in_a_browser() -> None:
    assert page_url("::1", 80) == "http://[::1]:80/" and page_url("x.org", 80) == "http://x.org:80/"
    assert page_url("0.0.0.0", 80) == page_url("::", 80) == f"http://{socket.gethostname()}:80/"
