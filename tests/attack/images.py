"""Hostile images, made here: every command that looks at images names what it cannot read and goes on."""

from __future__ import annotations

import io
import random
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image, PngImagePlugin

from .files import mutate
from .materials import learn_words, make_model, write_photos
from .trial import Result, Trial, Verdict, command, expect, run_forked

SIDES = (1, 2, 7, 33, 500, 3000, 7000)
EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(attack) (w) file closefile\nshowpage\n"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>'


def _saved(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png_bomb(rng: random.Random) -> bytes:
    """A small PNG of many pixels, or one that claims more pixels than it has."""
    width, height = rng.choice(((7000, 7000), (65_000, 1500), (1, 90_000_000), (60_000, 60_000), (2**31 - 1, 1)))
    depth, colour = rng.choice(((8, 6), (16, 0), (16, 6), (8, 2), (1, 3), (8, 4)))
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, rng.randrange(2))
    row = 1 + width * depth * {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour] // 8
    packer = zlib.compressobj(9)
    packed, missing = b"", min(row * height, 300_000_000)
    while missing > 0:
        packed += packer.compress(bytes(min(missing, 1 << 22)))
        missing -= 1 << 22
    palette = _chunk(b"PLTE", bytes(6)) if colour == 3 else b""
    parts = (_chunk(b"IHDR", header), palette, _chunk(b"IDAT", packed + packer.flush()), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def odd_mode(rng: random.Random) -> bytes:
    """An image of an unusual mode and size."""
    size = rng.choice(SIDES), rng.choice(SIDES[:5])
    mode, kind = rng.choice(
        [
            *(
                ("RGBA", "PNG"),
                ("LA", "PNG"),
                ("P", "PNG"),
                ("1", "PNG"),
                ("I;16", "PNG"),
                ("I", "TIFF"),
                ("F", "TIFF"),
            ),
            *(
                ("CMYK", "JPEG"),
                ("L", "JPEG"),
                ("RGBA", "WEBP"),
                ("P", "GIF"),
                ("1", "BMP"),
                ("LAB", "TIFF"),
                ("YCbCr", "TIFF"),
            ),
        ]
    )
    return _saved(Image.new(mode, size), kind)


def rle_bitmap(rng: random.Random) -> bytes:
    """A run-length encoded BMP of many pixels in a few bytes."""
    width, height = rng.choice(((49_000_000, 1), (1, 49_000_000), (9000, 9000), (40, 30)))
    header = struct.pack("<3I2H6I", 40, width, height, 1, 8, 1, 0, 2835, 2835, 256, 0)
    body = rng.choice((b"\x01\x05\x00\x00\x00\x01", b"\x00\x02\xff\xff" * 40, b"\xff\x05" * 40, rng.randbytes(60)))
    start = 14 + len(header) + 4 * 256
    return struct.pack("<2sI2HI", b"BM", start + len(body), 0, 0, start) + header + bytes(4 * 256) + body


def not_finite(rng: random.Random) -> bytes:
    """A TIFF of floating-point numbers that are not finite."""
    values = np.full((40, 40), rng.choice((np.nan, np.inf, -np.inf, 1e38, -5.0)), np.float32)
    values[0, 0] = rng.random()
    return _saved(Image.fromarray(values), "TIFF")


def text_bomb(rng: random.Random) -> bytes:
    """A PNG with a compressed text of many megabytes."""
    info = PngImagePlugin.PngInfo()
    info.add_text("comment", "a" * rng.choice((10, 2_000_000, 60_000_000)), zip=True)
    return _saved(Image.new("RGB", (8, 8)), "PNG", pnginfo=info)


def odd_exif(rng: random.Random) -> bytes:
    """A JPEG with random EXIF data and an orientation that does not exist."""
    exif = Image.Exif()
    exif[274] = rng.choice((0, 3, 6, 8, 9, 65535))
    body = exif.tobytes()
    return _saved(Image.new("RGB", (50, 20), "red"), "JPEG", exif=mutate(rng, body) if rng.random() < 0.5 else body)


def many_frames(rng: random.Random) -> bytes:
    """An animation."""
    frames = [Image.new("P", (rng.choice((8, 300)), 200), number % 255) for number in range(rng.choice((2, 200)))]
    return _saved(frames[0], "GIF", save_all=True, append_images=frames[1:], loop=0)


def not_an_image(rng: random.Random) -> bytes:
    """A file of another kind with the name of an image."""
    return rng.choice(
        (EPS, SVG, b"", b"\0", b"GIF89a", rng.randbytes(5000), b"\xff\xd8\xff" + rng.randbytes(300), b"RIFF")
    )


def damaged(rng: random.Random) -> bytes:
    """A photo with damaged bytes."""
    noise = np.frombuffer(rng.randbytes(3 * 64 * 48), np.uint8).reshape(48, 64, 3)
    return mutate(rng, _saved(Image.fromarray(noise), rng.choice(("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF"))))


CORPUS: list[Callable[[random.Random], bytes]] = [
    *(png_bomb, odd_mode, rle_bitmap, not_finite, text_bomb, odd_exif, many_frames, not_an_image, damaged, damaged)
]


def hostile_image(rng: random.Random) -> bytes:
    """Any of the images above."""
    return rng.choice(CORPUS)(rng)


def _look(rng: random.Random, folder: Path) -> Result:
    write_photos(folder)
    suffixes = (".jpg", ".png", ".tif", ".gif", ".webp", ".bmp")
    for number in range(rng.randint(1, 4)):
        (folder / "first" / "kind 1" / f"hostile{number}{rng.choice(suffixes)}").write_bytes(hostile_image(rng))
    (folder / "m.upcl").write_bytes(make_model("upcl").read_bytes())
    words = rng.choice(
        (["predict", "--model", "m.upcl", "first"], ["data", "check", "first"], learn_words("first", "upcl"))
    )
    if words[0] == "learn":
        (folder / "m.upcl").unlink()
    verdict = run_forked(command(*words), folder).verdict()
    expect(not (folder / "attack").exists(), "an image was executed")
    expect(words[0] != "learn" or verdict is Verdict.RIGHT, "hostile images among good ones stop learning")
    return verdict


def trials() -> dict[str, Trial]:
    """The kind of this module."""
    return {"image": _look}
