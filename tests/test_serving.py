"""The service: its answers, its limits, and its page in a browser."""

from __future__ import annotations

import asyncio
import base64
import io
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from fastapi.testclient import TestClient
from PIL import Image
from starlette.types import Message

from upcl.cli import main
from upcl.data.io.images import read_square
from upcl.model.learner import Learner
from upcl.model.server.app import (
    AT_ONCE,
    MOST_BYTES,
    MOST_IMAGES,
    MOST_NAMES,
    Service,
    address_of,
    is_this_machine,
    make_app,
)

from .browser import browser, needs_chromium, requested
from .test_models import model, photos
from .test_page import wait_for

__all__ = ["model", "photos"]
pytestmark = pytest.mark.filterwarnings("ignore")
HERE = "http://127.0.0.1"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>window.evil = 1</script></svg>'


@pytest.fixture(scope="module")
def client(model: Path) -> TestClient:
    return TestClient(make_app(Learner(model)), base_url=HERE)


def bomb() -> bytes:
    """200 megapixels in a small file."""
    buffer = io.BytesIO()
    Image.new("1", (20_000, 10_000)).save(buffer, "PNG")
    return buffer.getvalue()


def sent(client: TestClient, *contents: tuple[str, bytes], **headers: str) -> Any:
    return client.post("/api/predict", files=[("images", content) for content in contents], headers=headers)


def test_answers_are_the_models(client: TestClient, model: Path, photos: Path) -> None:
    path = photos / "first" / "kind 0" / "3.png"
    (answer,) = sent(client, ("a.png", path.read_bytes())).json()
    (ours,) = Learner(model).answers(torch.from_numpy(read_square(path, 8, 3))[None])
    assert answer["name"] == ours.name and answer["known"] == ours.known
    assert [guess["name"] for guess in answer["top"]] == list(ours.names)
    assert [guess["confidence"] for guess in answer["top"]] == pytest.approx(list(ours.confidence), abs=1e-5)
    assert len(answer["nearest"]) == 3
    assert answer["nearest"][0]["image"].startswith("data:image/png;base64,")
    base64.b64decode(answer["nearest"][0]["image"].partition(",")[2], validate=True)


def test_bad_images_are_told_and_do_not_stop_the_others(client: TestClient, photos: Path) -> None:
    good = (photos / "first" / "kind 0" / "3.png").read_bytes()
    answers = sent(client, ("x.svg", SVG), ("text.jpg", b"words"), ("big.png", bomb()), ("good.png", good)).json()
    assert [bool(answer["error"]) for answer in answers] == [True, True, True, False]
    assert "pixels" in answers[2]["error"]


def test_limits(client: TestClient) -> None:
    assert sent(client, *[("a", b"x")] * (MOST_IMAGES + 1)).status_code == 413
    assert sent(client, ("a", b"x" * (MOST_BYTES + 1))).status_code == 413
    assert client.post("/api/predict").status_code == 422
    for top, status in ((0, 422), (1, 200), (MOST_NAMES, 200), (MOST_NAMES + 1, 422)):
        assert client.post(f"/api/predict?top={top}", files=[("images", b"x")]).status_code == status


def test_chunks_without_a_length_are_counted_too(client: TestClient) -> None:
    def chunks() -> Iterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="images"; filename="a"\r\n\r\n'
        for _ in range(MOST_BYTES // 2**20 + 2):
            yield b"x" * 2**20

    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    assert client.post("/api/predict", content=chunks(), headers=headers).status_code in (400, 413)


def test_what_arrives_too_slowly_is_refused(model: Path) -> None:
    hurried = TestClient(make_app(Learner(model), seconds=0.2))

    async def receive() -> Message:
        await asyncio.sleep(60)
        raise AssertionError

    said: list[Message] = []

    async def send(message: Message) -> None:
        said.append(message)

    headers = [(b"content-type", b"multipart/form-data; boundary=b"), (b"content-length", b"10")]
    scope = {"type": "http", "method": "POST", "path": "/api/predict", "headers": headers, "query_string": b""}

    async def ask() -> None:
        await hurried.app(scope, receive, send)

    asyncio.run(ask())
    assert said[0]["status"] == 408


def test_health_description_and_model(client: TestClient) -> None:
    assert client.get("/health").json() == {"status": "ok", "classes": 6}
    assert "/api/predict" in client.get("/openapi.json").json()["paths"]
    told = client.get("/api/model").json()
    assert told["classes"] == [f"kind {k}" for k in range(6)] and len(told["history"]) == 2


def test_a_token_is_asked_for(model: Path, photos: Path) -> None:
    guarded = TestClient(make_app(Learner(model), token="secret"))
    image = ("a.png", (photos / "first" / "kind 0" / "3.png").read_bytes())
    assert guarded.get("/health").status_code == 200
    assert guarded.get("/api/model").status_code == 401
    assert sent(guarded, image, Authorization="Bearer wrong").status_code == 401
    assert sent(guarded, image, Authorization="Bearer secret").status_code == 200
    assert sent(guarded, image, Authorization="bearer secret").status_code == 200, "schemes have no case"
    strange = guarded.get("/api/model", headers={b"Authorization": "Bearer \u00e9".encode("latin-1")})
    assert strange.status_code == 401
    told = guarded.get("/openapi.json").json()
    assert told["components"]["securitySchemes"] and {"401", "413", "503"} <= set(
        told["paths"]["/api/predict"]["post"]["responses"]
    )


def test_without_a_token_only_this_machine_may_call(model: Path) -> None:
    app = make_app(Learner(model))
    for host, wanted in (("http://[::1]", 200), ("http://localhost", 200), ("http://evil.example", 403)):
        assert TestClient(app, base_url=host).get("/api/model").status_code == wanted
    assert [TestClient(app).head(path).status_code for path in ("/", "/health")] == [200, 200]
    assert [is_this_machine(host) for host in ("127.0.0.1", "127.1", "::1", "0.0.0.0", "x")] == [
        True,
        False,
        True,
        False,
        False,
    ]


def test_elsewhere_a_token_is_made_up_also_for_an_empty_one(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = []
    monkeypatch.setattr("uvicorn.Server.run", lambda server, **_: served.append(server.config.app))
    done = CliRunner().invoke(main, ["serve", str(model), "--host", "0.0.0.0", "--port", "0", "--token", ""])
    assert done.exit_code == 0 and "token for callers: " in done.output
    assert TestClient(served[0], base_url=HERE).get("/api/model").status_code == 401
    local = CliRunner().invoke(main, ["serve", str(model), "--port", "0"])
    assert "open http://127.0.0.1:" in local.output and "token" not in local.output


def test_where_the_page_is_told_to_be() -> None:
    assert address_of("::1", 80) == "http://[::1]:80/" and address_of("x.org", 80) == "http://x.org:80/"
    assert address_of("0.0.0.0", 80) == address_of("::", 80) == f"http://{socket.gethostname()}:80/"


def test_a_port_that_is_taken_is_told(model: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = CliRunner().invoke(main, ["serve", str(model), "--port", str(taken.getsockname()[1])])
    assert done.exit_code == 2 and "in use" in done.output and "open http" not in done.output


def test_who_gives_up_keeps_the_turn_until_the_work_is_done(model: Path, photos: Path) -> None:
    service = Service(Learner(model))
    inside, most = [0], [0]
    real = service._name

    def slow(contents: list[tuple[str, bytes]], top: int) -> Any:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.05)
        inside[0] -= 1
        return real(contents, top)

    service._name = slow  # type: ignore[method-assign]
    content = ("a.png", (photos / "first" / "kind 0" / "3.png").read_bytes())
    with ThreadPoolExecutor(8) as pool:
        assert all(list(pool.map(lambda _: service.name([content], 1), range(8))))
    assert most[0] <= AT_ONCE


@pytest.fixture(scope="module")
def address(model: Path) -> Iterator[str]:
    """Of a service in a process of its own, which Ctrl-C ends without a word."""
    command = [sys.executable, "-m", "upcl", "serve", str(model), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        url = process.stdout.readline().split()[1].rstrip("/")
        urllib.request.urlopen(f"{url}/health", timeout=60).close()
        yield url
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=20) == ("", "") and process.returncode == 0


def test_fifty_at_once_are_all_answered(address: str, photos: Path) -> None:
    import httpx2 as httpx

    content = (photos / "first" / "kind 0" / "3.png").read_bytes()

    def ask(_: int) -> int:
        return httpx.post(f"{address}/api/predict", files={"images": ("a.png", content)}, timeout=60).status_code

    with ThreadPoolExecutor(50) as pool:
        assert list(pool.map(ask, range(50))) == [200] * 50


DROP = """
const [name, type, content] = arguments, bytes = Uint8Array.from(atob(content), (c) => c.charCodeAt(0));
const data = new DataTransfer(); data.items.add(new File([bytes], name, { type }));
const event = new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true });
document.getElementById('drop').dispatchEvent(event);
"""


@needs_chromium
@pytest.mark.parametrize("width", [1280, 390], ids=["desktop", "phone"])
def test_the_page_names_what_is_dropped_on_it(address: str, photos: Path, tmp_path: Path, width: int) -> None:
    path = photos / "first" / "kind 0" / "3.png"
    with browser(tmp_path / "profile", width) as driver:
        driver.get(address)
        wait_for(lambda: len(driver.find_elements("css selector", "#classes li")) == 6)
        driver.execute_script(DROP, "a.png", "image/png", base64.b64encode(path.read_bytes()).decode())
        answer = wait_for(lambda: driver.find_elements("css selector", ".answer .bar"))
        assert "kind" in answer[0].text
        assert len(driver.find_elements("css selector", ".near img")) == 3
        bad = (("x.svg", "image/svg+xml", SVG), ("words.jpg", "image/jpeg", b"words"), ("b.png", "image/png", bomb()))
        for num, (name, kind, content) in enumerate(bad, 1):
            driver.execute_script(DROP, name, kind, base64.b64encode(content).decode())
            wait_for(lambda num=num: len(driver.find_elements("css selector", ".answer .error")) == num)  # type: ignore[misc]
        driver.find_element("css selector", "#file").send_keys(str(path))
        wait_for(lambda: len(driver.find_elements("css selector", ".answer .bar")) > len(answer))
        assert driver.execute_script("return window.evil") is None
        assert [entry for entry in driver.get_log("browser") if "favicon" not in entry["message"]] == []
        assert all(url.startswith(address) for url in requested(driver))
        assert driver.find_elements("css selector", "#curve circle")
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
        driver.save_screenshot(str(tmp_path / "page.png"))
