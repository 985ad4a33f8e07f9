"""The folder next to a model with the photos that were given to the page, each stored once by its content."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import json
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upcl.core.errors import UserError
from upcl.core.files import parse_json, write_atomic
from upcl.core.text import printable
from upcl.data.io.images import IMAGE_SUFFIXES, open_image
from upcl.model.photo_features import DIGEST_DIGITS
from upcl.model.pictures import encode_picture

MAX_NAME = 200  # characters of a file name or a class that are kept


@dataclass(frozen=True)
class StoredPhoto:
    """A photo in a workspace.

    Attributes:
        digest: the first digits of the SHA-256 of its content, as models store them.
        file: the name that it was given with, perhaps with folders, for people to read.
        path: where it is stored.
        intended: the class that it was given for, until it is learned; None if there is none.

    Example:
        >>> StoredPhoto("0123456789abcdef", "holiday/7.jpg", Path("birds.photos/0123456789abcdef.jpg")).file
        'holiday/7.jpg'
    """

    digest: str
    file: str
    path: Path
    intended: str | None = None


class Workspace:
    """Photos in a folder. Each is complete on disk before it is listed, so a crash loses at most the one in flight.

    Args:
        folder: the folder; it is created with the first photo.

    Raises:
        UserError: if something else is in the way.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from upcl.data.io.images import encode_png
        >>> workspace = Workspace(Path(tempfile.mkdtemp()) / "birds.photos")
        >>> photo = workspace.add("robin.png", encode_png(np.zeros((3, 40, 40), np.uint8)))
        >>> [stored.file for stored in Workspace(workspace.folder).photos.values()]
        ['robin.png']
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder} is in the way: the photos of the page are kept there; rename it")
        self._lock = threading.Lock()
        lines = self._read_lines()
        self.photos: dict[str, StoredPhoto] = {}
        order = {digest: number for number, digest in enumerate(lines)}
        for path in sorted(folder.glob("*"), key=lambda path: (order.get(path.stem, len(order)), path.name)):
            if len(path.stem) == DIGEST_DIGITS and path.suffix in IMAGE_SUFFIXES:
                file, intended = lines.get(path.stem, (path.name, None))
                self.photos[path.stem] = StoredPhoto(path.stem, file, path, intended)

    def add(self, file: str, content: bytes, max_pixels: int | None = None, intended: str | None = None) -> StoredPhoto:
        """Store a photo; one that is there already is not stored again.

        Args:
            file: its name, which is shown only.
            content: the content of the file.
            max_pixels: reject larger images.
            intended: the class that it is given for, which outlives a crash.

        Raises:
            BrokenImageError: if it is not an image that can be read.
        """
        digest = hashlib.sha256(content).hexdigest()[:DIGEST_DIGITS]
        with self._lock:
            known = self.photos.get(digest)
        if known is not None:
            if intended is not None:
                self.intend([digest], intended)
            return known
        with open_image(io.BytesIO(content), lambda width, height: min(width, height), max_pixels):
            suffix = Path(file).suffix.lower()
        path = self.folder / f"{digest}{suffix if suffix in IMAGE_SUFFIXES else '.jpg'}"
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, content)
        photo = StoredPhoto(digest, printable(file)[-MAX_NAME:] or path.name, path, intended)
        self._record([photo])
        return photo

    def intend(self, digests: Sequence[str], intended: str | None) -> None:
        """Note the class that photos were given for, or that there is nothing left to do for them.

        Args:
            digests: the photos; those that are not here are left out.
            intended: the class; None once they are learned.
        """
        found = [photo for digest in digests if (photo := self.photos.get(digest)) and photo.intended != intended]
        if found:
            self._record([dataclasses.replace(photo, intended=intended) for photo in found])

    def _record(self, photos: Sequence[StoredPhoto]) -> None:
        """Add photos to the list on disk; later lines about a photo replace earlier ones."""
        with self._lock, (self.folder / "names.jsonl").open("a", encoding="utf-8") as lines:
            lines.writelines(map(_line, photos))
            lines.flush()
            os.fsync(lines.fileno())
            self.photos |= {photo.digest: photo for photo in photos}

    def remove(self, digests: Sequence[str]) -> None:
        """Delete photos and their pictures from the disk, and their names.

        Args:
            digests: the photos; those that are not here are left out.
        """
        with self._lock:
            for digest in digests:
                if (photo := self.photos.pop(digest, None)) is not None:
                    photo.path.unlink(missing_ok=True)
                    self._picture_path(digest).unlink(missing_ok=True)
            if self.folder.is_dir():
                write_atomic(self.folder / "names.jsonl", "".join(map(_line, self.photos.values())).encode())
                self._write_confirmed({entry for entry in self.confirmed if not {*entry} & {*digests}})

    def picture(self, digest: str) -> bytes:
        """A small JPEG picture of a photo, made once.

        Args:
            digest: of a photo that is there.

        Raises:
            BrokenImageError: if the photo can no longer be read.
        """
        path = self._picture_path(digest)
        with contextlib.suppress(OSError):
            return path.read_bytes()
        content = encode_picture(self.photos[digest].path)
        path.parent.mkdir(exist_ok=True)
        write_atomic(path, content)
        return content

    @property
    def planned_classes(self) -> list[str]:
        """Classes that were named, but have no photo yet."""
        return [name for name in self._read_list("classes.json") if isinstance(name, str)]

    def replace_planned(self, name: str | None, new: str | None) -> None:
        """Name a class that has no photo yet, rename it, or drop it; nothing happens if there is none of that name.

        Args:
            name: its present name; None for a new class.
            new: its new name; None drops it.
        """
        planned = self.planned_classes
        if name is not None and name not in planned:
            return
        kept = [new if found == name else found for found in planned] + ([new] if name is None else [])
        self.folder.mkdir(parents=True, exist_ok=True)
        names = [found for found in kept if found is not None]
        write_atomic(self.folder / "classes.json", json.dumps(names).encode())

    @property
    def confirmed(self) -> set[tuple[str, ...]]:
        """What a person has found to be right: a photo with its class, or two photos that may both stay."""
        entries = [entry for entry in self._read_list("confirmed.json") if isinstance(entry, list)]
        return {tuple(entry) for entry in entries if all(isinstance(part, str) for part in entry)}

    def confirm(self, entry: tuple[str, ...]) -> None:
        """Remember that something is right.

        Args:
            entry: a photo and its class, or two photos.
        """
        with self._lock:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._write_confirmed({*self.confirmed, entry})

    def _write_confirmed(self, entries: set[tuple[str, ...]]) -> None:
        write_atomic(self.folder / "confirmed.json", json.dumps(sorted(entries)).encode())

    def _picture_path(self, digest: str) -> Path:
        return self.folder / "pictures" / f"{digest}.jpg"

    def _read_list(self, file: str) -> list[Any]:
        try:
            found = parse_json((self.folder / file).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return []
        return found if isinstance(found, list) else []

    def _read_lines(self) -> dict[str, tuple[str, str | None]]:
        """Name and intended class by digest; a line that was cut off by a crash is left out."""
        found: dict[str, tuple[str, str | None]] = {}
        with contextlib.suppress(OSError):
            for line in (self.folder / "names.jsonl").read_text(encoding="utf-8", errors="replace").splitlines():
                with contextlib.suppress(ValueError, TypeError):
                    digest, file, *intended = parse_json(line)
                    name = intended[0] if intended and isinstance(intended[0], str) else None
                    found[str(digest)] = printable(str(file))[-MAX_NAME:], name
        return found


def _line(photo: StoredPhoto) -> str:
    return json.dumps([photo.digest, photo.file, *([photo.intended] if photo.intended else [])]) + "\n"


def clean_name(name: str) -> str:
    """A name of a class as it was typed, without spaces around it.

    Args:
        name: what was typed.

    Raises:
        UserError: if it is empty, too long, or cannot be printed.

    Example:
        >>> clean_name("  robin ")
        'robin'
    """
    name = " ".join(name.split())
    if not name:
        raise UserError("a class needs a name")
    if len(name) > MAX_NAME or printable(name) != name:
        raise UserError(f"the name of a class has at most {MAX_NAME} characters, all of them printable")
    return name
