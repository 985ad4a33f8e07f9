"""Images that a service must survive."""

from __future__ import annotations

import functools
import io
from typing import Any

from fastapi.testclient import TestClient
from PIL import Image

SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>window.evil = 1</script></svg>'


@functools.cache
def decompression_bomb() -> bytes:
    """200 megapixels in a small file."""
    buffer = io.BytesIO()
    Image.new("1", (20_000, 10_000)).save(buffer, "PNG")
    return buffer.getvalue()


def send(client: TestClient, *files: tuple[str, bytes], **headers: str) -> Any:
    return client.post("/api/predict", files=[("images", file) for file in files], headers=headers)
