"""A model that changes in quick steps, which are settled when nothing changes any more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from upcl.core.seeding import preserve_rng_state
from upcl.model.bundle import Bundle
from upcl.model.photo_changes import Step, settle
from upcl.model.quick_steps import Known, find_known, gram_of_features, stored_known

from .collection import Collection


class SettlingModel(Collection):
    """A model and its photos. Each change is saved at once; what a quick one takes from the step before is chosen
    again later.

    Args:
        path: the `.upcl` file; it need not exist yet.
        device: where to compute.

    Example:
        >>> SettlingModel(Path("birds.upcl")).bundle is None  # doctest: +SKIP
        True
    """

    def __init__(self, path: Path, device: str = "auto") -> None:
        super().__init__(path, device)
        self._known: Known | None = None
        self._settled, self._changed = True, time.monotonic()
        self._model_version = 0  # changes with every change of the model

    def _reload(self) -> None:
        with self._changing():
            self._known = None

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Change the model: it is read again if another process replaced it."""
        with self._lock:
            with self.learner.exclusive():
                pass
            yield
            self._version += 1
            self._model_version += 1
            self._changed = time.monotonic()

    def _change(self, change: Callable[[Bundle, Known | None], Step | None], *, quick: bool) -> None:
        """Apply a change of the model and save it, or remove the model if nothing is left of it."""
        with self._changing(), preserve_rng_state():
            bundle = self.learner.require_bundle()
            known = (self._known or stored_known(bundle, self.learner.device)) if quick else None
            step = change(bundle, known)
            self._replace(step) if step else self._remove_model()
            self._settled = known is None
            self._known = Known(known.strength, gram_of_features(step.method)) if known and step else None

    def _replace(self, step: Step) -> None:
        with self.learner.exclusive():
            self.learner.replace(*step)

    def _remove_model(self) -> None:
        with self.learner.exclusive():
            self.learner.path.unlink(missing_ok=True)
            self.learner.close()

    def _find_known(self) -> None:
        """Find the regularisation that quick steps need, before the first of them."""
        with self._lock:
            bundle, version = self.bundle, self._model_version
        if bundle and not self._known:
            with preserve_rng_state():
                known = find_known(bundle, self.learner.device)
            with self._lock:
                if version == self._model_version:  # nothing has changed in the meantime
                    self._known = known

    def _settle_once(self) -> None:
        with self._lock:
            bundle, version = self.bundle, self._model_version
        if bundle is None or self._settled:
            return
        with preserve_rng_state():
            better = settle(bundle, self.learner.device)
            known = stored_known(better.bundle, self.learner.device)
        with self._lock:
            if version == self._model_version:
                self._replace(better)
                self._version += 1
                self._model_version += 1
                self._settled, self._known = True, known._replace(gram=gram_of_features(better.method))
