from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from starlette.datastructures import Headers
from starlette.types import Message

from tests.model.server.uploads import send
from upcl.core.errors import UserError
from upcl.model.learner import Learner
from upcl.model.server.access import check_token, is_foreign, read_token
from upcl.model.server.app import make_app

pytestmark = pytest.mark.filterwarnings("ignore")

HOST = ("host", "127.0.0.1:8000")
EVIL = ("origin", "https://evil.example")
BAD_HOSTS = [
    "evil.example", "evil.example:", "evil.example:80", "", ":8000", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536",
    "127.0.0.1:99999999999", "127.0.0.1:8000:", "127.0.0.1:x", "127.0.0.1:+80", "127.0.0.1.evil.example", "127.1",
    "user@127.0.0.1", "127.0.0.1@evil.example", "127.0.0.1, evil.example", "127.0.0.1/evil", "evil.example#localhost",
    "evil.example?localhost", "evil.example\\@localhost", "localhost.", "localhost:80\t", "::1", "[::1", "::1]",
    "[::1]x", "[127.0.0.1]", "[::1%lo]", "[::2]", "[]", "[:]", "0.0.0.0", "\xb9\xb2\xb7.0.0.1",
]  # fmt: skip


def status_without_body(learner: Learner, *headers: tuple[str, str], token: str | None = None) -> int:
    """The status of an upload whose body must not be read."""

    async def receive() -> Message:
        raise AssertionError("the body was read")

    messages: list[Message] = []

    async def collect(message: Message) -> None:
        messages.append(message)

    given = [*headers, ("content-type", "multipart/form-data; boundary=b"), ("content-length", "1000")]
    scope = {"type": "http", "method": "POST", "path": "/api/predict", "query_string": b"", "scheme": "http"}
    scope |= {"headers": [(name.encode(), value.encode("latin-1")) for name, value in given]}
    scope |= {"server": ("127.0.0.1", 8000)}
    asyncio.run(make_app(learner, token)(scope, receive, collect))
    return int(messages[0]["status"])


@pytest.mark.parametrize("host", BAD_HOSTS)
def test_without_a_token_only_loopback_hosts_are_served(host: str, learner: Learner) -> None:
    """A page of another site that points its name at 127.0.0.1 (DNS rebinding) gets nothing, whatever the name."""
    assert status_without_body(learner, ("host", host)) == 403


def test_a_missing_or_repeated_host_is_refused(learner: Learner) -> None:
    assert status_without_body(learner) == status_without_body(learner, HOST, HOST) == 403


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:8000", "127.9.8.7", "[::1]:65535", "localhost", "LocalHost:1"]
)
def test_loopback_hosts_are_served(host: str, client: TestClient) -> None:
    assert client.get("/api/model", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/health", "/openapi.json", "/api/model", "/no-such-path"])
def test_no_path_is_open_to_rebinding(path: str, client: TestClient) -> None:
    response = client.get(path, headers={"Host": "evil.example"})
    assert response.status_code == 403
    assert response.json()["detail"] == "without a token, only this machine is served, not evil.example"


@pytest.mark.parametrize(
    "headers",
    [
        [EVIL],
        [("origin", "null")],
        [("origin", "")],
        [("origin", "http://127.0.0.1:8001")],
        [("origin", "http://127.0.0.1:8000.evil.example")],
        [("origin", "ftp://127.0.0.1:8000")],
        [("origin", "http://127.0.0.1:8000"), EVIL],
        [("sec-fetch-site", "cross-site")],
        [("sec-fetch-site", "same-site")],
        [("sec-fetch-site", "")],
        [("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")],
        [("sec-fetch-site", "cross-site"), ("origin", "http://127.0.0.1:8000")],
    ],
    ids=str,
)
@pytest.mark.parametrize("token", [None, "secret"])
def test_pages_of_other_origins_are_refused_before_the_body_is_read(
    headers: list[tuple[str, str]], token: str | None, learner: Learner
) -> None:
    assert status_without_body(learner, HOST, ("authorization", "Bearer secret"), *headers, token=token) == 403


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://127.0.0.1:8000"},
        {"Origin": "https://127.0.0.1:8000"},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://behind-a-proxy.example"},
    ],
    ids=str,
)
def test_the_own_page_and_programs_are_served(headers: dict[str, str], client: TestClient, photo: bytes) -> None:
    response = send(client, ("a.png", photo), Host="127.0.0.1:8000", **headers)
    assert response.status_code == 200


def test_an_origin_never_equals_a_malformed_host() -> None:
    assert is_foreign(Headers({"Host": "", "Origin": "http://"}))
    assert is_foreign(Headers({"Host": "x:", "Origin": "http://x:"}))


def test_other_sites_may_link_to_the_page_but_not_use_it(client: TestClient) -> None:
    foreign = {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}
    assert client.get("/", headers=foreign).status_code == 200
    assert client.post("/", headers=foreign).status_code == 405
    preflight = client.options("/api/predict", headers={**foreign, "Access-Control-Request-Method": "POST"})
    assert preflight.status_code == 403 and "access-control-allow-origin" not in preflight.headers


@pytest.mark.parametrize("given", [[], ["Bearer wrong"], ["secret"], ["Basic secret"], ["Bearer secret"] * 2])
def test_the_token_is_required_before_the_body_is_read(given: list[str], learner: Learner) -> None:
    headers = [("authorization", value) for value in given]
    assert status_without_body(learner, HOST, *headers, token="secret") == 401


def test_all_but_the_open_paths_need_the_token(learner: Learner) -> None:
    guarded = TestClient(make_app(learner, token="secret"))
    assert [guarded.get(path).status_code for path in ("/", "/health", "/openapi.json")] == [200] * 3
    closed = ("/api/model", "//api/model", "/api/model/", "/API/model", "/health/", "/docs")
    assert [guarded.get(path, follow_redirects=False).status_code for path in closed] == [401] * 6


def test_a_token_can_be_sent_in_a_header(tmp_path: Path) -> None:
    assert check_token(" a-b_c~! \n") == "a-b_c~!" and check_token("") == ""
    for token in ("two words", "caf\u00e9", "a\x1b[2Jb", "x" * 1025):
        with pytest.raises(UserError, match="visible ASCII characters"):
            check_token(token)
    path = tmp_path / "token"
    path.write_bytes(b"secret\r\n")
    assert read_token(path) == "secret"
    path.write_bytes(b"\n")
    with pytest.raises(UserError, match="is empty: write a token into it"):
        read_token(path)
    with pytest.raises(UserError, match="visible ASCII characters"):
        read_token(Path("/dev/zero"))
