"""Networks of timm (PyTorch Image Models) as backbones: `timm:NAME`."""

from __future__ import annotations

from types import ModuleType

from torch import Tensor

from upcl.core.errors import UserError, unknown_choice

from .extractors import FeatureExtractor

PREFIX = "timm:"


class TimmBackbone(FeatureExtractor):
    """A network of timm without its classifier, freshly initialised.

    Args:
        name: its name in timm, perhaps with the tag of its weights, such as `resnet18.a1_in1k`.
        channels: channels of the images.

    Raises:
        UserError: if timm is not installed or has no such network.

    Example:
        >>> TimmBackbone("test_resnet").dim  # doctest: +SKIP
        96
    """

    def __init__(self, name: str, channels: int = 3) -> None:
        super().__init__()
        timm = import_timm()
        if not timm.is_model(name):
            raise unknown_choice("network of timm", name, timm.list_models())
        self.net = timm.create_model(name, pretrained=False, num_classes=0, in_chans=channels)
        self.dim = int(getattr(self.net, "head_hidden_size", self.net.num_features))

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.net(images)
        return features

    @property
    def classifiers(self) -> tuple[str, ...]:
        """How the names of the classifier's tensors begin in files of weights."""
        names = self.net.pretrained_cfg.get("classifier") or ()
        return tuple(f"{name}." for name in ([names] if isinstance(names, str) else names))


def import_timm() -> ModuleType:
    """Import timm.

    Raises:
        UserError: if it is not installed, or cannot be imported.

    Example:
        >>> import_timm().__name__  # doctest: +SKIP
        'timm'
    """
    try:
        import timm
    except ImportError as error:
        raise UserError(f"networks of timm need {error.name}: pip install 'upcl[timm]'") from None
    except RuntimeError as error:  # a torchvision that was built for another torch
        raise UserError(f"timm cannot be imported: {error}; torch and torchvision must belong together") from None
    module: ModuleType = timm
    return module
