"""The model that a service answers with: read again when its file has been replaced."""

from __future__ import annotations

import threading

from upcl.core.progress import logger
from upcl.data.io.paths import printable_path
from upcl.model.learner import Learner
from upcl.model.store import file_version

from .service import Service


class ServedModel:
    """The latest model of a file. A file that cannot be read leaves the model that was read before in service.

    Args:
        learner: the model.

    Example:
        >>> import numpy as np
        >>> from upcl import GrowingClassifier
        >>> images = np.random.default_rng(0).integers(0, 256, (8, 8, 8), dtype=np.uint8)
        >>> learner = GrowingClassifier(epochs=1).fit(images, ["cat", "dog"] * 4).learner_
        >>> model = ServedModel(learner)
        >>> model.latest().describe().classes
        ['cat', 'dog']
    """

    def __init__(self, learner: Learner) -> None:
        self._service, self._version = Service(learner), learner.file_version
        self._lock = threading.Lock()

    def latest(self) -> Service:
        """Return the service with the model as it is in the file now.

        Requests that are being answered keep the service that they began with.
        """
        learner = self._service.learner
        with self._lock:
            try:
                version = file_version(learner.path)
                if version != self._version:
                    self._version = version  # a file that cannot be read is tried once
                    self._service = Service(Learner(learner.path, device=str(learner.device)))
                    logger.warning("%s has changed: the new model is served", printable_path(learner.path))
            except Exception as error:  # whatever is wrong with the new file, the old model can be served
                message = "%s has changed and cannot be read; the model read before is still served: %s"
                logger.warning(message, printable_path(learner.path), error)
            return self._service
