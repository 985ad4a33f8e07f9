"""A model that is taught photo by photo: every change is learned and saved at once."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from upcl.core.errors import UserError
from upcl.core.progress import logger
from upcl.data.io.listing import ImageFile, counted
from upcl.model.bundle import Bundle
from upcl.model.hold_out import MIN_HELD_OUT_FROM, split_by_digest
from upcl.model.intake import NewImages
from upcl.model.photo_changes import PhotoChange, Step, change_photos
from upcl.model.quick_steps import Known

from .settling import SettlingModel
from .workspace import StoredPhoto, clean_name

QUIET_SECONDS = 10.0  # without a change, after which a quick step is settled
FEW_CHANGES = 20  # photos in one step that is quick
MANY_PHOTOS = 300  # a model of fewer chooses everything again for a new class, which is quick enough
LOW_PRIORITY = 15  # of work in the background, so that clicks do not wait for it
UPLOAD_SECONDS = 5.0  # without a photo, after which an upload is taken as interrupted


class Teacher(SettlingModel):
    """A model and the photos that it is taught with. Threads may share it: one change at a time.

    Args:
        path: the `.upcl` file; it is created with the first labelled photos.
        device: where to compute.

    Example:
        >>> teacher = Teacher(Path("birds.upcl"))  # doctest: +SKIP
        >>> photo = teacher.add("robin.jpg", Path("robin.jpg").read_bytes())  # doctest: +SKIP
        >>> teacher.label([photo.digest], "robin")  # doctest: +SKIP
    """

    def __init__(self, path: Path, device: str = "auto") -> None:
        super().__init__(path, device)
        self._added = time.monotonic()

    # teaching

    def add(self, file: str, content: bytes, max_pixels: int | None = None, intended: str | None = None) -> StoredPhoto:
        """Store a photo without a label; its features are computed by `extract`.

        Args:
            file: its name.
            content: the content of the file.
            max_pixels: reject larger images.
            intended: the class that it is given for; `label_intended` labels it if `label` is never called.

        Raises:
            BrokenImageError: if it is not an image that can be read.
        """
        photo = self.workspace.add(file, content, max_pixels, None if intended is None else clean_name(intended))
        with self._lock:
            self._version += 1
            self._added = time.monotonic()
            return photo

    def label_intended(self) -> None:
        """Label the photos whose upload for a class was interrupted before its end."""
        waiting: dict[str, list[str]] = {}
        for photo in list(self.workspace.photos.values()):
            if photo.intended is not None and photo.digest in self._features:
                waiting.setdefault(photo.intended, []).append(photo.digest)
        for name, digests in waiting.items():
            self.label(digests, name)

    def label(self, digests: Sequence[str], name: str | None) -> None:
        """Say what photos show, or that they have no label. Unknown names make new classes.

        Of five new photos or more, a fifth is held out to measure accuracy; fewer are all learned from.

        Args:
            digests: the photos.
            name: their class; "none of these" is a class, too; None takes the label away.

        Raises:
            UserError: if a photo is unknown, or the name cannot be one.
        """
        name = None if name is None else clean_name(name)
        with self._lock:
            labels = self.labels()
            chosen = list(dict.fromkeys(digests))
            known = [d for d in chosen if d in labels and labels[d][0] != name]
            new = [d for d in chosen if d not in labels] if name is not None else []
            self.workspace.intend(chosen, None)
            features = dict(zip(new, self.features(new), strict=True)) if new else {}
            if not known and not new:
                return
            held_out = self._held_out(new)
            changes = [PhotoChange(d, name) for d in known]
            changes += [PhotoChange(d, name, features[d], d in held_out) for d in new]
            note = f"{counted(len(changes), 'photo')}: " + ("no label" if name is None else f"'{name}'")
            if self.learner.bundle is None:
                self._begin(name or "", new, held_out, note)
            else:
                familiar = name in (None, *self.learner.classes) or len(labels) >= MANY_PHOTOS
                few = familiar and len(changes) <= FEW_CHANGES
                self._change(lambda bundle, known: self._apply(bundle, changes, note, known), quick=few)
            self.workspace.replace_planned(name, None)

    def _held_out(self, digests: Sequence[str]) -> set[str]:
        if len(digests) < MIN_HELD_OUT_FROM:
            return set()
        files = [ImageFile(Path(digest), "", "train", digest=digest) for digest in digests]
        return {file.digest for file in split_by_digest(files)[1]}

    def _begin(self, name: str, digests: Sequence[str], held_out: set[str], note: str) -> None:
        """Create the model."""
        parts = [[d for d in digests if d not in held_out], sorted(held_out)]
        offers = [self.features(part) if part else self.features(digests)[:0] for part in parts]
        names = [[name] * len(part) for part in parts]
        new = NewImages(offers[0], names[0], offers[1], names[1], (parts[0], parts[1]))
        with self._changing():
            self.learner.learn_features(new, self.spec, note)
        self._settled, self._known = True, None

    def _apply(self, bundle: Bundle, changes: Sequence[PhotoChange], note: str, known: Known | None) -> Step | None:
        staying = self.labels().keys() - {change.digest for change in changes if change.name is None}
        if not staying and all(change.name is None for change in changes):
            return None  # the last photo: there is no model without one
        return change_photos(bundle, changes, note, self.learner.device, known)

    def plan_class(self, name: str) -> None:
        """Name a class that has no photo yet.

        Args:
            name: its name.

        Raises:
            UserError: if there is one already, or the name cannot be one.
        """
        name = clean_name(name)
        with self._lock:
            if name in (*self.learner.classes, *self.workspace.planned_classes):
                raise UserError(f"there is a class '{name}' already")
            self.workspace.replace_planned(None, name)
            self._version += 1

    def rename(self, name: str, new: str) -> None:
        """Give a class another name.

        Args:
            name: the present name.
            new: the new name.

        Raises:
            UserError: if there is a class of the new name, or none of the present one.
        """
        new = clean_name(new)
        with self._changing():
            if new in (*self.learner.classes, *self.workspace.planned_classes):
                raise UserError(f"there is a class '{new}' already: merge the two")
            if name in self.workspace.planned_classes:
                self.workspace.replace_planned(name, new)
            else:
                self.learner.rename(name, new)

    def merge(self, name: str, into: str) -> None:
        """Make one class of two.

        Args:
            name: the class that disappears.
            into: the class that gets its photos.
        """
        digests = self._photos_of(name)
        if not digests or into not in self.learner.classes:
            raise UserError(f"there is no class '{name if not digests else into}'")
        self.label(digests, into)

    def forget(self, name: str) -> None:
        """Remove a class, its photos on disk included. This cannot be undone.

        Args:
            name: the class.

        Raises:
            UserError: if it is unknown.
        """
        with self._changing():
            if name in self.workspace.planned_classes:
                self.workspace.replace_planned(name, None)
                return
            digests = self._photos_of(name)
            if self.learner.classes == [name]:
                self._remove_model()
            else:
                self.learner.forget(name)
            self._remove_photos(digests)
        self._known = None

    def discard(self, digests: Sequence[str]) -> None:
        """Delete photos from the disk, and from the model as if it had never seen them. This cannot be undone.

        Args:
            digests: the photos.
        """
        with self._lock:
            labels = self.labels()
            known = [digest for digest in digests if digest in labels]
            if known:
                changes = [PhotoChange(digest, None) for digest in known]
                note = f"{counted(len(known), 'photo')} removed"

                def removed(bundle: Bundle, known: Known | None) -> Step | None:
                    step = self._apply(bundle, changes, note, known)
                    return step and step._replace(bundle=step.bundle.without_earlier_states())

                self._change(removed, quick=len(known) <= FEW_CHANGES)
            self._remove_photos(digests)
            self._version += 1

    def _photos_of(self, name: str) -> list[str]:
        return [digest for digest, (found, _) in self.labels().items() if found == name]

    def _remove_photos(self, digests: Sequence[str]) -> None:
        self.workspace.remove(digests)
        for digest in digests:
            self._features.pop(digest, None)

    def confirm(self, digests: Sequence[str]) -> None:
        """Remember that the label of a photo is right, or that two photos may both stay although they are alike.

        Args:
            digests: one photo, or two.

        Raises:
            UserError: if a photo has no label.
        """
        with self._lock:
            labels = self.labels()
            if unknown := [digest for digest in digests if digest not in labels]:
                raise UserError(f"photo {unknown[0]} has no label")
            if len(digests) == 1:
                self.workspace.confirm((digests[0], labels[digests[0]][0]))
            else:
                self.workspace.confirm(tuple(sorted(digests)))
            self._version += 1

    # undoing

    def undo(self, step: int) -> None:
        """Take the last step back. Photos that got a label by it have none again.

        Args:
            step: number of the step, so that another step, made elsewhere in the meantime, is not taken back.

        Raises:
            UserError: if it is not the last step, or the state before it is not stored.
        """
        with self._lock:
            bundle = self.bundle
            if bundle is None or step != len(bundle.history) - 1:
                raise UserError("the model has changed in the meantime: look again before you undo")
            if not self.can_undo():
                raise UserError("the step cannot be undone: the state before it is not stored")
            with self._changing():
                if step == 0:
                    self._remove_model()
                else:
                    self.learner.rollback(step - 1)
            self._known = None

    def rollback(self, step: int) -> None:
        """Return to the state after an earlier step.

        Args:
            step: number of a step whose state is stored.
        """
        with self._changing():
            self.learner.rollback(step)
        self._known = None

    def can_undo(self) -> bool:
        """Whether the last step can be taken back."""
        bundle = self.bundle
        if bundle is None:
            return False
        last = len(bundle.history) - 1
        if last == 0:  # back to no model, if nothing is lost by it
            return all(digest in self.workspace.photos for digest in self.labels())
        return last - 1 in bundle.states

    # settling

    def settle_when_quiet(self, stop: threading.Event) -> None:
        """Work in the background until stopped: find what quick steps need, and settle them when nothing changes.

        Args:
            stop: ends the work.
        """
        with contextlib.suppress(AttributeError, OSError):  # on Linux, threads have priorities of their own
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOW_PRIORITY)
        while not stop.wait(0.5):
            try:
                if time.monotonic() - self._added >= UPLOAD_SECONDS:
                    self.label_intended()
                self._find_known()
                if time.monotonic() - self._changed >= QUIET_SECONDS:
                    self._settle_once()
            except Exception as error:  # the page goes on working with quick steps
                logger.warning("the classifier could not be settled: %s", error)
                self._settled = True
