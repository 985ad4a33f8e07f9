"""The growing model: learn folders of images, add classes later, predict what is in a picture."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from upcl.core.errors import UserError, unknown_choice
from upcl.core.progress import logger
from upcl.core.seeding import preserve_rng_state
from upcl.data.io.decoding import decode_images
from upcl.data.io.listing import FolderListing, ImageFile, list_image_files
from upcl.data.io.paths import printable_path
from upcl.data.io.scan import inspect_files, report_on
from upcl.methods import Method
from upcl.training.environment import select_device

from .bundle import Bundle, ModelSpec, ModelState
from .editing import merge_classes, move_photo, remove_photo, rename_class
from .extractor import extract_images, feature_extractor
from .feature_spec import feature_spec
from .file import ModelFileError
from .forgetting import forget_class
from .hold_out import note_untrained_classes, split_files
from .intake import NewImages
from .options import LearnOptions, scratch_reason, works_on_features
from .photo_features import extract_photos, photo_digest, typical_side
from .photo_sides import Division, decides_sides, division_of, undivided
from .pictures import with_pictures
from .plan import check_options, plan_update, work_folder
from .predictor import Predictor
from .spec import choose_image_shape, make_method, restore_state
from .store import ModelStore
from .update import EpochCallback, apply_update, remove_work_folder


class Learner(ModelStore):
    """A growing model in a file.

    Args:
        path: the `.upcl` file; it is created by the first call of `learn`.
        device: `auto`, `cpu`, `cuda`, `cuda:1` or `mps`.

    Attributes:
        bundle: the model as it was last read or written; None before anything is learned.
        notes: remarks on the last folder: unreadable files, duplicates, images known under another name.

    Example:
        >>> import tempfile
        >>> from PIL import Image
        >>> folder, noise = Path(tempfile.mkdtemp()), np.random.default_rng(0)
        >>> for name in ("cat", "dog"):
        ...     (folder / "photos" / name).mkdir(parents=True)
        ...     for k in range(4):
        ...         image = Image.fromarray(noise.integers(0, 256, (8, 8), dtype=np.uint8))
        ...         image.save(folder / "photos" / name / f"{k}.png")
        >>> learner = Learner(folder / "pets.upcl").learn(folder / "photos", epochs=1, backbone="small")
        >>> learner.classes, learner.forget("dog").classes
        (['cat', 'dog'], ['cat'])
    """

    def __init__(self, path: str | Path, *, device: str = "auto") -> None:
        super().__init__(Path(path))
        self.device = select_device(device)
        self.notes: list[str] = []
        self._predictor: Predictor | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_predictor": None}  # rebuilt on first use; it holds a lock

    # learning

    def learn(
        self,
        folder: str | Path,
        learn_options: LearnOptions | None = None,
        on_epoch: EpochCallback | None = None,
        **options: Any,
    ) -> Learner:
        """Learn the images of a folder: new classes, and more images of known ones.

        The file is replaced when everything is done. An interrupted update resumes when the same call is repeated.

        Args:
            folder: its sub-folders are the classes; or `train` and `test` folders of such sub-folders.
            learn_options: options of the update.
            on_epoch: called after every epoch with an `EpochResult`.
            options: fields of `LearnOptions`, as in `learn("birds", memory="50/class")`; they override `learn_options`.

        Raises:
            UserError: if no image can be learned from, an option is wrong, or known classes lose too much accuracy.
        """
        chosen, root = dataclasses.replace(learn_options or LearnOptions(), **options), Path(folder)
        listing = list_image_files(root)
        existing, side = self.bundle.spec if self.bundle else None, typical_side(listing.files)
        if works_on_features(chosen, existing, side):
            return self._learn_features(root, listing, chosen, on_epoch)
        files = inspect_files(listing.files)
        train, held_out = self._split(root, listing, files, split_files)
        if reason := "" if existing else scratch_reason(chosen, side):
            logger.warning(reason)
        size, channels = shape = choose_image_shape(chosen, files, existing, self.path)
        with preserve_rng_state():  # mistakes are found before images are decoded and the lock file is written
            check_options(self.path, existing, shape, chosen, self.device)
        with self.exclusive():
            decoded = [
                decode_images([file.path for file in part], size, channels, root.name) for part in (train, held_out)
            ]
            names = [[file.label for file in part] for part in (train, held_out)]
            return self._update(NewImages(decoded[0], names[0], decoded[1], names[1]), chosen, on_epoch)

    def _learn_features(
        self, root: Path, listing: FolderListing, options: LearnOptions, on_epoch: EpochCallback | None
    ) -> Learner:
        """Compute the features of all photos in one pass, and learn from them."""
        spec = feature_spec(options, self.bundle.spec if self.bundle else None, self.path)
        with self.exclusive():
            extractor = feature_extractor(spec, self.bundle.state if self.bundle else None, self.device)
            photos = extract_photos(listing.files, spec.size, *extractor)
            train, held_out = self._split(root, listing, photos.files, division_of(spec))
            new = photos.offer(train, held_out, undecided=decides_sides(spec) and not held_out)
            return self._update(new, options, on_epoch, spec)

    def _split(
        self, root: Path, listing: FolderListing, files: Sequence[ImageFile], divide: Division
    ) -> tuple[list[ImageFile], list[ImageFile]]:
        """Images to learn from and to hold out; remarks on the folder are noted."""
        report = report_on(root, listing, files)
        self.notes = list(report.notes())
        readable = [file for file in files if not file.error]
        train, held_out = divide(readable)
        if not train:
            first = "" if not report.broken else f"; first error: {report.broken[0][0]}: {report.broken[0][1]}"
            raise UserError(f"{printable_path(root)} contains no readable image to learn from{first}")
        self.notes += note_untrained_classes(train, held_out, self.classes)
        return train, held_out

    def learn_images(
        self, images: NewImages, learn_options: LearnOptions | None = None, on_epoch: EpochCallback | None = None
    ) -> Learner:
        """Learn images in memory, as `learn` does from a folder.

        Args:
            images: images to learn from and to hold out; all updates of a model need images of the same size, unless
                it works on features of a pretrained backbone.
            learn_options: options of the update.
            on_epoch: called after every epoch with an `EpochResult`.
        """
        options, existing = learn_options or LearnOptions(), self.bundle.spec if self.bundle else None
        with self.exclusive():
            if not works_on_features(options, existing, side=0):
                return self._update(images, options, on_epoch)
            spec = feature_spec(options, existing, self.path)
            compute, _ = feature_extractor(spec, self.bundle.state if self.bundle else None, self.device)
            return self._update(undivided(extract_images(images, spec, compute), spec), options, on_epoch, spec)

    def learn_features(self, images: NewImages, spec: ModelSpec, note: str = "") -> Learner:
        """Learn photos whose features are known.

        Args:
            images: features to learn from and to hold out.
            spec: as `feature_spec` returns it.
            note: a remark for the history.
        """
        with self.exclusive():
            self._update(images, LearnOptions(), None, spec)
            if note:
                self.replace(self.require_bundle().with_note(note))
        return self

    def _update(
        self,
        images: NewImages,
        options: LearnOptions,
        on_epoch: EpochCallback | None,
        spec: ModelSpec | None = None,
    ) -> Learner:
        with preserve_rng_state():
            plan = plan_update(self.path, self.bundle, images, options, self.device, spec)
            self.notes += plan.intake.notes
            bundle = with_pictures(apply_update(plan, on_epoch), images.photos)
        self.replace(bundle)
        remove_work_folder(plan.work_folder)
        return self

    def _set_bundle(self, bundle: Bundle | None, method: Method[Any] | None = None) -> None:
        super()._set_bundle(bundle)
        self._predictor = Predictor(method, bundle.spec, bundle.state) if bundle and method else None

    # predicting

    @property
    def predictor(self) -> Predictor:
        """The model with its weights loaded, ready to predict; built on first use after each change."""
        if self._predictor is None:
            bundle = self.require_bundle()
            self._predictor = Predictor(self._restore(bundle.state), bundle.spec, bundle.state)
        return self._predictor

    def predict(self, images: str | Path | Sequence[str | Path]) -> np.ndarray:
        """Predict the class of image files.

        Args:
            images: one path or several.

        Returns:
            A name for each file; "none of these" for images that resemble nothing learned.

        Raises:
            UserError: if a file cannot be read.
        """
        paths = [Path(path) for path in ([images] if isinstance(images, str | Path) else images)]
        results = self.predictor.predict_files(paths, top=1, num_workers=os.cpu_count() or 1)
        names = []
        for path, result in zip(paths, results, strict=True):
            if result.prediction is None:
                raise UserError(f"{printable_path(path)} cannot be read: {result.error}")
            names.append(result.prediction.name)
        return np.array(names)

    def _restore(self, state: ModelState) -> Method[Any]:
        """The method with the weights and exemplars of a state."""
        try:
            with preserve_rng_state():
                method = make_method(self.require_bundle().spec, len(state.classes), self.device)
                restore_state(method, state)
        except (RuntimeError, KeyError, TypeError, ValueError, UserError) as error:
            raise ModelFileError(f"{self.path} is damaged: its weights do not fit its network: {error}") from None
        return method

    # changing

    def rollback(self, step: int) -> Learner:
        """Return to the state after an earlier step; later steps are removed from the file.

        Args:
            step: number of the step, as `upcl history` lists it. The ten most recent steps are stored.

        Raises:
            UserError: if the step is not stored.
        """
        with self.exclusive():
            bundle = self.require_bundle()
            if step not in bundle.states:
                stored = str(sorted(bundle.states))[1:-1]
                raise UserError(f"step {step} is not stored in {self.path}: choose from {stored}")
            self.replace(bundle.rolled_back(step))
        return self

    def forget(self, name: str) -> Learner:
        """Remove a class with its images and statistics, and every earlier state, since those still have them.

        Args:
            name: name of the class.

        Raises:
            UserError: if the class is unknown or the only one.
        """
        with self.exclusive():
            bundle = self.require_bundle()
            if name not in self.classes:
                raise unknown_choice(f"class of {self.path.name}", name, self.classes)
            if len(self.classes) == 1:
                raise UserError(f"'{name}' is the only class: remove the file instead")
            self.replace(forget_class(bundle, name, self._restore(bundle.state)))
            remove_work_folder(work_folder(self.path))  # its checkpoints have the exemplars of all classes
        return self

    def rename(self, name: str, new: str) -> Learner:
        """Give a class another name.

        Args:
            name: the present name.
            new: the new name.
        """
        with self.exclusive():
            self.replace(rename_class(self.require_bundle(), name, new))
        return self

    def merge(self, name: str, into: str) -> Learner:
        """Make one class of two.

        Args:
            name: the class that disappears.
            into: the class that gets its photos.
        """
        with self.exclusive(), preserve_rng_state():
            self.replace(merge_classes(self.require_bundle(), name, into, self.device))
        return self

    def correct(self, photo: str | Path, name: str) -> str:
        """Move a photo that was learned to another class.

        Args:
            photo: the file; it is recognised by its content.
            name: the class that it belongs to.

        Returns:
            The class that it had.

        Raises:
            UserError: if the photo or the class is unknown, or the classifier is not in closed form.
        """
        with self.exclusive(), preserve_rng_state():
            bundle, before = move_photo(self.require_bundle(), photo_digest(photo), name, self.device)
            self.replace(bundle)
        return before

    def forget_photo(self, photo: str | Path) -> str:
        """Remove a photo: the model is then the same as if it had never seen it. Earlier states are removed, too.

        Args:
            photo: the file; it is recognised by its content.

        Returns:
            The class that it had.

        Raises:
            UserError: if the photo is unknown or the only one of its class, or the classifier is not in closed form.
        """
        with self.exclusive(), preserve_rng_state():
            bundle, before = remove_photo(self.require_bundle(), photo_digest(photo), self.device)
            self.replace(bundle)
            remove_work_folder(work_folder(self.path))
        return before
